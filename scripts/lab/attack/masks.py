"""The attack on the masks: one or two members announce mask keys that they have copied.

All other members are real party processes. The attackers copy the key of a member, as it is or in
another encoding. They answer last in every round, with numbers that make the total possible, and
add up the releases whose masks would cancel if two pairs shared a stream. The relay helps them: it
passes on keys that it should drop. Each case also runs against parties without proofs of
possession, and against parties whose pair hashes also have no names. Against these it must succeed.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party import keys
from party.ledger.session_ledger import Ledger
from party.model.best_response import subproblem
from party.model.company_model import CompanyModel
from party.network.link import Link
from party.network.mesh_link import MeshLink
from party.network.relay_link import RelayLink
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TOPOLOGIES
from protocol.errors import BadMessage
from protocol.numeric import Ticks
from protocol.privacy.calibration import Calibration
from protocol.rounds import RoundState, numbers
from protocol.session.effects import Effect, Fail, Leave, Record, Respond, Send
from protocol.session.machine import Session
from protocol.wire.codec import Reader
from protocol.wire.messages import NONCE_BYTES, MaskKey, Release, Signed
from scripts.lab.attack import page
from scripts.lab.attack.weakened_party import WITHOUT
from scripts.lab.common.agreements import table
from scripts.lab.common.instances import Instance, draw
from scripts.lab.common.local_session import LocalSession, coordinator_command, party_command
from scripts.lab.common.workspace import equip

HONEST = "opvwx"
ROUNDS = 4
RESOURCES = 3
PACE = 0.05
NOISE_WIDTHS = 10.0
"""A number counts as read if it is within this many σ of the member's own noise."""

_PATIENCE = 300.0
_SECONDS = 240.0  # for one session, even on a busy machine
_COLUMNS = ("attack", "members", "topology", "defences", "the session", "numbers read")
_DEFENCES = {"nothing": "all", "proof": "names of pairs only", "both": "none"}
_MEANING = (
    "Numbers read: how many of the victims' released numbers, over all rounds, the attackers know: "
    "to the tick or, with noise, up to the victim's own noise. With all defences the copied key is "
    "refused and nothing is released."
)


class Case(Struct, frozen=True):
    """Which members copy keys. In a roster `o` is copied, `v` and `w` are victims, `m` and `n`
    attack."""

    name: str
    roster: str
    copies: dict[str, str]
    flipped: bool = False
    noise: bool = False
    difference: bool = False
    """A second session without `v` is subtracted, which leaves the numbers of `v` alone."""

    @property
    def victims(self) -> str:
        return "".join(name for name in self.roster if name in "vwx")


CASES = (
    Case("a copied key", "ovm", {"m": "o"}),
    Case("a copied key, its sign flipped", "ovm", {"m": "o"}, flipped=True),
    Case("a copied key, with noise", "ovm", {"m": "o"}, noise=True),
    Case("a copied key, two victims", "ovwm", {"m": "o"}),
    Case("a copied key, three victims", "ovwxm", {"m": "o"}),
    Case("two copied keys", "opvmn", {"m": "o", "n": "p"}),
    Case("two sessions", "ovwm", {"m": "o"}, difference=True),
)


class Seen(Struct, frozen=True):
    """What the attackers know of a session: all rounds, or none where a key was refused."""

    agreement: Agreement
    rounds: list[tuple[RoundState, Ticks]]
    refused_by: frozenset[str]


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--topology", choices=TOPOLOGIES, nargs="+", help="topologies (relay)")
    add("--page", type=Path, metavar="FILE", help="write the table into its section of this page")


