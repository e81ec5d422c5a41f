"""Ed25519 signatures. Apart from the wire format: who never verifies need not load the library."""

from nacl.bindings import crypto_sign_open
from nacl.exceptions import BadSignatureError
from nacl.exceptions import ValueError as NaClValueError

from protocol.errors import BadMessage


def verify(signed: bytes, sender: str, key: bytes) -> None:
    """Raise `BadMessage` unless these bytes begin with the signature of the rest under this key."""
    try:
        crypto_sign_open(signed, key)
    except (BadSignatureError, NaClValueError):
        raise BadMessage(f"the signature of {sender!r} does not fit", sender=sender) from None
