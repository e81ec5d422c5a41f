"""Signatures and keys that were foreign bytes a moment ago, each looked at with libsodium.

Apart from the wire format: who never verifies need not load the library.
"""

from nacl.bindings import crypto_scalarmult, crypto_sign_open
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.exceptions import ValueError as NaClValueError

from protocol.errors import BadMessage


def verify(signed: bytes, key: bytes) -> None:
    """Raise `BadMessage` unless these bytes begin with the signature of the rest under this key.

    The error names no member: the owner of the key has said nothing.
    """
    try:
        crypto_sign_open(signed, key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage("the signature does not fit the key that it claims") from None


def require_usable(key: bytes) -> None:
    """Raise `BadMessage` for an X25519 public key of low order.

    With such a key every secret that it shares is the same, whoever it is shared with.
    """
    try:
        crypto_scalarmult(bytes(32), key)  # whichever secret key: it would be 0 with all of them
    except CryptoError:
        raise BadMessage("the mask key is none that keeps a secret") from None
