"""`scripts/release`: the one way to make a release. It says all that is missing, or makes it."""

import argparse
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from protocol import __version__
from protocol.errors import BadKey
from scripts.lab.common.local_session import ROOT
from scripts.lab.release import provenance
from scripts.lab.release.build import build, commit_time, export, git
from scripts.lab.release.image import build_image, missing_for_image
from scripts.lab.release.lock import LOCK, locked, pinned, write_lock

_DESCRIPTION = """\
Make a release: wheel and source distribution, a list of what they rest on (SBOM), and a signed
statement of where they come from. Everything is built from the commit, not from the working tree.

  scripts/release --key ~/release.key --out release
  scripts/release --check               say what is missing, and make nothing
  scripts/release --verify release      check a release against its signature
  scripts/release --lock                write requirements.lock from constraints.txt
  scripts/release --keygen ~/release.key

Before: set the version in protocol/__init__.py, date its heading in CHANGELOG.md, run scripts/test,
commit, and tag the commit vVERSION.

Exit codes: 0 done; 1 the release in --verify is not as it was signed; 2 something is missing;
5 the key cannot be read or written."""


def missing(version: str = __version__, root: Path = ROOT) -> list[str]:
    """What a release of this version still needs, and what to do about each."""
    found = []
    if not re.fullmatch(r"\d+(\.\d+)+", version):
        found.append(f"{version} is no version to release; set one in protocol/__init__.py")
        version = version.partition(".dev")[0]
    if git("status", "--porcelain", root=root):
        found.append("the tree has changes that are not committed; commit or remove them")
    if f"v{version}" not in git("tag", "--points-at", "HEAD", root=root).split():
        found.append(f"this commit has no tag; run: git tag v{version}")
    heading = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    wanted = rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)"
    if heading is None or not re.fullmatch(wanted, heading[1]):
        found.append(
            f"the first heading of CHANGELOG.md must be '## {version} (YYYY-MM-DD)'; it is "
            f"{heading[0] if heading else 'missing'!r}"
        )
    return found + stale_lock()


def stale_lock() -> list[str]:
    """Packages whose version in requirements.lock is not the one of constraints.txt."""
    if not LOCK.exists():
        return ["requirements.lock is missing; run scripts/release --lock"]
    versions = pinned()
    wrong = [n for n, (v, _) in locked(LOCK.read_text()).items() if versions.get(n) != v]
    if not wrong:
        return []
    return [f"requirements.lock is not up to date ({', '.join(wrong)}); run scripts/release --lock"]


def audited() -> str:
    """Whether a public database knows vulnerabilities of the locked packages."""
    if importlib.util.find_spec("pip_audit") is None:
        return "not run: pip-audit is not installed (scripts/environment pip install pip-audit)"
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", str(LOCK),
         "--progress-spinner", "off", "--timeout", "20", "--format", "json"],
        capture_output=True, text=True,
    )  # fmt: skip
    return audit_result(done.stdout)


def audit_result(output: str) -> str:
    """What an audit found, from its output. Raises if a package has a known vulnerability."""
    try:
        found = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return "not run: the database of vulnerabilities cannot be reached"
    vulnerable = [f"{p['name']}: {v['id']}" for p in found for v in p.get("vulns", ())]
    if vulnerable:
        raise SystemExit(f"known vulnerabilities; raise these versions: {', '.join(vulnerable)}")
    unknown = [p["name"] for p in found if "skip_reason" in p]
    if unknown or not found:
        return f"not complete: {len(unknown)} of {len(found)} packages cannot be looked up"
    return f"no known vulnerability in {len(found)} packages"


def make(out: Path, key: Path, image: str | None) -> None:
    """Build, list, audit, sign and check."""
    from scripts.lab.release.sbom import sbom

    provenance.sign(b"", key)  # a wrong key is refused before anything is made
    out.mkdir(parents=True)
    time = commit_time()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        built = []
        for folder in (Path(first), Path(second)):
            export(folder / "source")
            built.append(build(folder / "source", folder / "dist", time))
        for one, other in zip(*built, strict=True):
            if one.read_bytes() != other.read_bytes():
                raise SystemExit(f"two builds of {one.name} differ: nothing is released")
            shutil.copy(one, out)
    files = sorted(out.iterdir())
    wheel = next(path for path in files if path.suffix == ".whl")
    listed = out / f"{wheel.name}.cdx.json"
    listed.write_text(sbom(__version__, time, wheel_hash=provenance.sha256(wheel)))
    files.append(listed)
    built_image = None
    if image is not None:
        built_image = build_image(image, out)
        listed = out / f"{re.sub('[/:]', '-', image)}.image.cdx.json"
        listed.write_text(
            sbom(__version__, time, wheel_hash=provenance.sha256(wheel), image=built_image)
        )
        files.append(listed)
    audit = audited()
    print(f"audit: {audit}")
    commit = git("rev-parse", "HEAD")
    data = provenance.statement(__version__, commit, time, files, audit, image=built_image)
    (out / provenance.STATEMENT).write_bytes(data)
    (out / provenance.SIGNATURE).write_text(provenance.sign(data, key) + "\n")
    _verify(out)


def _verify(folder: Path) -> None:
    problems = provenance.verify(folder)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if problems:
        raise SystemExit(1)
    print(f"{folder}: as signed with {provenance.PUBLIC_KEY.name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/release",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--key", type=Path, metavar="FILE", help="the secret key of releases, not in the tree")
    add("--out", type=Path, default=Path("release"), metavar="DIR", help="a new folder (release)")
    add("--image", metavar="NAME", help="also build the container image NAME from the same wheel")
    for option, text in (("--check", "say what is missing"), ("--lock", "write the lock again")):
        add(option, action="store_true", help=text)
    add("--verify", type=Path, metavar="DIR", help="check the release in this folder")
    add("--keygen", type=Path, metavar="FILE", help="make a new key of releases")
    options = parser.parse_args()
    try:
        _act(parser, options)
    except BadKey as error:
        parser.exit(error.exit_code, f"error: {error}\n")


def _act(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Do what the options ask for."""
    if options.keygen:
        print(f"{provenance.make_key(options.keygen)}: the public half, for release.pub")
    elif options.lock:
        write_lock()
    elif options.verify:
        _verify(options.verify)
    else:
        problems = missing()
        if not options.check:
            if options.key is None:
                problems.append("the key of releases is missing; name it with --key")
            if options.out.exists():
                problems.append(f"{options.out} exists; name a new folder with --out")
            if options.image:
                problems += missing_for_image()
        if problems:
            lines = "\n".join(f"  - {problem}" for problem in problems)
            parser.exit(2, f"nothing was made. A release of {__version__} still needs:\n{lines}\n")
        if not options.check:
            make(options.out, options.key, options.image)


if __name__ == "__main__":
    main()
