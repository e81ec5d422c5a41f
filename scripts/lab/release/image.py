"""Builds the container image of a release, and asks it what is in it. Docker does the work.

The files are those of the commit, and the wheel is the one of the release. Two builds of an image
do not have equal bytes, so the signed statement names one image by its id.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

from scripts.lab.common.local_session import ROOT
from scripts.lab.release.build import export


class Image(Struct, frozen=True):
    """An image that was built: what Docker calls it, and what the base image brought."""

    name: str
    id: str
    python: str
    debian: str
    """A line `NAME[:ARCHITECTURE]<tab>VERSION` for each package of the system."""


def missing_for_image() -> list[str]:
    """What `--image` needs and is not here. Asked before anything is made."""
    if shutil.which("docker") is None:
        return ["--image needs docker, which is not here"]
    for command, said in (
        (("version",), "a Docker daemon that answers; `docker version` says what is wrong"),
        (("buildx", "version"), "buildx, a part of Docker that is not installed here"),
    ):
        if subprocess.run(["docker", *command], capture_output=True).returncode:
            return [f"--image needs {said}"]
    return []


def build_image(name: str, wheel: Path, root: Path = ROOT) -> Image:
    """Build the image of the commit with the wheel, and its list, in the folder `wheel`."""
    with tempfile.TemporaryDirectory() as context:
        export(Path(context), root=root)
        _docker("build", "--build-context", f"wheel={wheel}", "--tag", name, context)
    number = _docker("image", "inspect", "--format", "{{.Id}}", name).strip()
    run = ("run", "--rm", "--network", "none", number)
    python = _docker(*run, "python", "-c", "import platform; print(platform.python_version())")
    return Image(name, number, python.strip(), _docker(*run, "dpkg-query", "-W"))


def _docker(*arguments: str) -> str:
    """What docker prints. Its messages go to the terminal."""
    done = subprocess.run(["docker", *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"docker {arguments[0]} failed: nothing is signed")
    return done.stdout
