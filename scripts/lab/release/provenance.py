"""Where a release comes from: commit, inputs, tools and files, signed with the project's key.

The public half of the key is `release.pub`, which SECURITY.md names. The secret half is never in
the tree. A signature shows that a holder of the key made the statement, and nothing more.
"""

import hashlib
import json
import platform
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from protocol.errors import BadKey
from protocol.runtime.files import read_private, write_private
from scripts.lab.common.local_session import ROOT
from scripts.lab.release.build import git
from scripts.lab.release.image import Image

PUBLIC_KEY = ROOT / "release.pub"
STATEMENT, SIGNATURE = "provenance.json", "provenance.sig"
CONTEXT = b"sotto release 1\n"
"""Put before a statement that is signed, so that no other signature is valid for it."""

_INPUTS = ("pyproject.toml", "constraints.txt", "requirements.lock", "Dockerfile")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def statement(
    version: str, commit: str, time: int, files: list[Path], audit: str, image: Image | None = None
) -> bytes:
    """What a release is made from, and what it consists of."""
    content: dict[str, Any] = {
        "project": "sottovoce",
        "version": version,
        "commit": commit,
        "tree": git("rev-parse", f"{commit}^{{tree}}"),
        "source_date_epoch": time,
        "inputs": {name: sha256(ROOT / name) for name in _INPUTS},
        "tools": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            **{name: installed(name) for name in ("build", "setuptools")},
        },
        "audit": audit,
        "files": {path.name: sha256(path) for path in sorted(files)},
    }
    if image is not None:
        content["image"] = {"name": image.name, "id": image.id}
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def make_key(path: Path) -> str:
    """Write a new secret key outside of the repository; return its public half."""
    if path.resolve().is_relative_to(ROOT):
        raise BadKey(f"{str(path)!r} is in the repository; the secret half must never be there")
    key = SigningKey.generate()
    write_private(path, bytes(key).hex() + "\n")
    return bytes(key.verify_key).hex()


def sign(data: bytes, key: Path) -> str:
    """The signature of a statement. The key must be the one in `release.pub`."""
    secret = read_private(key, lambda text: SigningKey(bytes.fromhex(text.strip())))
    if bytes(secret.verify_key).hex() != PUBLIC_KEY.read_text().strip():
        raise SystemExit(f"{key} is not the key of {PUBLIC_KEY.name}; use that one")
    return secret.sign(CONTEXT + data).signature.hex()


def verify(folder: Path) -> list[str]:
    """What is wrong with the release in a folder; nothing if it is as it was signed."""
    try:
        data = (folder / STATEMENT).read_bytes()
        signature = bytes.fromhex((folder / SIGNATURE).read_text().strip())
        VerifyKey(bytes.fromhex(PUBLIC_KEY.read_text().strip())).verify(CONTEXT + data, signature)
    except (BadSignatureError, ValueError):
        return [f"{SIGNATURE} is no signature of {STATEMENT} with the key of {PUBLIC_KEY.name}"]
    except OSError as error:
        return [f"{error.filename}: {error.strerror}"]
    problems = []
    files: dict[str, str] = json.loads(data)["files"]
    for name, digest in files.items():
        if not (folder / name).is_file():
            problems.append(f"{name} is missing")
        elif sha256(folder / name) != digest:
            problems.append(f"{name} is not the file that was signed")
    known = {*files, STATEMENT, SIGNATURE}
    problems += [
        f"{path.name} is not in the statement"
        for path in sorted(folder.iterdir())
        if path.name not in known
    ]
    return problems
