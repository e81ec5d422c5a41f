"""A party's signing key (Ed25519) and transport key (CURVE), and the file that holds them.

Only the owner can read the key file. The public halves go into the agreement.
Never here: a secret that is printed, logged or sent.
"""

import json
from pathlib import Path

import zmq
from nacl.bindings import crypto_sign
from nacl.signing import SigningKey

from party.ledger import budget_marker
from protocol.agreement.fields import wrong_name
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadKey
from protocol.records import Opaque
from protocol.runtime.files import read_private, write_new, write_private
from protocol.runtime.process_memory import keep_private
from protocol.wire.codec import SIGNATURE_BYTES, pack
from protocol.wire.messages import Message, Signed


class Identity(Opaque, frozen=True, eq=True):
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
        return pack(message, key=self.signing_key, sign=self.sign)

    def sign(self, text: bytes) -> bytes:
        """Sign a text. It must begin with a context of its own, as SPEC.md §23 does."""
        return crypto_sign(text, self.signing_secret)[:SIGNATURE_BYTES]

    def member_table(self) -> str:
        """The public keys, as the convener puts them into the agreement."""
        return (
            "[[member]]\n"
            f"name = {json.dumps(self.name)}\n"
            f'signing_key = "{self.signing_key.hex()}"\n'
            f"transport_key = '{self.transport_key.decode()}'\n"
        )

    def belongs_to(self, agreement: Agreement) -> None:
        """Raise if the agreement has another key for this party."""
        member = agreement.members[agreement.place(self.name)]
        for field, own, agreed in (
            ("signing_key", self.signing_key.hex(), member.signing_key.hex()),
            ("transport_key", self.transport_key.decode(), member.transport_key),
        ):
            if own != agreed:
                raise BadKey(
                    f"the {field} of {self.name!r} is {agreed or 'empty'} in the agreement, but "
                    f"{own} in this key file; send the convener the right member file"
                )


def keygen(name: str, folder: Path) -> tuple[Path, Path]:
    """Write NAME.key, NAME.budget and NAME.member.toml. Existing files are never overwritten."""
    if why := wrong_name(name):
        raise BadCommand(f"the name {name!r} cannot be used in an agreement: {why}")
    identity = generate(name)
    key, member = (folder / f"{name}{suffix}" for suffix in (".key", ".member.toml"))
    if member.exists():
        raise BadCommand(f"{str(member)!r} exists already and is not overwritten")
    save(identity, key)
    write_new(member, identity.member_table())
    return key, member


def generate(name: str) -> Identity:
    """New keys from the operating system's cryptographic source."""
    _, transport_secret = zmq.curve_keypair()
    return _identity(name, bytes(SigningKey.generate()), transport_secret)


def save(identity: Identity, path: Path) -> None:
    """Write the key file, and its marker beside it. An existing key is never overwritten."""
    content = {
        "name": identity.name,
        "signing_secret": identity.signing_secret[:32].hex(),
        "transport_secret": identity.transport_secret.decode(),
    }
    write_private(path, json.dumps(content, indent=2) + "\n")
    budget_marker.begin(path)


def load(path: Path) -> Identity:
    """Read a key file. From here on other processes cannot read the memory of this one."""
    keep_private()

    def parse(text: str) -> Identity:
        try:
            content = json.loads(text)
            return _identity(
                content["name"],
                bytes.fromhex(content["signing_secret"]),
                content["transport_secret"].encode(),
            )
        except Exception:  # its text could hold a secret: it must not reach a message
            raise BadKey(
                f"{str(path)!r} is not a key file of `party keygen`: use NAME.key"
            ) from None

    return read_private(path, parse)


def _identity(name: str, seed: bytes, transport_secret: bytes) -> Identity:
    signing = SigningKey(seed)
    return Identity(
        name=name,
        signing_secret=bytes(signing) + bytes(signing.verify_key),
        signing_key=bytes(signing.verify_key),
        transport_secret=transport_secret,
        transport_key=zmq.curve_public(transport_secret),
    )
