"""A party or coordinator without some defences of the masks, for `scripts/attack masks`.

It is the control of that attack: against parties without these defences the attack must succeed.
Otherwise it would prove nothing about parties that have them. Never give it real data. Usage:
`python -m scripts.lab.attack.weakened_party proof party join ...`.
"""

import hashlib
import runpy
import sys

from party.release import masks
from party.release.masks import MaskSecret
from protocol.wire import signatures

WITHOUT = ("nothing", "proof", "both")
"""What is switched off: nothing, the proof of possession, or also the names in the pair hash."""


def _unnamed(
    secret: MaskSecret,
    keys: list[bytes],
    own: int,  # noqa: ARG001
    other: int,
    chain_hash: bytes,
) -> bytes:
    """The pair hash without roster indices and keys."""
    shared = secret.shared(keys[other])
    return hashlib.blake2b(b"sotto pair\n" + chain_hash, key=shared, digest_size=32).digest()


def weaken(without: str) -> None:
    """Switch off defences in this process, for all objects made afterwards."""
    if without not in WITHOUT:
        raise SystemExit(f"{without!r} is not one of {', '.join(WITHOUT)}")
    if without in ("proof", "both"):
        signatures.require_owned = lambda *_, **__: None
    if without == "both":
        masks.pair_secret = _unnamed


if __name__ == "__main__":
    _, off, role, *arguments = sys.argv
    weaken(off)
    sys.argv = [role, *arguments]
    runpy.run_module(role, run_name="__main__", alter_sys=True)
