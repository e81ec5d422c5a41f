"""The rules of the house: who may import whom, what every file has, and what the pages say."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol import errors
from tests.kit import ROOT
from tests.kit.waiting import LIMIT

FOLDERS = ("protocol", "party", "coordinator", "scripts", "tests")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
SHELL = {"__main__", "command", "meter", "openfiles", "outputs", "window"}
"""The files of `protocol` that may touch the world: its command line and its outputs, and what
party and coordinator both need to hold and watch their connections and to be watched. Its
pages, which read their style, are an edge as well."""

WORLD = {
    "asyncio", "concurrent", "datetime", "fcntl", "glob", "highspy", "io", "logging",
    "multiprocessing", "opendp", "os", "pathlib", "random", "rich", "secrets", "select",
    "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile",
    "threading", "time", "uuid", "zmq",
}  # fmt: skip
"""Sockets, clock, disk, randomness, threads and solvers."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def modules(folder: str) -> list[Path]:
    return [path for path in FILES if path.is_relative_to(ROOT / folder)]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, as a dotted name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(path: Path, *roots: str) -> set[str]:
    """What a file imports of these packages or modules."""
    return {name for name in imports(path) for root in roots if f"{name}.".startswith(f"{root}.")}


def calls(path: Path) -> Iterator[str]:
    """The dotted text of everything that a file calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


EDGE = [
    path
    for path in modules("protocol")
    if path.stem in SHELL or path.is_relative_to(ROOT / "protocol" / "pages")
]
PURE = [path for path in modules("protocol") if path not in EDGE]


@pytest.mark.parametrize("path", PURE, ids=named)
def test_protocol_is_pure(path: Path) -> None:
    """What all parties agree on has no socket, clock, disk or randomness, and no edge."""
    edges = ("command", "meter", "openfiles", "outputs", "pages", "window")
    assert not imported(path, "importlib", *(f"protocol.{edge}" for edge in edges))
    assert not imported(path, *WORLD, "party", "coordinator", "scripts", "tests")
    touched = {"open", "print", "input", "exec", "eval", "__import__"} & set(calls(path))
    assert not touched
    assert not any(".random." in f".{call}." for call in calls(path))


@pytest.mark.parametrize("path", modules("protocol/pages"), ids=named)
def test_pages_touch_nothing_but_their_style(path: Path) -> None:
    """A page is made of what it is given: no clock, no socket and no file of a session."""
    assert not imported(path, *WORLD)
    assert not {"open", "print"} & set(calls(path))


@pytest.mark.parametrize("path", modules("protocol"), ids=named)
def test_protocol_imports_no_other_folder(path: Path) -> None:
    """Nobody who holds only the protocol needs a party, a coordinator or a solver."""
    heavy = ("highspy", "opendp", "scipy", "sqlite3", "zmq")
    assert not imported(path, *heavy, "party", "coordinator", "scripts", "tests")


@pytest.mark.parametrize("path", modules("party"), ids=named)
def test_party_never_imports_the_coordinator(path: Path) -> None:
    """A party depends on the protocol and on nobody else."""
    assert not imported(path, "coordinator", "scripts", "tests")


@pytest.mark.parametrize("path", modules("coordinator"), ids=named)
def test_coordinator_is_only_a_relay(path: Path) -> None:
    """The coordinator knows the agreement and the transport, and no mathematics or data."""
    assert not imported(path, "party", "scripts", "tests")
    assert not imported(path, "highspy", "opendp", "numpy", "scipy", "sqlite3")
    allowed = ["agreement", "batch", "checking", "command", "errors", "messages", "meter"]
    allowed += ["openfiles", "seldom", "timers", "transport", "waits", "wire"]
    if path.stem == "__main__":  # writes agreements that can be played, also from a transcript
        allowed += ["course", "outcome", "toml", "transcript"]
    if path.stem == "watching":  # follows the rounds, in a thread and only where it is asked to
        allowed += ["course", "outcome", "pages", "transcript", "window"]
    known = imported(path, *(f"protocol.{name}" for name in allowed))
    assert imported(path, "protocol") <= known


@pytest.mark.parametrize("path", modules("party"), ids=named)
def test_only_the_gate_draws_noise(path: Path) -> None:
    """Besides the gate only who takes part or plays, and chooses it, has more than its type.

    A dry run draws partners.
    """
    if path.stem not in {"gate", "noise", "joining", "playing", "rehearsal"}:
        assert imported(path, "party.noise") <= {"party.noise.Noise"}
        assert not imported(path, "opendp", "random")
        assert not any(".random." in f".{call}." for call in calls(path))


@pytest.mark.parametrize("path", modules("party"), ids=named)
def test_only_gate_and_settlement_read_the_solution(path: Path) -> None:
    """Nothing else in a party asks the private problem for its answer; the solver is beside it."""
    if path.stem not in {"gate", "settle", "solver"}:
        assert not [call for call in calls(path) if call.endswith(".answer")]


@pytest.mark.parametrize("path", modules("tests"), ids=named)
def test_what_tests_share_is_in_the_kit(path: Path) -> None:
    """No test takes anything from the file of another."""
    assert not [name for name in imported(path, "tests") if ".test_" in name]


@pytest.mark.parametrize(
    ("folder", "strangers"),
    [
        ("protocol", ["zmq", "highspy", "opendp", "sqlite3", "party", "coordinator"]),
        ("coordinator", ["highspy", "opendp", "sqlite3", "party", "numpy", "nacl", "rich"]),
        ("party", ["coordinator", "scripts", "tests", "matplotlib", "scipy", "pandas"]),
    ],
)
def test_nothing_comes_in_by_a_back_door(folder: str, strangers: list[str]) -> None:
    """With all of a folder imported, no package that it must not need is loaded."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules(folder)]
    lines = [f"import {name}" for name in names if not name.endswith("__init__")]
    lines += ["import sys", f"print(*sorted(set({strangers!r}) & set(sys.modules)))"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert done.stdout == "\n"


def test_exit_codes_are_those_on_the_page() -> None:
    """The page of exit codes and the errors of the program say the same."""
    kinds = {
        kind.__name__: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SottoError)
    }
    page = {}
    for line in (ROOT / "protocol" / "EXITS.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].isdigit():
            page[int(cells[0])] = set(re.findall(r"`(\w+)`", cells[1]))
    for code, names in page.items():
        for name in names:
            assert kinds[name].exit_code == code
    for name, kind in kinds.items():
        if "exit_code" in vars(kind):
            assert name in page[kind.exit_code]
    assert set(page) == {kind.exit_code for kind in kinds.values()} | {0, 2, 130}


@pytest.mark.parametrize("path", FILES, ids=named)
def test_file_says_what_it_is(path: Path) -> None:
    """Every file opens with a docstring and is named after a thing."""
    assert ast.get_docstring(ast.parse(path.read_text()))
    words = set(re.split(r"[_.]", path.stem))
    vague = {"utils", "util", "helper", "helpers", "manager", "common", "handler", "base", "misc"}
    assert not words & vague


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_banner_comments(path: Path) -> None:
    """No comment is an ornament."""
    assert not re.search(r"^\s*#\s*[-=#*~]{3,}", path.read_text(), re.MULTILINE)


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="there is no README yet")
def test_readme_names_what_exists() -> None:
    """Every script that the README names is there and can be run, and so is every page."""
    text = (ROOT / "README.md").read_text()
    for name in sorted(set(re.findall(r"\bscripts/[a-z]+\b(?!\.py)", text))):
        if (ROOT / name).is_dir():
            continue
        assert os.access(ROOT / name, os.X_OK), f"{name} cannot be run"
        if f"scripts.{Path(name).name}" in (ROOT / name).read_text():
            assert (ROOT / f"{name}.py").exists(), f"{name}.py is missing"
    for name in sorted(set(re.findall(r"\b(?:protocol|party|coordinator|tests)/[\w./-]*\w", text))):
        assert (ROOT / name).exists(), f"the README names {name}"


