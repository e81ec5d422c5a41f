"""Masks cancel in the total and in no other sum, and follow the specification."""

import hashlib
import itertools
import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.ledger.session_ledger import Ledger
from party.release.masks import Masks, MaskSecret, pair_secret
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.errors import BadLedger, BadMessage, InternalError, UnsafeLibrary
from protocol.numeric import Ticks
from protocol.outcome.outcome import outcome
from protocol.outcome.private_quota import Allocation, allocate
from protocol.rounds import RoundEngine, RoundState, mask_keys
from protocol.wire import signatures
from protocol.wire.codec import MASK_KEY_BYTES, Reader
from protocol.wire.messages import Halt, MaskKey, Reason, Release, Signed
from protocol.wire.transcript import Transcript
from tests.reference import commitments as reading_commitments
from tests.reference import masks as reading_masks
from tests.support import ROOT
from tests.support.builders import make_agreement, sign, signer
from tests.support.ledgers import in_memory
from tests.support.wait import LIMIT

VECTORS: dict[str, Any] = json.loads(
    (ROOT / "tests" / "reference" / "vectors" / "masks.json").read_text()
)
NAMES = ("ada", "ben", "cyd", "dan")


def masked_agreement(members: int = 4, **more: Any) -> Agreement:
    return make_agreement(members=members, reveal="totals", **more)


def paired(agreement: Agreement) -> tuple[list[Masks], RoundState, list[Ledger]]:
    """The masks of all members after the exchange of keys, and the state then."""
    engine = RoundEngine(agreement)
    names = [m.name for m in agreement.members]
    ledgers = [in_memory(agreement, name) for name in names]
    masks = [
        Masks(agreement, name, ledger, signer(name))
        for name, ledger in zip(names, ledgers, strict=True)
    ]
    keys = tuple(m.key(engine.opening) for m in masks)
    for ledger in ledgers:
        ledger.record_mask_keys(keys)
    return masks, engine.pair(engine.opening, mask_keys(keys)), ledgers


def vector_ledgers() -> tuple[Agreement, list[Ledger], tuple[Signed, ...]]:
    """Ledgers that hold the keys of the vectors."""
    agreement, reader = from_table(VECTORS["agreement"]), Reader(from_table(VECTORS["agreement"]))
    keys = tuple(reader.unpack(bytes.fromhex(data)) for data in VECTORS["announced"])
    ledgers = []
    for name, key in zip(NAMES, keys, strict=True):
        ledger = in_memory(agreement, name)
        text = f"sotto vector mask key of {name}"
        ledger.record_mask_key(hashlib.sha256(text.encode()).digest(), key)
        ledger.record_mask_keys(keys)
        ledgers.append(ledger)
    return agreement, ledgers, keys


# Vectors


def test_the_vectors_are_reproduced_bit_for_bit() -> None:
    """Keys, session id, releases, totals, prices, chain hashes, quotas and payments are equal."""
    agreement, ledgers, keys = vector_ledgers()
    assert agreement.digest.hex() == VECTORS["digest"]
    assert [k.key.hex() for k in mask_keys(keys)] == VECTORS["keys"]
    engine = RoundEngine(agreement)
    assert engine.opening.chain_hash.hex() == VECTORS["head_before"]
    state = engine.pair(engine.opening, mask_keys(keys))
    assert state.chain_hash.hex() == VECTORS["session_id"]
    masks = [Masks(agreement, n, led, signer(n)) for n, led in zip(NAMES, ledgers, strict=True)]
    totals, path = [], [state.prices.current]
    for step in VECTORS["rounds"]:
        rows = [np.array(row, dtype=np.int64) for row in step["numbers"]]
        masked = [m.masked(row, state) for m, row in zip(masks, rows, strict=True)]
        assert [row.tolist() for row in masked] == step["released"]
        state = engine.advance(state, np.array(masked))
        totals.append(np.array(masked).sum(axis=0))
        assert totals[-1].tolist() == step["totals"]
        assert [price.hex() for price in state.prices.current.tolist()] == step["prices"]
        assert state.chain_hash.hex() == step["head"]
        path.append(state.prices.current)
    released = np.array([step["released"] for step in VECTORS["rounds"]], dtype=np.int64)
    known = outcome(agreement, Transcript((), keys=keys))
    known = replace(known, state=state, released=released, path=np.array(path))
    assert [price.hex() for price in known.prices.tolist()] == VECTORS["prices"]
    for row, expected in enumerate(VECTORS["parts"]):
        own = np.array([step["numbers"][row] for step in VECTORS["rounds"]], dtype=np.int64)
        made = allocate(
            agreement,
            known.rule,
            row,
            demands=own,
            unmasked=own,
            totals=known.totals,
            prices=known.prices,
        )
        assert made.quota.tolist() == expected["quota"]
        assert made.payment.hex() == expected["payment"]


