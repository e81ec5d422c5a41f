"""A party or a coordinator with defences of the masks switched off, for `scripts/attack masks`.

It is the control of that attack: against parties without these defences the attack must succeed, or
it would show nothing against parties that have them. Never give it real data.

    python -m scripts.attacks.weakened proof party join ...
"""

import hashlib
import runpy
import sys

from party import masks
from party.masks import MaskSecret
from protocol import signatures

WITHOUT = ("nothing", "proof", "both")
"""What is switched off: nothing, the proof of possession, or the names in the pair hash as well."""


def _unnamed(secret: MaskSecret, keys: list[bytes], own: int, other: int, head: bytes) -> bytes:  # noqa: ARG001
    """The pair hash without places and keys."""
    shared = secret.shared(keys[other])
    return hashlib.blake2b(b"sotto pair\n" + head, key=shared, digest_size=32).digest()


def weaken(without: str) -> None:
    """Switch off defences in this process, for all that is made afterwards."""
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