PAGES = [
    ROOT / "README.md",
    *sorted(path for room in ("protocol", "party") for path in (ROOT / room).glob("*.md")),
    *sorted((ROOT / "scripts" / "examples").glob("*.md")),
]
"""The pages that people write. Those under `scripts/results` are written by programs."""

OTHER_TOOLS = ROOT / "scripts" / "examples" / "README.md"
"""Is about the names that other people's programs use."""


def spans(page: Path) -> tuple[list[str], str]:
    """What a page has in backticks, and the blocks of commands that it shows."""
    text = page.read_text()
    block = re.compile(r"^```.*?^```$|^ {4,}[^\n]*$", re.MULTILINE | re.DOTALL)
    blocks = "\n".join(block.findall(text))
    return [" ".join(s.split()) for s in re.findall(r"`([^`]+)`", block.sub("", text))], blocks


def sources() -> list[Path]:
    """Everything that runs, and the settings of it."""
    rooms = [path for room in FOLDERS[:-1] for path in (ROOT / room).rglob("*") if path.is_file()]
    plain = [path for path in rooms if path.suffix in (".py", "")]
    return [*plain, ROOT / "pyproject.toml", ROOT / "docker-compose.yml", ROOT / "Dockerfile"]


def members_of_classes() -> dict[str, set[str]]:
    """The classes of the house by name, with all that can stand after their dot."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                inside = list(ast.walk(node))
                names = {n.name for n in inside if isinstance(n, ast.FunctionDef)}
                names |= {n.id for n in inside if isinstance(n, ast.Name)}
                names |= {n.attr for n in inside if isinstance(n, ast.Attribute)}
                found.setdefault(node.name, set()).update(names)
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_name_what_exists(page: Path) -> None:
    """Every path, option and name that a page has in backticks is still that of something."""
    text = "\n".join(path.read_text() for path in sources())
    told, blocks = spans(page)
    words = set(re.findall(r"\w+", text + blocks))
    files = {path.name for room in FOLDERS for path in (ROOT / room).rglob("*.*")}
    classes = members_of_classes()
    assert told
    for span in told:
        for path in re.findall(rf"(?<![\w/])(?:{'|'.join(FOLDERS)})/[\w./-]*", span):
            assert (ROOT / path).exists(), f"`{span}`: there is no {path}"
        for file in re.findall(r"[\w-]+\.(?:py|md)\b", span):
            assert file in files, f"`{span}`: there is no {file}"
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", span):
            # As a program says it, or a shell script takes it; every command has --help.
            known = re.search(rf'["\s]{option}["\s]', text) or option == "--help"
            assert known, f"`{span}`: there is no {option}"
        for owner, member in re.findall(r"\b([A-Z]+[a-z]\w*)\.(\w+)", span):
            assert member in classes[owner], f"`{span}`: {owner} has no {member}"
        no_name = "/" in span or ": " in span or span.endswith((".py", ".md"))
        if page != OTHER_TOOLS and not no_name:
            for word in re.findall(r"(?<!\\)\b[A-Za-z_]\w{2,}", span):
                assert word in words, f"`{span}`: nothing is called {word}"
