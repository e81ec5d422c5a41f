"""Writes vectors/commitments.json: commitments of three members, by the reference implementation.

`scripts/environment python -m tests.reference.make_commitment_vectors` makes it anew and prints
nothing. The bits never come from the product.
"""

import hashlib
import json
from typing import Any

from tests.reference import commitments as reference
from tests.reference.masks import ORDER
from tests.support import ROOT

PATH = ROOT / "tests" / "reference" / "vectors" / "commitments.json"
TICKS, MEMBERS = 2**20, 3
NUMBERS = ((400_000, 2**28 - 5), (300_000, 2**28 + 9), (348_575, 2**28 - 4))


def _bytes(text: str) -> bytes:
    return hashlib.sha256(f"sotto vector {text}".encode()).digest()


def vectors() -> dict[str, Any]:
    """One session with one resource, by §19 and §20."""
    digest, head = _bytes("digest"), _bytes("head")
    members, bodies, rows = [], [], []
    for place in range(MEMBERS):
        pairs = {
            other: _bytes(f"pair {min(place, other)} {max(place, other)}")
            for other in range(MEMBERS)
            if other != place
        }
        numbers = list(NUMBERS[place])
        blindings = reference.blindings(pairs, place, head, len(numbers))
        points = [
            reference.written(reference.commit(*o)) for o in zip(numbers, blindings, strict=True)
        ]
        count = sum(reference.widths(1)) + 4
        nonces = [
            int.from_bytes(_bytes(f"nonce {place} {i}"), "little") % ORDER for i in range(count)
        ]
        text = reference.label(digest, head, place, points)
        proof = reference.prove(text, numbers, blindings, nonces)
        rows.append(points)
        bodies.append(b"".join(points) + hashlib.sha256(proof).digest())
        claim = reference.claim_text(digest, head, place, 0, bytes(32), (numbers[0], blindings[0]))
        members.append(
            {
                "pairs": {str(other): pair.hex() for other, pair in pairs.items()},
                "numbers": numbers,
                "blindings": [f"{blinding:064x}" for blinding in blindings],
                "points": [point.hex() for point in points],
                "proof": proof.hex(),
                "claim": claim.hex(),
            }
        )
    return {
        "about": "Commitments of three members, one resource, 2^20 ticks (SPEC §19, §20)",
        "digest": digest.hex(),
        "head": head.hex(),
        "value_base": reference.written(reference.VALUE_BASE).hex(),
        "proof_bases": [reference.written(g).hex() for g in reference.proof_bases(3)],
        "members": members,
        "closed_hash": reference.closed_hash(head, bodies).hex(),
        "adds_up": reference.adds_up(rows, TICKS),
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(vectors(), indent=1) + "\n")
