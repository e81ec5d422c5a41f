"""A short fingerprint of a company's model, so that results are not written with another one.

*Guarantee:* it has 16 bits. So a ledger tells its reader at most 16 bits about each model that it
has a fingerprint of. Sessions with one model have one fingerprint, because their key is the same.
Another model passes for this one with a chance of 1 in 65,536. A longer fingerprint would let a
thief of the ledger check guesses of single numbers. It never leaves the ledger, which destroys it
when there is no plan to write any more (`party.ledger.secret_records`). Never here: a file.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from party.model.company_model import CompanyModel

BYTES = 2


def fingerprint(data: CompanyModel, key: bytes) -> bytes:
    """The fingerprint of a model under a ledger's key. Secret."""
    digest = hashlib.blake2b(digest_size=BYTES, key=key, person=b"sotto model")
    for part in _parts(data):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _parts(value: Any) -> Iterator[bytes]:
    """The bytes of everything in a model, in the order of its fields."""
    if isinstance(value, Struct):
        for name, part in asdict(value).items():
            yield name.encode()
            yield from _parts(part)
    elif isinstance(value, np.ndarray):
        yield value.dtype.newbyteorder("<").str.encode()
        yield np.ascontiguousarray(value, value.dtype.newbyteorder("<")).tobytes()
    elif isinstance(value, tuple):
        for one in value:
            yield from _parts(one)
    else:
        yield repr(value).encode()
