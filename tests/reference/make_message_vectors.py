"""Writes the part of vectors/messages.json about commitments, by the reference implementation.

`scripts/environment python -m tests.reference.make_message_vectors` makes it anew and prints
nothing. The bits never come from the product; only the Ed25519 signatures are made by libsodium.
"""

import hashlib
import json
from typing import Any

from tests.reference import codec as reference
from tests.reference import commitments, masks
from tests.reference.agreement import terms
from tests.reference.make_mask_vectors import message, signing_key
from tests.support import ROOT

PATH = ROOT / "tests" / "reference" / "vectors" / "messages.json"
NUMBERS, BLINDINGS = [12_345_678, 2**28 - 321], [3**150, 5**100]
PLACE, ROUND = 1, 4
"""ben commits after four rounds."""


def table() -> dict[str, Any]:
    """The agreement, as its file would say it."""
    return {
        "session": "commitment-vectors",
        "mode": "exact",
        "reveal": "totals",
        "rounds": 9,
        "resource": [{"name": "oven", "capacity": 16.0, "unit": "h"}],
        "member": [
            {"name": name, "signing_key": bytes(signing_key(name).verify_key).hex()}
            for name in ("ada", "ben", "cyd")
        ],
    }


def _bytes(text: str) -> bytes:
    return hashlib.sha256(f"sotto vector {text}".encode()).digest()


def commitment(digest: bytes, head: bytes) -> tuple[list[bytes], bytes]:
    """Points and a proof that holds."""
    pairs = zip(NUMBERS, BLINDINGS, strict=True)
    points = [commitments.written(commitments.commit(*each)) for each in pairs]
    label = commitments.label(digest, head, PLACE, points)
    count = sum(commitments.widths(1)) + 4
    nonces = [int.from_bytes(_bytes(f"message nonce {i}"), "little") for i in range(count)]
    reduced = [nonce % masks.ORDER for nonce in nonces]
    return points, commitments.prove(label, NUMBERS, BLINDINGS, reduced)


def vectors() -> dict[str, Any]:
    agreement = table()
    digest = reference.agreement_digest(reference.canonical(terms(agreement)))
    head = _bytes("head of commitments")
    points, proof = commitment(digest, head)

    def data(points: list[bytes], proof: bytes, *, hashed: bytes = b"", of: bytes = digest) -> str:
        body = b"".join(points) + (hashed or hashlib.sha256(proof).digest())
        return (message("ben", 6, of, ROUND, head, body) + proof).hex()

    valid = []
    for name, shown in (
        ("a commitment", proof),
        ("a commitment as it is shown as evidence, without its proof", b""),
    ):
        fields = {
            "kind": "Commitment",
            "sender": "ben",
            "agreement": digest.hex(),
            "round": ROUND,
            "chain_hash": head.hex(),
            "points": [point.hex() for point in points],
            "proof_hash": hashlib.sha256(proof).hexdigest(),
            "proof": shown.hex(),
        }
        hashed = hashlib.sha256(proof).digest()
        valid.append({"name": name, "bytes": data(points, shown, hashed=hashed), "message": fields})
    return {
        "agreement": agreement,
        "digest": digest.hex(),
        "valid": valid,
        "invalid": [
            {"name": name, "bytes": made, "error": error}
            for name, made, error in invalid(points, proof, data)
        ],
    }


def invalid(points: list[bytes], proof: bytes, data: Any) -> list[tuple[str, str, str]]:
    """Commitments that must be refused, and why."""
    point = masks.decoded(points[0])
    assert point is not None
    order_2 = (0, masks.PRIME - 1)
    shifted = masks.encoded(masks.add(point, order_2))
    identity = b"\1" + bytes(31)
    order_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    count = "from 'ben': 2 commitments and the hash of a proof are needed"
    cut = "the message is not msgpack of the agreed form"  # its end is where two points end
    low = "from 'ben': a commitment is not a point of prime order"
    range_ = "from 'ben': the proof of a commitment has a point or a number out of range"
    length = "from 'ben': the proof of a commitment has a wrong length"
    other = "the proof of the commitment is not the one that was signed"
    order = masks.ORDER.to_bytes(32, "little")
    return [
        ("one point", data(points[:1], b"", hashed=bytes(32)), count),
        ("three points", data([*points, points[0]], b"", hashed=bytes(32)), cut),
        ("the identity as a point", data([identity, points[1]], proof), low),
        ("a point of order 4", data([bytes(32), points[1]], proof), low),
        ("a point of order 8", data([order_8, points[1]], proof), low),
        ("a point shifted by the point of order 2", data([shifted, points[1]], proof), low),
        ("bytes that are no point", data([b"\2" + bytes(31), points[1]], proof), low),
        ("a proof without its last byte", data(points, proof[:-1]), length),
        ("a proof and a byte more", data(points, proof + b"\0"), length),
        ("another proof than was signed", data(points, proof, hashed=bytes(32)), other),
        ("a scalar that is the order", data(points, proof[:-32] + order), range_),
        ("the identity in the proof", data(points, identity + proof[32:]), range_),
        ("a point of mixed order in the proof", data(points, shifted + proof[32:]), range_),
        (
            "a commitment of another agreement",
            data(points, proof, of=bytes(32)),
            "from 'ben': the message belongs to another agreement",
        ),
    ]


if __name__ == "__main__":
    content = json.loads(PATH.read_text()) | {"committing": vectors()}
    PATH.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