@pytest.mark.parametrize(
    "vector", [pytest.param(v, id=v["name"].replace(" ", "-")) for v in VECTORS["invalid"]]
)
def test_invalid_mask_keys_are_refused(vector: dict[str, str]) -> None:
    """A key of wrong length or round, or a point that shares no secret, is a bad message."""
    with pytest.raises(BadMessage) as refused:
        Reader(from_table(VECTORS["agreement"])).unpack(bytes.fromhex(vector["bytes"]))
    assert str(refused.value) == vector["error"]


def test_every_mask_key_has_the_length_that_a_relay_expects() -> None:
    """The coordinator recognises mask keys by their length."""
    assert {len(bytes.fromhex(data)) for data in VECTORS["announced"]} == {MASK_KEY_BYTES}


# What masks do


@pytest.mark.parametrize("members", [3, 4, 5])
def test_masks_cancel_in_the_total(members: int) -> None:
    """The sum of all masked numbers is the sum of the numbers."""
    agreement = masked_agreement(members, resources=3)
    masks, state, _ = paired(agreement)
    rng = np.random.default_rng(members)
    values = rng.integers(-(1 << 48), 1 << 48, (members, 3))
    masked = np.array([m.masked(row, state) for m, row in zip(masks, values, strict=True)])
    assert masked.sum(axis=0).tolist() == values.sum(axis=0).tolist()
    assert not np.any(masked == values)


def test_masks_equal_those_of_the_reference_implementation() -> None:
    """For random keys, member by member."""
    agreement = masked_agreement(3)
    masks, state, ledgers = paired(agreement)
    keys = [k.key for k in mask_keys(ledgers[0].mask_keys())]
    for place, (mask, ledger) in enumerate(zip(masks, ledgers, strict=True)):
        values = [7 + place, -(1 << 48)]
        assert mask.masked(np.array(values), state).tolist() == reading_masks.masked(
            values,
            place,
            secret=ledger.mask_secret(),
            keys=keys,
            session=state.chain_hash,
            number=0,
            chain_hash=state.chain_hash,
        )


def test_blindings_after_a_restart_equal_those_of_the_reference_implementation() -> None:
    """A party that starts again before it commits blinds its numbers as the specification says."""
    agreement = masked_agreement(3)
    _, state, ledgers = paired(agreement)
    keys = [k.key for k in mask_keys(ledgers[0].mask_keys())]
    for place, (name, ledger) in enumerate(zip(NAMES, ledgers, strict=False)):
        anew = Masks(agreement, name, ledger, signer(name))
        pairs = reading_masks.pair_secrets(
            place, secret=ledger.mask_secret(), keys=keys, session=state.chain_hash
        )
        expected = reading_commitments.blindings(pairs, place, state.chain_hash, 3)
        assert list(anew.blindings(state, 3)) == expected
        assert list(anew.blindings(state, 3)) == expected


def test_masks_differ_between_rounds_and_chain_hashes() -> None:
    """The mask of 0 depends on the round and on the chain hash."""
    agreement = masked_agreement(3)
    masks, state, _ = paired(agreement)
    engine, zero = RoundEngine(agreement), np.zeros(2, dtype=np.int64)
    seen: list[Ticks] = []
    for values in (zero, zero + 1):
        after = engine.advance(state, np.array([values] * 3))
        seen += [
            masks[0].masked(zero, after),
            masks[0].masked(zero, engine.advance(after, zero[None])),
        ]
    seen.append(masks[0].masked(zero, state))
    assert len({row.tobytes() for row in seen}) == 5


def test_masks_differ_between_sessions() -> None:
    """Every session makes new keys, and so new masks."""
    agreement = masked_agreement(3)
    zero = np.zeros(2, dtype=np.int64)
    rows = []
    for _ in range(4):
        masks, state, _ = paired(agreement)
        rows.append(masks[0].masked(zero, state).tobytes())
    assert len(set(rows)) == 4


# What an active member can do


