"""What a release needs, what it rests on, and who signed it."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from nacl.signing import SigningKey
from packaging.requirements import Requirement

from protocol import __version__
from protocol.errors import BadKey
from scripts.lab.release import provenance
from scripts.lab.release.__main__ import audit_result, make, missing, stale_lock
from scripts.lab.release.build import git
from scripts.lab.release.image import Image
from scripts.lab.release.lock import LOCK, locked, normal_name, pinned
from scripts.lab.release.sbom import sbom
from tests.support import ROOT

TIME = 1_700_000_000


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clean repository with a changelog, ready for version 1.2.3."""
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3 (2026-01-31)\n")
    for command in (("init", "--quiet"), ("add", "-A"), ("commit", "-qm", "first"),
                    ("tag", "v1.2.3")):  # fmt: skip
        run_git(tmp_path, *command)
    return tmp_path


def run_git(folder: Path, *command: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *command], check=True, capture_output=True)


def test_a_clean_tagged_commit_with_a_dated_changelog_is_complete(repository: Path) -> None:
    """Nothing is missing there; another version is neither tagged nor in the changelog."""
    assert missing("1.2.3", repository) == []
    assert len(missing("1.2.4", repository)) == 2


@pytest.mark.parametrize(
    ("version", "change", "said"),
    [
        ("1.2.3", lambda f: (f / "new").touch(), "not committed"),
        ("1.2.3", lambda f: run_git(f, "tag", "-d", "v1.2.3"), "git tag v1.2.3"),
        ("1.2.3", lambda f: run_git(f, "commit", "-qm", "next", "--allow-empty"), "has no tag"),
        ("1.2.3.dev0", lambda f: None, "no version to release"),  # noqa: ARG005
    ],
)
def test_what_is_missing_is_said(
    repository: Path, version: str, change: Callable[[Path], object], said: str
) -> None:
    """A dirty tree, a commit without its tag, and a version of development are refused."""
    change(repository)
    found = missing(version, repository)
    assert len(found) == 1
    assert said in found[0]


def test_an_open_changelog_is_refused(repository: Path) -> None:
    """The first heading must have the version and a date."""
    for heading in ("## 1.2.3 (not yet released)", "## 1.2.2 (2026-01-31)", "1.2.3 (2026-01-31)"):
        (repository / "CHANGELOG.md").write_text(f"# Changes\n\n{heading}\n")
        assert any("first heading of CHANGELOG.md" in line for line in missing("1.2.3", repository))


def test_the_lock_has_every_needed_package_as_pinned() -> None:
    """Each package that a session needs is there with its pinned version and its hashes."""
    assert stale_lock() == []
    found, versions = locked(LOCK.read_text()), pinned()
    due, seen = ["sottovoce"], set()
    while due:
        name = due.pop()
        needed = [Requirement(line) for line in distribution(name).requires or ()]
        for package in needed:
            if package.marker is None or package.marker.evaluate({"extra": ""}):
                due += [package.name] if package.name not in seen else []
                seen.add(package.name)
    assert {normal_name(name) for name in seen} <= found.keys()
    for name, (version, hashes) in found.items():
        assert version == versions[name]
        assert hashes
    assert LOCK.read_text().count("==") == len(found), "a line of the lock cannot be read"


