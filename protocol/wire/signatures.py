"""Checks of foreign signatures and keys, with libsodium.

Apart from the wire format, so that a program that never verifies need not load the library.
"""

from nacl.bindings import crypto_core_ed25519_is_valid_point, crypto_sign_open
from nacl.exceptions import BadSignatureError
from nacl.exceptions import ValueError as NaClValueError

from protocol.errors import BadMessage, UnsafeLibrary
from protocol.wire.messages import MaskKey, possession

_MIXED_ORDER = bytes.fromhex("95" + 31 * "99")
"""The base point plus the point of order 2: on the curve, and not of prime order."""


def verify(signed: bytes, key: bytes) -> None:
    """Raise `BadMessage` unless these bytes begin with the signature of the rest under this key.

    The error names no member: the owner of the key has said nothing.
    """
    try:
        crypto_sign_open(signed, key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage("the signature does not fit the key that it claims") from None


def require_owned(said: MaskKey, *, place: int, signing_key: bytes) -> None:
    """Raise `BadMessage` unless the sender owns the mask key that it announces.

    Guarantee: the key is a point of prime order in its only encoding, and whoever announced it
    made, with its secret key, a signature for this agreement, first head, place and signing key.
    """
    if not crypto_core_ed25519_is_valid_point(said.key):
        raise BadMessage("the mask key is not a point of prime order")
    text = possession(
        agreement=said.agreement,
        chain_hash=said.chain_hash,
        place=place,
        signing_key=signing_key,
        key=said.key,
    )
    try:
        crypto_sign_open(said.proof + text, said.key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage("it does not prove that it owns its mask key") from None


def require_safe_library() -> None:
    """Refuse a libsodium that takes points with a part of small order for points of prime order."""
    if crypto_core_ed25519_is_valid_point(_MIXED_ORDER):
        raise UnsafeLibrary(
            "the libsodium of this machine accepts unsafe keys (CVE-2025-69277), so that masks "
            "would not be safe. Install PyNaCl 1.6.2 or later, with the libsodium that it brings"
        )
