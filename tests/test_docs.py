"""The documents name what exists, their links lead somewhere, and exit codes are the program's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from protocol import errors
from tests.support import ROOT
from tests.support.wait import LIMIT

GUIDES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("operator", "convener", "exchange", "settlement", "researcher", "developer")
    ),
    ROOT / "docs" / "limits.md",
]
"""What people read first."""

PAGES = [
    *GUIDES[:3],
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "scripts" / "examples").glob("*.md")),
    *sorted((ROOT / "scripts" / "results").rglob("*.md")),
]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their text."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", title.lower()) for title in titles)
    return {re.sub(r"[\s-]+", "-", title.strip()) for title in words}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that exists, and a heading in it."""
    text = re.sub(r"`[^`]*`", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{target}: there is no such file"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_pages_name_what_exists(page: Path) -> None:
    """Every path and command of this project that a page names is there."""
    if page.parent == ROOT / "scripts" / "results":
        return  # written by programs
    text = page.read_text()
    paths = r"(?<![\w./-])(?:protocol|party|coordinator|scripts|tests|docs)/[\w./-]*\w"
    for name in sorted(set(re.findall(paths, text))):
        assert (ROOT / name).exists(), f"there is no {name}"
    for name in sorted(set(re.findall(r"(?<![\w./-])scripts/[a-z]+\b(?![./])", text))):
        assert (ROOT / name).is_dir() or os.access(ROOT / name, os.X_OK), f"{name} cannot be run"


def sentences(page: Path) -> list[str]:
    """The sentences of a page, without code, tables and headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not re.match(r" {4}|\||#|!\[", line)]
    prose = re.sub(r"\n\s*(?:[-*]|\d+\.) ", "\n\n", "\n".join(lines))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", prose)]
    return [s for p in paragraphs for s in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`(\[*])", p) if s]


def test_the_glossary_names_what_the_code_has() -> None:
    """Every name in the column "in the code" is a word of the product."""
    files = [p for f in ("protocol", "party", "coordinator") for p in (ROOT / f).rglob("*.py")]
    words = set(re.findall(r"\w+", "\n".join(f"{p.stem}\n{p.read_text()}" for p in files)))
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|", (ROOT / "docs" / "GLOSSARY.md").read_text(), re.M)
    assert len(rows) > 90
    for term, names in rows:
        assert set(re.findall(r"\w+", " ".join(re.findall(r"`(.*?)`", names)))) <= words, term


def test_readme_is_short() -> None:
    """The README fits on one and a half screens."""
    assert len((ROOT / "README.md").read_text().splitlines()) < 170


def test_sentences_are_short() -> None:
    """At most one sentence in twenty of README and guides has more than 30 words."""
    every = [sentence for page in GUIDES for sentence in sentences(page)]
    long = [sentence for sentence in every if len(sentence.split()) > 30]
    assert len(every) > 200
    assert 20 * len(long) <= len(every), long


def test_site_builds(tmp_path: Path) -> None:
    """mkdocs builds the documents strictly: no broken link, no missing page."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_exit_codes_are_those_on_the_page() -> None:
    """The page of exit codes and the errors of the program say the same."""
    kinds = {
        kind.__name__: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SottoError)
    }
    page = {}
    for line in (ROOT / "docs" / "EXIT_CODES.md").read_text().splitlines():
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


def test_readme_installs_before_it_uses_a_command() -> None:
    """The first section names every way to install, and no command is used before it."""
    text = (ROOT / "README.md").read_text()
    first, *later = re.split(r"^## ", text, flags=re.MULTILINE)
    assert not re.search(r"^    (?:party|coordinator|protocol)\b", first, re.MULTILINE)
    title, _, install = later[0].partition("\n")
    assert title == "Install"
    for way in ("pip install -c constraints.txt .", "pip install sottovoce-*.whl",
                "pipx install sottovoce-*.whl", "docker build -t sotto ."):  # fmt: skip
        assert f"    {way}\n" in install
    assert "Sessions run on Linux" in install


def test_the_first_example_is_the_one_that_pays() -> None:
    """The convener's first agreement is exact, with totals, for four members; noise comes later."""
    text = (ROOT / "docs" / "convener.md").read_text()
    example = text.partition("    coordinator new")[2].partition("\n\n")[0]
    assert "--mode exact" in example
    assert "--reveal" not in example  # totals are the default
    assert example.count("--member ") == 4
    assert "--epsilon" not in text.partition("## 2.")[2].partition("\n## Noise\n")[0]