def masks(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Run every case against parties with all, some and no defences, and show what was read."""
    cases = CASES[:1] if chosen.quick else CASES
    topologies = chosen.topology or TOPOLOGIES[:1]
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sessions", total=len(cases) * len(topologies) * len(WITHOUT))
        for topology in topologies:
            for case in cases:
                for without in WITHOUT:
                    rows.append(attacked(case, topology, without, seed=chosen.seed))
                    progress.advance(task)
    shown = Table(title="numbers that members with copied mask keys read")
    for index, name in enumerate(_COLUMNS):
        shown.add_column(name, justify="right" if index in (1, 5) else "left")
    for row in rows:
        shown.add_row(*_cells(row))
    console.print(shown)
    console.print(_MEANING, highlight=False)
    if chosen.page:
        lines = page.grid(_COLUMNS, [*map(_cells, rows)], len(_COLUMNS))
        command = f"`scripts/attack masks --topology {' '.join(topologies)} --seed {chosen.seed}`."
        page.put(chosen.page, "Copied mask keys", [command, "", _MEANING, "", *lines])
    return rows


def _cells(row: dict[str, Any]) -> list[str]:
    end = "the copier is refused" if row["refused"] else "ends as if nothing were wrong"
    read = f"{row['read']} of {row['numbers']}" if row["numbers"] else "none released"
    about = [row["attack"], f"{row['members']}", row["topology"], _DEFENCES[row["without"]]]
    return [*about, end, read]


def attacked(case: Case, topology: str, without: str, *, seed: int) -> dict[str, Any]:
    """Run one case, and count what was read of the victims."""
    seen = session(case, topology, without, seed=seed)
    found, truth = read_sums(case, seen), true_sums(case, seen, case.victims, seed=seed)
    if case.difference and seen.rounds:
        fewer = replace(case, roster=case.roster.replace("v", ""))
        again = session(fewer, topology, without, seed=seed)
        found = found - read_sums(fewer, again)
        truth = truth - true_sums(fewer, again, fewer.victims, seed=seed)
    near = 0.0
    if case.noise:
        calibration = Calibration(seen.agreement)
        own = calibration.scales(quantities(seen.agreement).share_ticks)[case.roster.index("v")]
        near = NOISE_WIDTHS * float(own.max())
    # As Python integers: the difference of two 64-bit numbers may not fit into 64 bits.
    both = zip(found.ravel().tolist(), truth.ravel().tolist(), strict=True)
    return {
        "attack": case.name,
        "members": len(case.roster),
        "topology": topology,
        "without": without,
        "refused": sorted(seen.refused_by),
        "numbers": int(truth.size),
        "read": sum(abs(one - other) <= near for one, other in both),
    }


def session(case: Case, topology: str, without: str, *, seed: int) -> Seen:
    """Run one session of real parties with the attackers of the case."""
    instance, data = _companies(seed)
    private = {"epsilon": 8.0, "delta": 0.001, "colluders": 1} if case.noise else {}
    terms = table(
        session=f"masks-{case.roster}",
        mode="private" if case.noise else "exact",
        reveal="totals",
        rounds=ROUNDS,
        capacity=instance.capacity,
        members=[{"name": name} for name in case.roster],
        privacy=private,
        prices={"step": "constant", "step_size": 0.1},
        pace=PACE if case.noise else None,
    )
    home = argparse.Namespace(topology=topology, patience=_PATIENCE, rehearsal=False, seed=seed)
    role = ("-m", "scripts.lab.attack.weakened_party")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sotto-")))
        models = [data.get(name, instance.data[0]) for name in case.roster]
        agreement = equip(folder, terms, models, home)
        honest = [name for name in case.roster if name not in case.copies]
        running = stack.enter_context(LocalSession(folder, home, honest))
        # The relay helps the attackers: it passes on all that they announce.
        helping = coordinator_command(folder, role=(*role, "proof", "coordinator"))
        running.launch("coordinator", helping)
        for name in honest:
            command = party_command(folder, name, home, role=(*role, without, "party"))
            running.launch(name, command)
        attackers = Attackers(case, agreement, folder, stack)
        return attackers.play(running)


def _companies(seed: int) -> tuple[Instance, dict[str, CompanyModel]]:
    """The models of all honest members, by name."""
    instance = draw(
        seed,
        parties=len(HONEST),
        resources=RESOURCES,
        share_first=None,
        share_total=None,
        demands=False,
    )
    return instance, dict(zip(HONEST, instance.data, strict=True))


def read_sums(case: Case, seen: Seen) -> Ticks:
    """The attackers' estimate of the sum of the victims' numbers: rounds by resources."""
    victims = [seen.agreement.place(name) for name in case.victims]
    rows = [released[victims].sum(axis=0) for _, released in seen.rounds]  # wraps, as masks do
    return np.array(rows, dtype=np.int64).reshape(-1, RESOURCES)


def true_sums(case: Case, seen: Seen, names: str, *, seed: int) -> Ticks:
    """The true demand of these members in each round. No attacker has it."""
    agreement, (_, data) = seen.agreement, _companies(seed)
    problems = {name: subproblem(data[name], agreement, name) for name in names}
    rows = []
    for state, _ in seen.rounds:
        total = np.zeros(RESOURCES, dtype=np.int64)
        for problem in problems.values():
            answer = problem.answer(state.prices.current)
            if answer is None:
                raise RuntimeError(f"a model of {case.name!r} has no answer")
            ticks = np.rint(answer.demand / quantities(agreement).capacity * agreement.ticks)
            total += np.clip(ticks, 0, agreement.ticks).astype(np.int64)
        rows.append(total)
    return np.array(rows, dtype=np.int64).reshape(-1, RESOURCES)


class Attackers:
    """Members that copy keys. Each has its own link and session; they share what they know."""

    def __init__(self, case: Case, agreement: Agreement, folder: Path, stack: ExitStack) -> None:
        self._case = case
        self._agreement = agreement
        self._members = {
            name: stack.enter_context(closing(Attacker(agreement, folder, name)))
            for name in case.copies
        }

    def play(self, running: LocalSession) -> Seen:
        """Run until all rounds are closed, or every honest member has refused a key."""
        until = time.monotonic() + _SECONDS
        for member in self._members.values():
            member.begin()
        while time.monotonic() < until:
            for member in self._members.values():
                member.receive()
                self._answer(member)
            if all(member.left for member in self._members.values()):
                return self._seen(running)
            if self._refused(running) == frozenset(running.names):
                return self._seen(running)
        raise TimeoutError(f"{self._case.name!r} did not end in time")

    def _seen(self, running: LocalSession) -> Seen:
        first = next(iter(self._members.values()))
        return Seen(self._agreement, first.closed, self._refused(running))

    def _refused(self, running: LocalSession) -> frozenset[str]:
        """The honest members that report that they drop a copied key."""
        return frozenset(
            name
            for name, events in running.events.items()
            if any("does not prove that it owns" in event.get("why", "") for event in events)
        )

    def _answer(self, member: "Attacker") -> None:
        """Announce a key once it can be copied; release once all others have released."""
        state = member.asked
        if state is None:
            return
        messages = member.messages_of(state)
        if state.unpaired:
            owner = messages.get(self._case.copies[member.name])
            if owner is not None and isinstance(owner.message, MaskKey):
                member.announce(owner.message, flipped=self._case.flipped)
            return
        last = member is next(iter(self._members.values()))
        others = set(self._case.roster) - (set() if last else self._members.keys()) - {member.name}
        if others <= messages.keys():
            member.release(numbers(tuple(messages[name] for name in others)) if last else None)


class Attacker:
    """One attacking member."""

    def __init__(self, agreement: Agreement, folder: Path, name: str) -> None:
        self.name = name
        self.asked: RoundState | None = None
        self.left = False
        self.closed: list[tuple[RoundState, Ticks]] = []
        self._agreement = agreement
        self._who = keys.load(folder / name / f"{name}.key")
        self._ledger = Ledger(":memory:", agreement, name)
        self._link: Link
        if agreement.transport.topology == "mesh":
            at = "tcp://127.0.0.1:*"
            self._link = MeshLink(agreement, self._who, self._ledger, at, lambda _: None)
        else:
            self._link = RelayLink(agreement, self._who)
        self._reader = Reader(agreement)
        self._reader._require_owned = lambda *_, **__: None  # it accepts its own copied key
        self._session = Session(
            agreement,
            name,
            nonce=os.urandom(NONCE_BYTES),
            pack=self._who.pack,
            now=time.monotonic(),
        )
        self._session._faults._reader._require_owned = lambda *_, **__: None
        self._received: dict[tuple[str, int], Signed] = {}
        self._opened: dict[int, RoundState] = {}

    def close(self) -> None:
        self._link.close()
        self._ledger.close()

    def begin(self) -> None:
        self._carry(self._session.begin(time.monotonic()))

    def receive(self) -> None:
        """Receive messages, and let timers run."""
        for _, data in self._link.receive(0.005):
            try:
                signed = self._reader.unpack(data)
            except BadMessage:
                continue
            message = signed.message
            if isinstance(message, Release | MaskKey):
                number = message.round if isinstance(message, Release) else -1
                self._received[message.sender, number] = signed
            self._carry(self._session.receive(signed, time.monotonic()))
        if time.monotonic() >= self._session.deadline:
            self._carry(self._session.tick(time.monotonic()))

    def messages_of(self, state: RoundState) -> dict[str, Signed]:
        """The messages of members in the open exchange."""
        number = -1 if state.unpaired else state.round
        return {sender: signed for (sender, at), signed in self._received.items() if at == number}

    def announce(self, owner: MaskKey, *, flipped: bool) -> None:
        """Sign another member's key as the attacker's own."""
        key = owner.key
        if flipped:  # the negated point, which has the same image of X25519
            key = key[:-1] + bytes([key[-1] ^ 0x80])
        self._submit(self._who.pack(replace(owner, sender=self.name, key=key)))

    def release(self, others: Ticks | None) -> None:
        """Release numbers that make the total of the round the capacity, or zeros."""
        state = self.asked
        if state is None:
            return
        values = np.zeros(RESOURCES, dtype=np.int64)
        if others is not None:
            values = self._agreement.ticks - others.sum(axis=0)  # wraps
        release = Release(
            sender=self.name,
            agreement=self._agreement.digest,
            round=state.round,
            chain_hash=state.chain_hash,
            values=tuple(values.tolist()),
            masked=True,
        )
        self._submit(self._who.pack(release))

    def _submit(self, signed: Signed) -> None:
        self.asked = None
        message = signed.message
        number = message.round if isinstance(message, Release) else -1
        self._received[message.sender, number] = signed
        self._carry(self._session.submit(signed, time.monotonic()))

    def _carry(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._link.publish(effect.signed.data)
            elif isinstance(effect, Record) and effect.round is not None:
                self.closed.append((self._opened[effect.round], numbers(effect.messages)))
            elif isinstance(effect, Respond) and effect.state.uncommitted:
                self.left = True  # it has seen all rounds, and does not commit to anything
            elif isinstance(effect, Respond):
                self.asked = effect.state
                self._opened[effect.state.round] = effect.state
            elif isinstance(effect, Leave):
                self.left = True
            elif isinstance(effect, Fail):
                raise effect.error
