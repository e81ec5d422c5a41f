"""How a release builds its container image. A stand-in for docker writes down what it gets."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts.lab.release import provenance
from scripts.lab.release.image import build_image, missing_for_image

_DOCKER = """\
#!/bin/sh
cd "${0%/*}"
echo "$*" >> calls
case "$*" in
    "$(cat fails)"*) exit 1 ;;
    build\\ *)
        for context; do :; done
        (cd "$context" && find . -type f | sort) > sent
        cat "$context/kept" > content ;;
    image\\ inspect*) echo sha256:12 ;;
    run*dpkg-query*) printf 'bash\\t5.2\\nlibc6:amd64\\t2.36-9\\n' ;;
    run*) echo 3.11.9 ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a docker that does nothing; commands that begin as `fails` says end with 1."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").write_text(_DOCKER)
    (folder / "docker").chmod(0o755)
    (folder / "fails").write_text("none\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one file in its commit, which changed since, and one that git ignores."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "kept").write_text("committed\n")
    (folder / ".gitignore").write_text("ignored\n")
    for command in (("init", "--quiet"), ("add", "-A"), ("commit", "-qm", "first")):
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", "-C", str(folder), *who, *command], check=True)
    (folder / "kept").write_text("changed\n")
    (folder / "ignored").touch()
    return folder


def test_the_image_is_built_from_the_commit_and_the_wheel(
    docker: Path, repository: Path, tmp_path: Path
) -> None:
    """Docker gets the files as they were committed, and the folder of the release as the wheel."""
    image = build_image("sotto:1.2.3", tmp_path / "release", repository)
    assert (docker / "sent").read_text().split() == ["./.gitignore", "./kept"]
    assert (docker / "content").read_text() == "committed\n"
    built, *asked = (docker / "calls").read_text().splitlines()
    assert f"--build-context wheel={tmp_path / 'release'} --tag sotto:1.2.3 " in built
    assert all("sha256:12" in call for call in asked[1:]), "another image could be asked by name"
    assert image.python == "3.11.9"
    assert image.debian.split() == ["bash", "5.2", "libc6:amd64", "2.36-9"]
    content = json.loads(provenance.statement("1.2.3", "HEAD", 0, [], "not run", image))
    assert content["image"] == {"name": "sotto:1.2.3", "id": "sha256:12"}


def test_docker_is_tried_before_anything_is_made(
    docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the program, its daemon or its builder, the release says so and is not begun."""
    assert missing_for_image() == []
    for fails, said in (("version", "daemon that answers"), ("buildx", "needs buildx")):
        (docker / "fails").write_text(fails)
        (found,) = missing_for_image()
        assert said in found
    monkeypatch.setenv("PATH", str(docker / "empty"))
    assert missing_for_image() == ["--image needs docker, which is not here"]


def test_a_build_that_fails_ends_the_release(
    docker: Path, repository: Path, tmp_path: Path
) -> None:
    """The error says which step failed, and that nothing is signed."""
    for step in ("build", "run"):
        (docker / "fails").write_text(step)
        with pytest.raises(SystemExit, match=f"docker {step} failed: nothing is signed"):
            build_image("sotto", tmp_path / "release", repository)
