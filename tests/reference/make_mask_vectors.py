"""Writes vectors/masks.json: a session with masked releases, by the reference implementation.

`scripts/environment python -m tests.reference.make_mask_vectors` makes it anew and prints nothing.
The bits never come from the product; only the Ed25519 signatures are made by libsodium.
"""

import hashlib
import json
from typing import Any

from nacl.signing import SigningKey

from tests.reference import codec as reference
from tests.reference import masks as reference_masks
from tests.support import ROOT

PATH = ROOT / "tests" / "reference" / "vectors" / "masks.json"
NAMES = ("ada", "ben", "cyd", "dan")
SHARES = [[1.0, 0.5], [0.25, 1.0], [0.5, 0.5], [1.0, 0.125]]
ROUNDS = 4


def signing_key(name: str) -> SigningKey:
    return SigningKey(hashlib.sha256(f"sotto vector key of {name}".encode()).digest())


def secret(name: str) -> bytes:
    return hashlib.sha256(f"sotto vector mask key of {name}".encode()).digest()


def table() -> dict[str, Any]:
    """The agreement, as its file would say it."""
    return {
        "session": "masked-vectors",
        "mode": "exact",
        "reveal": "totals",
        "rounds": ROUNDS,
        "prices": {"step": "constant", "step_size": 0.5},
        "resource": [
            {"name": "oven", "capacity": 16.0, "unit": "h"},
            {"name": "truck", "capacity": 3.0},
        ],
        "member": [
            {
                "name": name,
                "share": {"oven": share[0], "truck": share[1]},
                "signing_key": bytes(signing_key(name).verify_key).hex(),
            }
            for name, share in zip(NAMES, SHARES, strict=True)
        ],
    }


def message(
    name: str, kind: int, digest: bytes, number: int, chain_hash: bytes, body: bytes
) -> bytes:
    key = signing_key(name)
    payload = reference.payload(kind, bytes(key.verify_key), digest, number, chain_hash, body)
    return payload + key.sign(reference.signed_text(payload)).signature


def announced(name: str, digest: bytes, chain_hash: bytes) -> bytes:
    """A mask key and the proof that its member owns it."""
    place, signing = NAMES.index(name), bytes(signing_key(name).verify_key)
    proof = reference_masks.proof(secret(name), digest, chain_hash, place, signing)
    return reference_masks.public(secret(name)) + proof