def hostile_keys(members: int, seed: int) -> tuple[list[MaskSecret], list[bytes], list[int]]:
    """Honest secrets, and keys some of which are copies of others, or negated copies.

    At least two members are honest. Each liar copies the key of an honest member or of a liar.
    """
    chance = random.Random(seed)
    secrets = [MaskSecret(chance.randbytes(32)) for _ in range(members)]
    keys = [secret.public for secret in secrets]
    honest = chance.sample(range(members), 2)
    liars = [p for p in range(members) if p not in honest and chance.random() < 0.6]
    for place in liars:
        copied = keys[chance.randrange(members)]
        negated = copied[:-1] + bytes([copied[-1] ^ 0x80])
        keys[place] = chance.choice((copied, negated))
    return secrets, keys, liars


@pytest.mark.parametrize("members", [3, 4, 5, 8])
def test_no_two_pairs_share_a_secret_whatever_keys_are_announced(members: int) -> None:
    """Copied and negated keys, which X25519 cannot tell apart, still give distinct secrets."""
    images = set()
    for seed in range(20):
        secrets, keys, liars = hostile_keys(members, seed)
        seen: dict[bytes, tuple[int, int]] = {}
        for own, secret in enumerate(secrets):
            for other in range(members):
                if own in liars or other == own:
                    continue
                pair = pair_secret(secret, keys, own, other, bytes(32))
                both = min(own, other), max(own, other)
                assert seen.setdefault(pair, both) == both
                images.add((seed, both, secret.shared(keys[other])))
    shared = [image for _, _, image in images]
    assert len(set(shared)) < len(shared), "some of these pairs do share a secret of X25519"


def test_two_honest_members_derive_the_same_secret() -> None:
    """Whatever others announce, the masks of two honest members cancel."""
    for seed in range(20):
        secrets, keys, liars = hostile_keys(5, seed)
        honest = [place for place in range(5) if place not in liars]
        for one in honest:
            for other in honest:
                if one != other:
                    assert pair_secret(secrets[one], keys, one, other, b"x") == pair_secret(
                        secrets[other], keys, other, one, b"x"
                    )


