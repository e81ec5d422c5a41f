"""Keys of those who receive claims: a clearing office, or the operator of a resource.

The secret half stays with its owner, who opens claims with it. The public half goes into the
agreement. Never here: a member's keys.
"""

import json
from pathlib import Path

from nacl.public import PrivateKey

from protocol.agreement.fields import wrong_name
from protocol.errors import BadCommand, BadKey
from protocol.runtime.files import read_private, write_new, write_private


def keygen(name: str, folder: Path) -> tuple[Path, Path]:
    """Write NAME.key and NAME.role.toml with a new key. Existing files are never overwritten."""
    if why := wrong_name(name):
        raise BadCommand(f"the name {name!r} cannot be used in an agreement: {why}")
    key, role = (folder / f"{name}{suffix}" for suffix in (".key", ".role.toml"))
    if role.exists():
        raise BadCommand(f"{str(role)!r} exists already and is not overwritten")
    secret = PrivateKey.generate()
    write_private(key, json.dumps({"name": name, "claim_secret": bytes(secret).hex()}) + "\n")
    public = bytes(secret.public_key).hex()
    write_new(role, f'name = {json.dumps(name)}\nkey = "{public}"\n')
    return key, role


def load(path: Path) -> bytes:
    """The secret key in a file of `keygen`."""

    def parse(text: str) -> bytes:
        try:
            secret = bytes.fromhex(json.loads(text)["claim_secret"])
        except Exception:  # its text could hold a secret: it must not reach a message
            secret = b""
        if len(secret) != PrivateKey.SIZE:
            raise BadKey(f"{str(path)!r} is not a key file of `protocol keygen`: use NAME.key")
        return secret

    return read_private(path, parse)
