"""One real party with simulated peers: what a party computes with any number of them.

`python -m scripts.lab.bench.measure.single_party '{"parties": 1000}'` runs some rounds and prints
the figures. The party is real (session, gate, solver, noise, signatures, a ledger on the disk). Its
peers sign meaningless numbers, and there are no sockets, so that a thousand parties fit on one
machine. Only the CPU of the real party counts, by component as in `profile`.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from party.driver import Driver
from party.keys import Identity, generate
from party.ledger.session_ledger import Ledger
from party.model.best_response import subproblem
from party.model.company_model import CompanyModel
from party.release.gate import Gate
from party.release.noise import DRAWN_AHEAD, DiscreteGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table, parse
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.agreement.schema import TICKS
from protocol.privacy.calibration import Calibration
from protocol.wire.codec import SIGNATURE_BYTES, Reader, pack
from protocol.wire.messages import Hello, Message, Release, Signed
from scripts.lab.bench.measure.companies import draw_sparse
from scripts.lab.bench.measure.profile import COMPONENT_CALLS, calibrated, install
from scripts.lab.common.agreements import table

HANDSHAKE_LIMIT = 1_000
"""With more parties than this the handshake is skipped: it would take longer than all rounds."""

OFFLINE = tuple(name for name in COMPONENT_CALLS if name not in ("wire", "log"))
"""The components of a party without sockets and log."""


class Setting(Struct, frozen=True):
    """One point to measure."""

    parties: int = 5
    resources: int = 5
    columns: int = 15
    rounds: int = 4 * DRAWN_AHEAD
    skipped: int = 10
    seed: int = 1


class Keys:
    """A simulated member that can only sign."""

    def __init__(self, index: int, seed: int) -> None:
        self.name = f"peer{index}"
        secret = np.random.default_rng([seed, index]).bytes(32)
        self.public, self._secret = crypto_sign_seed_keypair(secret)

    def sign(self, data: bytes) -> bytes:
        return crypto_sign(data, self._secret)[:SIGNATURE_BYTES]

    def pack(self, message: Message) -> Signed:
        return pack(message, key=self.public, sign=self.sign)


def agreed(setting: Setting, party: Identity, peers: list[Keys]) -> Agreement:
    """All members may claim all capacities; ε = 1, as in the demonstration."""
    capacity = np.random.default_rng(setting.seed).uniform(10.0, 20.0, setting.resources)
    return from_table(
        table(
            session="alone",
            mode="private",
            rounds=setting.rounds + setting.skipped,
            capacity=capacity * max(1.0, setting.columns / 15),
            members=[
                {"name": party.name, "signing_key": party.signing_key.hex()},
                *({"name": peer.name, "signing_key": peer.public.hex()} for peer in peers),
            ],
            worth=100.0,
            privacy={"epsilon": 1.0, "delta": 1e-3},
        )
    )


def company(setting: Setting) -> CompanyModel:
    """A company with as many private rows for its columns as the paper's companies."""
    rows = max(2, setting.columns // 2)
    return draw_sparse(setting.seed, rows, setting.columns, setting.resources)


class Party:
    """The real party. It receives messages in the same way as in `PartyLoop`."""

    def __init__(
        self, agreement: Agreement, identity: Identity, data: CompanyModel, ledger: Ledger
    ) -> None:
        self._reader = Reader(agreement)
        self.executor = Driver(
            agreement,
            identity.name,
            nonce=bytes(range(16)),
            pack=identity.pack,
            gate=Gate(
                agreement,
                identity.name,
                subproblem=subproblem(data, agreement, identity.name),
                noise=DiscreteGaussian(),
                ledger=ledger,
                pack=identity.pack,
            ),
            ledger=ledger,
        )

    def hear(self, messages: list[bytes]) -> None:
        for data in messages:
            if self.executor.session.holds(data):
                continue
            if self.executor.receive(self._reader.unpack(data), 0.0):
                self.executor.run_idle_work()


class Peers:
    """All other members. They follow the party's round state."""

    def __init__(self, agreement: Agreement, keys: list[Keys], party: Party, seed: int) -> None:
        self._agreement, self._keys, self._session = agreement, keys, party.executor.session
        self._random = np.random.default_rng(seed)
        self._sigma = Calibration(agreement).scales(quantities(agreement).share_ticks)[0]

    def hellos(self, hello: Message) -> list[bytes]:
        """Answers to the party's hello. With too many peers only the last one answers."""
        if not isinstance(hello, Hello):
            raise TypeError("the party begins with a hello")
        given = self._keys
        if len(given) > HANDSHAKE_LIMIT:
            given = given[-1:]
            self._session._handshake.answered |= {keys.name for keys in self._keys[:-1]}
        return [
            keys.pack(
                Hello(
                    sender=keys.name,
                    agreement=self._agreement.digest,
                    round=0,
                    chain_hash=self._session.state.chain_hash,
                    nonce=bytes(16),
                    wants_reply=False,
                    recorded=0,
                    nonce_digest=bytes(32),
                    echo=hello.nonce,
                )
            ).data
            for keys in given
        ]

    def releases(self) -> list[bytes]:
        """Equal demands, with noise as the agreement requires."""
        count, state = len(self._keys), self._session.state
        drawn = self._random.standard_normal((count, self._agreement.width)) * self._sigma
        values = np.rint(drawn + TICKS / (count + 1)).astype(np.int64).tolist()
        return [
            keys.pack(
                Release(
                    sender=keys.name,
                    agreement=self._agreement.digest,
                    round=state.round,
                    chain_hash=state.chain_hash,
                    values=tuple(numbers),
                )
            ).data
            for keys, numbers in zip(self._keys, values, strict=True)
        ]


def play(setting: Setting, folder: Path) -> dict[str, Any]:
    """CPU microseconds of the party per round, and other figures that grow."""
    clock = calibrated(tuple(COMPONENT_CALLS))
    install(clock)
    identity = generate("party")
    keys = [Keys(index, setting.seed) for index in range(1, setting.parties)]
    text = written(agreed(setting, identity, keys))
    began = time.thread_time()
    agreement = parse(text)
    agreement_seconds = time.thread_time() - began
    ledger = Ledger(folder / "party.ledger", agreement, identity.name)
    party = Party(agreement, identity, company(setting), ledger)
    peers = Peers(agreement, keys, party, setting.seed)
    [hello] = party.executor.begin(0.0)
    answers = peers.hellos(hello.message)
    began = time.thread_time()
    party.hear(answers)
    greeting_seconds = time.thread_time() - began
    seconds = 0.0
    for t in range(setting.skipped + setting.rounds):
        if t == setting.skipped:
            seconds = 0.0
            clock.reset()
        releases = peers.releases()
        began = time.thread_time()
        party.hear(releases)
        seconds += time.thread_time() - began
    if party.executor.session.state.round != setting.skipped + setting.rounds:
        raise RuntimeError("the party did not close all rounds")
    ledger.close()
    return {
        **asdict(setting),
        "cpu_microseconds": (seconds - clock.own_seconds) / setting.rounds * 1e6,
        "parts": {name: clock.parts[name].cpu / setting.rounds * 1e6 for name in OFFLINE},
        "release_bytes": len(releases[0]),
        "hello_bytes": len(hello.data),
        "agreement_bytes": len(text),
        "agreement_seconds": agreement_seconds,
        "greeting_seconds": greeting_seconds if setting.parties <= HANDSHAKE_LIMIT else None,
        "ledger_bytes_per_round": _ledger_growth(agreement, identity, folder),
        "memory_bytes": memory_bytes(),
    }


def _ledger_growth(agreement: Agreement, identity: Identity, folder: Path) -> float:
    Ledger(folder / "empty.ledger", agreement, identity.name).close()
    full, empty = ((folder / f"{name}.ledger").stat().st_size for name in ("party", "empty"))
    return (full - empty) / agreement.rounds


def memory_bytes(process: str | int = "self") -> int | None:
    """The peak memory of a process, where the system reports it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return None
    found = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else None


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as folder:
        print(json.dumps(play(Setting(**json.loads(sys.argv[1])), Path(folder))))


if __name__ == "__main__":
    main()
