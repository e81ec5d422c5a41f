"""Checks of signatures and keys from others, with libsodium.

Apart from `codec`, so that a program that never verifies does not load the library. Never here:
secret keys.
"""

from nacl.bindings import crypto_core_ed25519_is_valid_point, crypto_sign_open
from nacl.exceptions import BadSignatureError
from nacl.exceptions import ValueError as NaClValueError

from protocol.commitment.group import is_valid
from protocol.errors import BadMessage, UnsafeLibrary
from protocol.wire.messages import Commitment, MaskKey, possession

_MIXED_ORDER = bytes.fromhex("95" + 31 * "99")
"""The base point plus the point of order 2: on the curve, and not of prime order."""


def verify(signed: bytes, key: bytes) -> None:
    """Raise `BadMessage` unless these bytes begin with the signature of the rest under this key.

    The error names no member, because the owner of the key did not send these bytes.
    """
    try:
        crypto_sign_open(signed, key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage("the signature does not match the signing key") from None


def require_owned(message: MaskKey, *, place: int, signing_key: bytes) -> None:
    """Raise `BadMessage` unless the sender owns the mask key that it announces.

    Guarantee: the key is a point of prime order in its only encoding. The sender signed, with the
    secret mask key, this agreement, first chain hash, place and signing key.
    """
    if not crypto_core_ed25519_is_valid_point(message.key):
        raise BadMessage("the mask key is not a point of prime order")
    text = possession(
        agreement=message.agreement,
        chain_hash=message.chain_hash,
        place=place,
        signing_key=signing_key,
        key=message.key,
    )
    try:
        crypto_sign_open(message.proof + text, message.key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage("the sender does not prove that it owns its mask key") from None


def require_in_group(message: Commitment) -> None:
    """Raise `BadMessage` unless all points are in the group and all scalars are reduced.

    Whether the proof holds is checked when the commitments of all members are here.
    """
    from protocol.commitment.range_proof import parse  # not before the last round

    if not all(map(is_valid, message.points)):
        raise BadMessage("a commitment is not a point of prime order")
    if message.proof and not parse(message.proof).well_formed:
        raise BadMessage("the proof of a commitment has a point or a number out of range")


def require_safe_library() -> None:
    """Refuse a libsodium that accepts points of mixed order as points of prime order."""
    if crypto_core_ed25519_is_valid_point(_MIXED_ORDER):
        raise UnsafeLibrary(
            "the libsodium of this machine accepts unsafe keys (CVE-2025-69277), so masks would "
            "not be safe; install PyNaCl 1.6.2 or later with the libsodium that it includes"
        )
