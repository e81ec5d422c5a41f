"""Writes vectors/approvals.json: signed approvals, by the reference implementation.

`scripts/environment python -m tests.reference.make_approval_vectors` makes it anew and prints
nothing. The bits never come from the product.
"""

import hashlib
import json
from typing import Any

from tests.reference import codec, masks
from tests.support import ROOT

PATH = ROOT / "tests" / "reference" / "vectors" / "approvals.json"

LIMITS = ((0, 0, 0.0), (1, 94, 0.2), (2, 999_999_999, 1.0), (3, 2, 0.1))
"""Place, last session and how far capacities may be off."""


def vectors() -> dict[str, Any]:
    """One approval of each member, by §23."""
    digest = hashlib.sha256(b"sotto vector agreement").digest()
    cases = []
    for place, last, within in LIMITS:
        secret = hashlib.sha256(f"sotto vector member {place}".encode()).digest()
        text = codec.approval_text(digest, place, last, within)
        cases.append(
            {
                "place": place,
                "last": last,
                "within": within,
                "key": masks.public(secret).hex(),
                "text": text.hex(),
                "signature": masks.ed25519(secret, text).hex(),
            }
        )
    return {
        "about": "Approvals of one agreement by four members (SPEC §23)",
        "digest": digest.hex(),
        "approvals": cases,
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(vectors(), indent=1) + "\n")
