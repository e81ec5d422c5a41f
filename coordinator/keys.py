"""Reads the coordinator's transport key, and checks that it belongs to the agreement."""

import argparse
from pathlib import Path

from protocol.agreement.model import Agreement
from protocol.errors import BadKey
from protocol.runtime.files import read_private


def read_secret(path: Path) -> bytes:
    """Return the secret key in a file that `coordinator new` wrote."""

    def parsed(text: str) -> bytes:
        if len(text.strip()) != 40 or not text.isascii():
            raise BadKey(f"{str(path)!r} is not a key file of `coordinator new`")
        return text.strip().encode()

    return read_private(path, parsed)


def own_secret(options: argparse.Namespace, agreement: Agreement) -> bytes:
    """Return the secret key of `--key`, which must be the one in the agreement."""
    import zmq

    secret = read_secret(options.key)
    if zmq.curve_public(secret).decode() != agreement.transport.coordinator_key:
        raise BadKey(
            f"--key {str(options.key)!r} is not the coordinator key of this agreement; use the "
            "key file that `coordinator new` wrote for it"
        )
    return secret
