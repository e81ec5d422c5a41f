"""Who a party is: its signing key (Ed25519) and its transport key (CURVE).

Secrets live in one file that only its owner can read. They are never printed, logged or
sent; the public halves go into the agreement.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import zmq
from nacl.bindings import crypto_sign
from nacl.signing import SigningKey

from protocol.agreement.model import Agreement
from protocol.errors import BadKey
from protocol.runtime.files import read_private, write_private
from protocol.runtime.process_memory import keep_private
from protocol.wire.codec import SIGNATURE_BYTES, pack
from protocol.wire.messages import Message, Signed


@dataclass(frozen=True, repr=False)
class Identity:
    """A party's name and keys. The secret halves have no printable form."""

    name: str
    signing_secret: bytes
    signing_key: bytes
    transport_secret: bytes
    transport_key: bytes

    def __repr__(self) -> str:
        return f"<identity of {self.name!r}>"

    def pack(self, message: Message) -> Signed:
        """Sign a message."""
        return pack(message, key=self.signing_key, sign=self._sign)

    def _sign(self, data: bytes) -> bytes:
        return crypto_sign(data, self.signing_secret)[:SIGNATURE_BYTES]

    def member_table(self) -> str:
        """The public half, as the convener puts it into the agreement."""
        return (
            "[[member]]\n"
            f"name = {json.dumps(self.name)}\n"
            f'signing_key = "{self.signing_key.hex()}"\n'
            f"transport_key = '{self.transport_key.decode()}'\n"
        )

    def belongs_to(self, agreement: Agreement) -> None:
        """Refuse an agreement that names another key for this party."""
        member = agreement.members[agreement.place(self.name)]
        for what, ours, theirs in (
            ("signing_key", self.signing_key.hex(), member.signing_key.hex()),
            ("transport_key", self.transport_key.decode(), member.transport_key),
        ):
            if ours != theirs:
                raise BadKey(
                    f"the agreement gives {self.name!r} the {what} {theirs or 'nothing'}, this "
                    f"key file has {ours}; send the convener the right member file"
                )


def generate(name: str) -> Identity:
    """New keys from the operating system's cryptographic source."""
    _, transport_secret = zmq.curve_keypair()
    return _identity(name, bytes(SigningKey.generate()), transport_secret)


def save(identity: Identity, path: Path) -> None:
    """Write the key file. An existing one is never overwritten."""
    content = {
        "name": identity.name,
        "signing_secret": identity.signing_secret[:32].hex(),
        "transport_secret": identity.transport_secret.decode(),
    }
    write_private(path, json.dumps(content, indent=2) + "\n")


def load(path: Path) -> Identity:
    """Read a key file. From here on the memory of the process is kept from others."""
    keep_private()

    def parsed(text: str) -> Identity:
        try:
            content = json.loads(text)
            return _identity(
                content["name"],
                bytes.fromhex(content["signing_secret"]),
                content["transport_secret"].encode(),
            )
        except Exception:  # whatever is wrong inside, its text must not reach a message
            raise BadKey(
                f"{str(path)!r} is not a key file of `party keygen`, which is called NAME.key"
            ) from None

    return read_private(path, parsed)


def _identity(name: str, seed: bytes, transport_secret: bytes) -> Identity:
    signing = SigningKey(seed)
    return Identity(
        name=name,
        signing_secret=bytes(signing) + bytes(signing.verify_key),
        signing_key=bytes(signing.verify_key),
        transport_secret=transport_secret,
        transport_key=zmq.curve_public(transport_secret),
    )