@pytest.mark.parametrize("members", [3, 4, 5])
def test_no_subset_of_releases_is_unmasked_by_a_copied_key(
    members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without checks of proofs, no sum over fewer than all honest members is unmasked."""
    monkeypatch.setattr(signatures, "require_owned", lambda *_, **__: None)
    agreement = masked_agreement(members)
    masks, _, ledgers = paired(agreement)
    keys = ledgers[0].mask_keys()
    first, last = mask_keys(keys)[0], mask_keys(keys)[-1]
    copied = (*keys[:-1], sign(replace(last, key=first.key)))
    engine = RoundEngine(agreement)
    state = engine.pair(engine.opening, mask_keys(copied))
    values = np.arange(2 * members).reshape(members, 2)
    for ledger in ledgers:
        ledger._file.delete(ledger._session, "keys")
        ledger.record_mask_keys(copied)
    rows = [m.masked(row, state) for m, row in zip(masks, values, strict=True)]
    honest = range(members - 1)
    for size in range(1, members):
        for some in itertools.combinations(honest, size):
            left = np.sum([rows[place] - values[place] for place in some], axis=0)
            assert (np.abs(left.astype(float)) > 2.0**40).all(), some


def test_a_halt_can_carry_all_mask_keys() -> None:
    """Mask keys are longer than short releases; a Halt with all of them is still valid."""
    for members in (3, 9):
        agreement = masked_agreement(members, resources=1)
        _, _, ledgers = paired(agreement)
        keys = ledgers[0].mask_keys()
        halt = Halt(
            sender="ada",
            agreement=agreement.digest,
            round=0,
            chain_hash=bytes(32),
            reason=Reason.HEADS_DIFFER,
            evidence=tuple(k.data for k in (*keys, keys[0])),
        )
        assert Reader(agreement).unpack(sign(halt).data).message == halt


def test_a_library_that_accepts_unsafe_points_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """If libsodium accepts points of mixed order, no masked session starts."""
    monkeypatch.setattr(signatures, "crypto_core_ed25519_is_valid_point", lambda _: True)
    with pytest.raises(UnsafeLibrary, match="accepts unsafe keys"):
        Reader(masked_agreement(3))
    Reader(make_agreement(members=3))


# What the ledger keeps, and for how long


def test_a_mask_key_is_made_once(tmp_path: Path) -> None:
    """A second call, in this process or after a crash, returns the recorded key."""
    agreement = masked_agreement(3)
    opening, path = RoundEngine(agreement).opening, tmp_path / "ledger"
    with closing(Ledger(path, agreement, "ada")) as ledger:
        first = Masks(agreement, "ada", ledger, signer("ada")).key(opening)
        assert Masks(agreement, "ada", ledger, signer("ada")).key(opening) == first
        secret = ledger.mask_secret()
        with pytest.raises(InternalError, match="one mask key"):
            ledger.record_mask_key(secret, first)
    with closing(Ledger(path, agreement, "ada")) as ledger:
        assert Masks(agreement, "ada", ledger, signer("ada")).key(opening) == first
        assert ledger.mask_secret() == secret
        assert ledger.own() == (first,)


def test_a_mask_key_is_on_the_disk_before_it_is_returned(tmp_path: Path) -> None:
    """When the gate returns the key, the ledger file holds it."""
    agreement = masked_agreement(3)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        key = Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
        kept = b"".join(p.read_bytes() for p in tmp_path.iterdir())
        assert key.data in kept
        assert ledger.mask_secret() in kept


def sealed_ledger(path: Path, agreement: Agreement) -> tuple[bytes, list[bytes]]:
    """A sealed ledger, its secret key, and its demands as stored."""
    engine, names = RoundEngine(agreement), [m.name for m in agreement.members]
    rng = np.random.default_rng(7)
    demands = rng.integers(1 << 40, 1 << 41, (agreement.rounds, 2, 2))
    with closing(Ledger(path, agreement, "ada")) as ledger:
        masks = Masks(agreement, "ada", ledger, signer("ada"))
        own = masks.key(engine.opening)
        others = [
            Masks(agreement, n, in_memory(agreement, n), signer(n)).key(engine.opening)
            for n in names[1:]
        ]
        ledger.record_mask_keys((own, *others))
        secret = ledger.mask_secret()
        for number, row in enumerate(demands):
            release = sign(
                Release(
                    sender="ada",
                    agreement=agreement.digest,
                    round=number,
                    chain_hash=bytes(32),
                    values=(1, 2),
                    masked=True,
                )
            )
            ledger.record_release(release, (row[0], row[1]))
        ledger.record_seals((own,) * 3)
        asked, unmasked = ledger.demands()
        assert asked.tolist() == demands[:, 0].tolist()
        assert unmasked.tolist() == demands[:, 1].tolist()
        known = outcome(agreement, Transcript((), keys=(own, *others)))
        ledger.record_allocation(
            allocate(
                agreement, known.rule, 0, demands=asked, unmasked=unmasked,
                totals=known.totals, prices=known.prices,
            )
        )  # fmt: skip
    return secret, [row.astype(">i8").tobytes() for pair in demands for row in pair]


def test_secrets_are_destroyed_when_they_are_no_longer_needed(tmp_path: Path) -> None:
    """After the seals no file holds the secret key, after the settlement none a demand."""
    agreement = masked_agreement(3, rounds=50)
    secret, demands = sealed_ledger(tmp_path / "ledger", agreement)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert secret not in content
        assert not [row for row in demands if row in content]
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        assert isinstance(ledger.own()[0].message, MaskKey)
        assert ledger.allocation() is not None
        with pytest.raises(BadLedger, match="the mask key of an unfinished session is missing"):
            ledger.mask_secret()


def test_the_database_log_holds_no_secret_after_the_seals(tmp_path: Path) -> None:
    """The secret leaves the log when the seals are recorded, not when the process ends."""
    agreement = masked_agreement(3)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        own = Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
        secret = ledger.mask_secret()
        assert any(secret in path.read_bytes() for path in tmp_path.iterdir())
        ledger.record_seals((own,) * 3)
        assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())
        ledger.record_addresses({"ben": "tcp://ben:1"})
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        assert ledger.addresses() == {"ben": "tcp://ben:1"}


def test_a_final_fault_destroys_the_secrets(tmp_path: Path) -> None:
    """A session that never continues needs no mask key."""
    agreement = masked_agreement(3)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
        secret = ledger.mask_secret()
        ledger.record_fault(BadMessage("a fault"), over=False)
        assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())


def own_release(agreement: Agreement, demand: int) -> tuple[Signed, tuple[Ticks, Ticks]]:
    """A first release of ada, with its demand and its unmasked numbers."""
    release = Release(
        sender="ada",
        agreement=agreement.digest,
        round=0,
        chain_hash=bytes(32),
        values=(1, 2),
        masked=True,
    )
    return sign(release), (np.array([demand, demand + 1]), np.array([demand + 2, demand + 3]))


DEMAND = 0x0123_4567_89AB_CD00
"""A number whose bytes are in no file by chance."""


def found_in(folder: Path, *secrets: bytes) -> set[str]:
    """The files that contain one of these byte strings."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name for name, content in files.items() for secret in secrets if secret in content}


def test_recording_the_quota_destroys_the_demands(tmp_path: Path) -> None:
    """No file holds a demand then, even while the ledger is open."""
    agreement = masked_agreement(3)
    asked = DEMAND.to_bytes(8, "big")
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
        ledger.record_release(*own_release(agreement, DEMAND))
        assert found_in(tmp_path, asked) == {"ledger-wal"}
        ledger.record_allocation(Allocation(np.array([1, 2]), 0.5))
        assert found_in(tmp_path, asked) == set()


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from party.ledger.session_ledger import Ledger
from party.ledger.database import Database
from party.release.masks import Masks
from protocol.rounds import RoundEngine
from protocol.outcome.private_quota import Allocation
from tests.support.builders import signer
from tests.party.release.test_masks import DEMAND, masked_agreement, own_release

agreement = masked_agreement(3)
ledger = Ledger(sys.argv[1], agreement, "ada")
own = Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
Path(sys.argv[2]).write_bytes(ledger.mask_secret())
ledger.record_release(*own_release(agreement, DEMAND))
Database.wipe = lambda _: os._exit(9)
if sys.argv[3] == "part":
    ledger.record_allocation(Allocation(np.array([1, 2]), 0.5))
ledger.record_seals((own,) * 3)
"""


@pytest.mark.parametrize("last", ["part", "seals"])
def test_a_restart_completes_an_interrupted_destruction(tmp_path: Path, last: str) -> None:
    """What a killed process deleted but did not overwrite is overwritten at the next start."""
    folder, beside, agreement = tmp_path / "home", tmp_path / "secret", masked_agreement(3)
    folder.mkdir()
    path = folder / "ledger"
    command = [sys.executable, "-c", KILLED, str(path), str(beside), last]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=LIMIT)
    assert done.returncode == 9
    wanted = DEMAND.to_bytes(8, "big") if last == "part" else beside.read_bytes()
    assert "ledger-wal" in found_in(folder, wanted)
    with closing(Ledger(path, agreement, "ada")) as ledger:
        assert found_in(folder, wanted) == set()
        assert (ledger.allocation() is not None) == (last == "part")
    assert found_in(folder, wanted) == set()


def test_a_log_is_overwritten_before_it_is_unlinked(tmp_path: Path) -> None:
    """An orderly shutdown leaves no demand in the blocks of a deleted log."""
    agreement, path = masked_agreement(3), tmp_path / "ledger"
    ledger = Ledger(path, agreement, "ada")
    ledger.record_release(*own_release(agreement, DEMAND))
    with (tmp_path / "ledger-wal").open("rb") as log:  # outlives its name
        ledger.close()
        assert not (tmp_path / "ledger-wal").exists()
        assert DEMAND.to_bytes(8, "big") not in log.read()


@pytest.mark.parametrize("over", [False, True])
def test_a_fault_after_the_last_round_keeps_the_demands(tmp_path: Path, over: bool) -> None:
    """A fault after the last round cannot take a member's quota away."""
    agreement = masked_agreement(3)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
        ledger.record_release(*own_release(agreement, 3))
        secret = ledger.mask_secret()
        ledger.record_fault(BadMessage("a fault"), over=over)
        assert [row.tolist() for row in ledger.demands()] == [
            [[3, 4]] * over,
            [[5, 6]] * over,
        ]
        assert not any(secret in path.read_bytes() for path in tmp_path.iterdir())


def test_a_damaged_mask_key_is_detected(tmp_path: Path) -> None:
    """A wrong key from the disk raises before anything is masked."""
    agreement, path = masked_agreement(3), tmp_path / "ledger"
    with closing(Ledger(path, agreement, "ada")) as ledger:
        Masks(agreement, "ada", ledger, signer("ada")).key(RoundEngine(agreement).opening)
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("UPDATE masks SET secret = zeroblob(32)")
    with (
        closing(Ledger(path, agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="is damaged: place 0 of its masks"),
    ):
        ledger.mask_secret()
