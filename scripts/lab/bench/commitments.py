"""`scripts/bench commitments`: what the exchange of commitments costs one party, and a claim.

A party makes its own commitments, reads those of all others, and checks them together. Numbers,
keys and blindings are invented. Nothing is sent.
"""

import argparse
import hashlib
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from nacl.signing import SigningKey
from rich.console import Console
from rich.table import Table

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.commitment import range_proof
from protocol.commitment.exchange import adds_up, statement, without_proof
from protocol.commitment.group import ORDER, commit
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks
from protocol.commitment.range_proof import prove
from protocol.wire.codec import Reader, pack
from protocol.wire.messages import Commitment, Signed

SIZES = ((10, 5), (50, 10))
"""Members and resources."""

PASSES, QUICK_PASSES = 9, 3


def commitments(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Measure each size, and print a table."""
    rows = [
        measure(size, options.seed, QUICK_PASSES if options.quick else PASSES) for size in SIZES
    ]
    table = Table("members", "resources", "message", "make", "read all", "check all", "claim")
    for row in rows:
        times = (f"{1000.0 * row[part]:.1f} ms" for part in ("make", "read", "check", "claim"))
        sizes = (str(row["members"]), str(row["resources"]), f"{row['bytes']} bytes")
        table.add_row(*sizes, *times)
    console.print(table)
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

    parts: dict[str, Callable[[], object]] = {
        "make": lambda: made(0),
        "read": read,
        "check": check,
        "claim": lambda: commit(numbers[0][0], blindings[0][0]) == rows[0].points[0],
    }
    times: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(passes):
        for part, run in parts.items():
            start = time.perf_counter()
            run()
            times[part].append(time.perf_counter() - start)
    medians = {part: statistics.median(seconds) for part, seconds in times.items()}
    return {"members": members, "resources": resources, "bytes": len(messages[0].data), **medians}


def _agreement(keys: list[SigningKey], resources: int) -> Agreement:
    return from_table(
        {
            "session": "bench",
            "mode": "exact",
            "reveal": "totals",
            "rounds": 10,
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
        round=10,
        chain_hash=head,
        points=points,
        proof_hash=hashlib.sha256(proof).digest(),
        proof=proof,
    )
    return pack(message, key=bytes(key.verify_key), sign=lambda text: key.sign(text).signature)