def numbers(place: int, number: int) -> list[int]:
    """What a member asks for in a round: something within its share that differs everywhere."""
    limits = [int(share * reference.TICKS) for share in SHARES[place]]
    return [limit * (2 + (place + number + j) % 3) // 5 for j, limit in enumerate(limits)]


def played(digest: bytes) -> dict[str, Any]:
    """Everything from the keys to the own quotas and payments."""
    market = reference.Market(capacity=[16.0, 3.0], start=[0.0, 0.0], rule="constant", size=0.5)
    keys = [reference_masks.public(secret(name)) for name in NAMES]
    before = reference.first_head(digest, market.now)
    bodies = [announced(name, digest, before) for name in NAMES]
    chain_hash = session = reference_masks.session_id(before, bodies)
    rounds, totals, path = [], [], []
    for number in range(ROUNDS):
        own = [numbers(place, number) for place in range(len(NAMES))]
        masked = [
            reference_masks.masked(
                own[place],
                place,
                secret=secret(name),
                keys=keys,
                session=session,
                number=number,
                chain_hash=chain_hash,
            )
            for place, name in enumerate(NAMES)
        ]
        totals.append(reference_masks.totals(masked))
        market.move(own)
        chain_hash = reference.next_head(chain_hash, number, masked, market.now)
        path.append(market.now)
        rounds.append(
            {
                "numbers": own,
                "released": masked,
                "totals": totals[-1],
                "prices": [price.hex() for price in market.now],
                "head": chain_hash.hex(),
            }
        )
    # The prices of the outcome are the mean of the last half, which also are the counted rounds.
    half = path[-2:]
    prices = [sum(column) / 2 for column in zip(*half, strict=True)]
    money = [price * c for price, c in zip(prices, [16.0, 3.0], strict=True)]
    limits = [[int(part * reference.TICKS) for part in share] for share in SHARES]
    columns = [reference.split(reference.TICKS, list(c)) for c in zip(*limits, strict=True)]
    parts = []
    for place in range(len(NAMES)):
        own = [numbers(place, number) for number in range(ROUNDS)]
        quota, payment = reference_masks.own_quota_and_payment(
            asked=own,
            unmasked=own,
            totals=totals,
            weights=[0, 0, 1, 1],
            place=place,
            shares=SHARES,
            endowment=[column[place] for column in columns],
            money=money,
            ticks=reference.TICKS,
        )
        parts.append({"quota": quota, "payment": payment.hex()})
    return {
        "head_before": before.hex(),
        "keys": [key.hex() for key in keys],
        "announced": [
            message(name, 5, digest, 0, before, body).hex()
            for name, body in zip(NAMES, bodies, strict=True)
        ],
        "session_id": session.hex(),
        "rounds": rounds,
        "prices": [price.hex() for price in prices],
        "parts": parts,
    }


def invalid(digest: bytes, chain_hash: bytes) -> list[dict[str, str]]:
    """Mask keys that must be refused, and why."""
    own, theirs = (reference_masks.public(secret(name)) for name in ("ada", "ben"))
    good, copied = announced("ada", digest, chain_hash), announced("ben", digest, chain_hash)
    later = announced("ada", digest, bytes(31) + b"\1")
    elsewhere = announced("ada", bytes(31) + b"\1", chain_hash)
    proof = good[32:]
    unowned = "the sender does not prove that it owns its mask key"
    low = "the mask key is not a point of prime order"
    point = reference_masks.decoded(theirs)
    assert point is not None
    x, y = point
    negated = reference_masks.encoded((reference_masks.PRIME - x, y))
    shifted = reference_masks.encoded(reference_masks.add(point, (0, reference_masks.PRIME - 1)))
    order_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    cases = [
        ("a key without its last byte", 0, good[:31], "the mask key has a wrong length"),
        ("a key without a proof", 0, own, "the proof of the mask key has a wrong length"),
        (
            "a proof and a byte more",
            0,
            good + b"\0",
            "the proof of the mask key has a wrong length",
        ),
        ("a key in round 1", 1, good, "the round of a mask key must be 0"),
        ("the key of another member with its proof", 0, copied, unowned),
        ("the key of another member with the own proof", 0, theirs + proof, unowned),
        ("the key of another member with its proof, negated", 0, negated + copied[32:], unowned),
        ("a key with a proof for another head", 0, later, unowned),
        ("a key with a proof for another agreement", 0, elsewhere, unowned),
        ("a key and no signature", 0, own + bytes(64), unowned),
        ("a key shifted by the point of order 2", 0, shifted + copied[32:], low),
        ("the key 0, of order 4", 0, bytes(32) + proof, low),
        ("the key 1, which is the neutral point", 0, b"\1" + bytes(31) + proof, low),
        ("a key of order 8", 0, order_8 + proof, low),
        ("a key that is no point", 0, b"\2" + bytes(31) + proof, low),
        ("a key that is p + 1", 0, (reference_masks.PRIME + 1).to_bytes(32, "little") + proof, low),
    ]
    return [
        {
            "name": name,
            "bytes": message("ada", 5, digest, number, chain_hash, body).hex(),
            "error": f"from 'ada': {error}",
        }
        for name, number, body, error in cases
    ]


def main() -> None:
    from protocol.agreement.parse import from_table

    agreement = table()
    canonical = reference.canonical(from_table(agreement))
    digest = reference.agreement_digest(canonical)
    session = played(digest)
    content = {
        "about": "A session of which only totals can be read: secret keys, what each asks for, "
        "what it releases, and what everybody, and each for itself, must make of that. Floats are "
        "hexadecimal. SPEC.md §18; written by python -m tests.reference.make_mask_vectors. Signing "
        "keys are Ed25519 with the seed SHA-256('sotto vector key of NAME'), mask keys with the "
        "seed SHA-256('sotto vector mask key of NAME').",
        "agreement": agreement,
        "canonical": canonical,
        "digest": digest.hex(),
        **session,
        "invalid": invalid(digest, bytes.fromhex(session["head_before"])),
    }
    PATH.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