def test_the_list_of_parts_names_each_package_with_its_hashes() -> None:
    """CycloneDX: the release, its packages with version and hashes, and who needs whom."""
    image = Image("sotto", "sha256:12", python="3.11.9", debian="bash\t5.2\nlibc6:amd64\t2.36-9")
    text = sbom(__version__, TIME, wheel_hash="ab" * 32, image=image)
    assert text == sbom(__version__, TIME, wheel_hash="ab" * 32, image=image)
    content = json.loads(text)
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.5")
    own = content["metadata"]["component"]
    assert (own["name"], own["version"]) == ("sottovoce", __version__)
    assert own["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    parts = {part["name"]: part for part in content["components"]}
    for name, (version, hashes) in locked(LOCK.read_text()).items():
        part = parts.pop(name)
        assert part["purl"] == f"pkg:pypi/{name}@{version}"
        assert sorted(entry["content"] for entry in part["hashes"]) == sorted(hashes)
    assert parts.pop("bash")["purl"] == "pkg:deb/debian/bash@5.2"
    assert parts.pop("libc6")["purl"] == "pkg:deb/debian/libc6@2.36-9?arch=amd64"
    assert parts.pop("python")["cpe"].startswith("cpe:2.3:a:python:python:3.11.9:")
    assert parts == {}
    needs = {entry["ref"]: entry.get("dependsOn", ()) for entry in content["dependencies"]}
    assert len(needs[own["bom-ref"]]) == len(content["components"])


def test_an_audit_never_says_more_than_it_looked_up() -> None:
    """Packages that cannot be looked up are counted, and a vulnerability ends the release."""
    clean = {"name": "a", "version": "1", "vulns": []}
    skipped = {"name": "b", "skip_reason": "not found"}
    known = {"name": "c", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
    for found, said in (
        ([clean, clean], "no known vulnerability in 2 packages"),
        ([clean, skipped], "not complete: 1 of 2 packages cannot be looked up"),
        ([], "not complete: 0 of 0 packages cannot be looked up"),
    ):
        assert audit_result(json.dumps({"dependencies": found})) == said
    assert audit_result("").startswith("not run: ")
    with pytest.raises(SystemExit, match="c: PYSEC-1"):
        audit_result(json.dumps({"dependencies": [skipped, known]}))


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release of two files, signed with a key of the test."""
    public = tmp_path / "release.pub"
    public.write_text(provenance.make_key(tmp_path / "release.key") + "\n")
    monkeypatch.setattr(provenance, "PUBLIC_KEY", public)
    folder = tmp_path / "release"
    folder.mkdir()
    files = [folder / "a.whl", folder / "b.tar.gz"]
    for path in files:
        path.write_bytes(path.name.encode())
    data = provenance.statement("1.2.3", "HEAD", TIME, files, "not run")
    (folder / provenance.STATEMENT).write_bytes(data)
    signature = provenance.sign(data, tmp_path / "release.key")
    (folder / provenance.SIGNATURE).write_text(signature)
    assert provenance.verify(folder) == []
    return folder


def _rename_commit(folder: Path) -> None:
    path = folder / provenance.STATEMENT
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {"commit": "0" * 40}))


def _sign_with_another_key(folder: Path) -> None:
    data = (folder / provenance.STATEMENT).read_bytes()
    signature = SigningKey.generate().sign(provenance.CONTEXT + data).signature
    (folder / provenance.SIGNATURE).write_text(signature.hex())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "a.whl").write_bytes(b"other"), "a.whl is not the file"),
        (lambda f: (f / "b.tar.gz").unlink(), "b.tar.gz is missing"),
        (lambda f: (f / "c.whl").touch(), "c.whl is not in the statement"),
        (lambda f: (f / provenance.SIGNATURE).write_text("00" * 64), "is no signature"),
        (lambda f: (f / provenance.SIGNATURE).write_text("x"), "is no signature"),
        (lambda f: (f / provenance.STATEMENT).unlink(), "No such file"),
        (_rename_commit, "is no signature"),
        (_sign_with_another_key, "is no signature"),
    ],
)
def test_a_changed_release_is_found(
    signed: Path, change: Callable[[Path], object], said: str
) -> None:
    """Each file, the statement and the signature belong together."""
    change(signed)
    assert said in "\n".join(provenance.verify(signed))


@pytest.mark.usefixtures("signed")
def test_only_the_published_key_signs(tmp_path: Path) -> None:
    """Another key is refused before anything is built or signed."""
    provenance.make_key(tmp_path / "other.key")
    with pytest.raises(SystemExit, match=r"is not the key of release\.pub"):
        make(tmp_path / "out", tmp_path / "other.key", None)
    assert not (tmp_path / "out").exists()


def test_the_security_page_names_the_key_of_releases() -> None:
    """The page and the file have one key, and the file has no other content."""
    key = (ROOT / "release.pub").read_text()
    assert re.fullmatch(r"[0-9a-f]{64}\n", key)
    assert key.strip() in (ROOT / "SECURITY.md").read_text()


def test_no_file_of_the_repository_holds_the_secret_key() -> None:
    """No tracked file has 32 bytes, raw or as hexadecimal digits, that sign for `release.pub`."""
    public = (ROOT / "release.pub").read_text().strip()
    found = set()
    for name in git("ls-files", "-z").split("\0"):
        path = ROOT / name
        data = path.read_bytes() if name and path.is_file() else b""
        digits = re.findall(rb"(?<![0-9a-fA-F])[0-9a-fA-F]{64}(?![0-9a-fA-F])", data)
        found |= {bytes.fromhex(text.decode()) for text in digits}
        found |= {data} if len(data) == 32 else set()
    assert bytes.fromhex(public) in found
    assert public not in {bytes(SigningKey(seed).verify_key).hex() for seed in found}


def test_a_secret_key_is_never_written_into_the_repository(tmp_path: Path) -> None:
    """Not in a folder of it, nor through a link, and not over an older key; the error says so."""
    (tmp_path / "link").symlink_to(ROOT / "scripts")
    (tmp_path / "old.key").write_text("old\n")
    for place in (ROOT / "release.key", tmp_path / "link" / "release.key", tmp_path / "old.key"):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.lab.release", "--keygen", str(place)],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == BadKey.exit_code
        assert done.stderr.startswith("error: ")
        assert str(place) in done.stderr
    assert not (ROOT / "release.key").exists()
    assert not (ROOT / "scripts" / "release.key").exists()
    assert (tmp_path / "old.key").read_text() == "old\n"


def test_the_image_installs_only_files_with_a_known_hash() -> None:
    """Its packages come from the lock, and the wheel from the stage before."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    installs = [line for line in lines if "/venv/bin/python install" in line]
    assert len(installs) == 2
    for line in installs:
        assert "--require-hashes -r requirements.lock" in line or "--no-index" in line
