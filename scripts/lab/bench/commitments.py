"""`scripts/bench commitments`: the cost of commitments for a party and each round, and of a claim.

A party makes its own commitments, reads those of all others, and checks them together. Numbers,
keys and blindings are invented. Then whole sessions are played in one process, in turns with and
without commitments, and a claim to their outcome is checked. All times are CPU times. Nothing is
sent.
"""

import argparse
import hashlib
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict
from nacl.signing import SigningKey
from rich.console import Console
from rich.table import Table

from party.model.best_response import subproblem
from party.rehearsal.in_process import players, run
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.clearing.claims import NO_RECIPIENT, Claim, packed, verified
from protocol.commitment import range_proof
from protocol.commitment.exchange import adds_up, statement, without_proof
from protocol.commitment.group import ORDER, commit
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks
from protocol.commitment.range_proof import prove
from protocol.outcome.outcome import outcome
from protocol.wire.codec import Reader, pack
from protocol.wire.messages import Commitment, Signed
from scripts.lab.bench.measure.interleave import in_turns, ratio
from scripts.lab.common.instances import draw

SIZES = ((10, 5), (50, 10))
"""Members and resources."""

PASSES, QUICK_PASSES = 9, 3
TURNS, QUICK_TURNS = 7, 2
ROUNDS = 12
"""Rounds of a session that is played, too few to be certified."""


def commitments(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure each size, and print two tables."""
    passes, turns = (QUICK_PASSES, QUICK_TURNS) if options.quick else (PASSES, TURNS)
    rows = [
        measure(size, options.seed, passes) | rounds(size, options.seed, turns) for size in SIZES
    ]
    parts = ("make", "read", "check", "together", "claim")
    table = Table("members", "resources", "message", *parts, title="CPU of one party")
    cost = Table("members", "resources", "with", "without", "ratio", title="CPU of a round")
    for row in rows:
        times = (f"{1000.0 * row[part]:.1f} ms" for part in parts)
        sizes = (str(row["members"]), str(row["resources"]))
        table.add_row(*sizes, f"{row['bytes']} bytes", *times)
        each = (f"{1000.0 * row[way]:.2f} ms" for way in ("with", "without"))
        shown = f"{row['ratio']['median']:.3f} ({row['ratio']['low']:.3f} to "
        cost.add_row(*sizes, *each, f"{shown}{row['ratio']['high']:.3f})")
    console.print(table, cost)
    return rows


def measure(size: tuple[int, int], seed: int, passes: int) -> dict[str, Any]:
    """Median seconds of each part, for one party."""
    members, resources = size
    chance = random.Random(seed)
    keys = [SigningKey(chance.randbytes(32)) for _ in range(members)]
    agreement = _agreement(keys, resources)
    head = chance.randbytes(32)
    numbers = _numbers(agreement, chance)
    blindings = [[chance.randrange(ORDER) for _ in numbers[0]] for _ in keys[1:]]
    blindings.append([-sum(column) % ORDER for column in zip(*blindings, strict=True)])

    def made(place: int) -> Signed:
        return _signed(agreement, head, place, keys[place], (numbers[place], blindings[place]))

    messages = [made(place) for place in range(members)]
    rows = [m.message for m in messages if isinstance(m.message, Commitment)]
    proved = [(row.points, row.proof) for row in rows]

    def read() -> None:
        reader = Reader(agreement)
        for message in messages:
            reader.unpack(message.data)

    def check() -> None:
        range_proof._hold.cache_clear()
        if without_proof(agreement, head, proved) or not adds_up(agreement, [p for p, _ in proved]):
            raise RuntimeError("honest commitments were refused")

    medians = {
        part: _median(act, passes)
        for part, act in {"make": lambda: made(0), "read": read, "check": check}.items()
    }
    size_of_all = {"members": members, "resources": resources, "bytes": len(messages[0].data)}
    return {**size_of_all, **medians, "together": sum(medians.values())}


def _median(act: Callable[[], object], passes: int) -> float:
    """Median CPU seconds."""
    times = []
    for _ in range(passes):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return statistics.median(times)


class Uncommitted(Agreement, frozen=True):
    """An agreement whose members seal without commitments, to compare rounds with."""

    @property
    def commits(self) -> bool:
        return False


def rounds(size: tuple[int, int], seed: int, turns: int) -> dict[str, Any]:
    """CPU seconds of a round for one party, with and without commitments, and of one claim."""
    members, resources = size
    chance = random.Random(seed)
    keys = [SigningKey(chance.randbytes(32)) for _ in range(members)]
    agreed = _agreement(keys, resources)
    bare = Uncommitted(**asdict(agreed))
    ways = {
        "with": lambda: play(agreed, keys, seed),
        "without": lambda: play(bare, keys, seed),
    }
    ways["with"]()  # what is loaded and computed once must not count for the first
    results = in_turns(ways, turns)
    costs = {way: [one[0] for one in found] for way, found in results.items()}
    claims = [claim for _, claim in results["with"] if claim is not None]
    return {
        "with": statistics.median(costs["with"]),
        "without": statistics.median(costs["without"]),
        "ratio": ratio(costs["with"], costs["without"]).figures(),
        "claim": statistics.median(claims),
    }


def play(agreement: Agreement, keys: list[SigningKey], seed: int) -> tuple[float, float | None]:
    """CPU seconds of a round for one party; of the check of one claim, if there are claims.

    The last round does not count: a party reports it after it has made its commitments.
    """
    closed: list[float] = []
    data = draw(seed, parties=len(keys), resources=len(agreement.resources)).data
    names = [member.name for member in agreement.members]
    problems = [subproblem(d, agreement, name) for d, name in zip(data, names, strict=True)]
    with players(agreement, problems, seed, lambda _: closed.append(time.process_time())) as all_:
        run(all_)
        ledger = all_[0].ledger
        known, opening = outcome(agreement, ledger.transcript()), ledger.opening()
    cost = (closed[-2] - closed[0]) / (len(closed) - 2) / len(keys)
    if opening is None:
        return cost, None
    claim = Claim(
        agreement=agreement.digest,
        chain_hash=known.state.chain_hash,
        place=0,
        index=0,
        recipient=NO_RECIPIENT,
        number=opening.numbers[0],
        blinding=opening.blindings[0],
    )
    file = packed(claim, lambda text: keys[0].sign(text).signature)
    return cost, _median(lambda: verified(known, file), QUICK_PASSES)


def _agreement(keys: list[SigningKey], resources: int) -> Agreement:
    return from_table(
        {
            "session": "bench",
            "mode": "exact",
            "reveal": "totals",
            "rounds": ROUNDS,
            "rehearsal": True,
            "prices": {"tolerance": 1e-12},
            "resource": [{"name": f"r{j}", "capacity": 100.0} for j in range(resources)],
            "member": [
                {"name": f"m{k}", "signing_key": bytes(key.verify_key).hex()}
                for k, key in enumerate(keys)
            ],
        }
    )


def _numbers(agreement: Agreement, chance: random.Random) -> list[list[int]]:
    """Quotas that fill each capacity, and payments that add up to zero."""
    members, grains = len(agreement.members), agreement.ticks // grain_ticks(agreement)
    columns = []
    for _ in agreement.resources:
        column = [chance.randrange(grains // members) for _ in range(members - 1)]
        columns.append([*column, grains - sum(column)])
    paid = [chance.randrange(-1000, 1000) for _ in range(members - 1)]
    columns.append([PAYMENT_OFFSET + payment for payment in (*paid, -sum(paid))])
    return [list(row) for row in zip(*columns, strict=True)]


def _signed(
    agreement: Agreement,
    head: bytes,
    place: int,
    key: SigningKey,
    opening: tuple[list[int], list[int]],
) -> Signed:
    points = tuple(map(commit, *opening))
    proof = prove(statement(agreement, head, place, points), *opening, b"s" * 32).data
    message = Commitment(
        sender=agreement.members[place].name,
        agreement=agreement.digest,
        round=ROUNDS,
        chain_hash=head,
        points=points,
        proof_hash=hashlib.sha256(proof).digest(),
        proof=proof,
    )
    return pack(message, key=bytes(key.verify_key), sign=lambda text: key.sign(text).signature)
