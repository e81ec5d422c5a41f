"""The demonstration as a newcomer sees it: companies that share, and what each has of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lab.common.instances import central
from scripts.lab.common.local_session import environment
from scripts.lab.demo import __main__ as demo
from scripts.lab.demo import companies, scenario
from scripts.lab.demo.__main__ import command_line, tells_story
from tests.support import ROOT
from tests.support.wait import LIMIT


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object], Path]:
    """What `scripts/demo` prints, writes and leaves, alone and with no terminal."""
    folder = tmp_path_factory.mktemp("story")
    figures, stay = folder / "figures.json", folder / "stay"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.lab.demo", "--dir", stay, "--json", figures],
        cwd=ROOT, env={**environment(), "COLUMNS": "80"}, capture_output=True, text=True,
        timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout, json.loads(figures.read_text()), stay


def test_nobody_loses_and_it_is_proved(told: tuple[str, dict[str, object], Path]) -> None:
    """Without noise all are better off than alone, at the optimum to a certified hair."""
    said, figures, _ = told
    session = figures["sessions"]["totals"]  # type: ignore[index]
    optimum = central(companies.valley()).utility
    assert figures["optimum"] == pytest.approx(optimum)
    assert min(session["gains"]) > 0.0
    assert abs(sum(session["payments"])) <= 1e-3
    missed = optimum - sum(session["earned"])
    assert missed <= session["certificate"]["money"] <= 1e-4 * optimum
    assert len(session["heads"]) == 1
    assert "every company is better off than alone" in " ".join(said.split())


def test_with_noise_nothing_is_promised_but_feasible(
    told: tuple[str, dict[str, object], Path],
) -> None:
    """The noisy session has no certificate, and earns no more than there is to earn."""
    said, figures, _ = told
    session = figures["sessions"]["noise"]  # type: ignore[index]
    assert session["certificate"] is None
    assert sum(session["earned"]) <= figures["optimum"] * (1.0 + 1e-9)  # type: ignore[operator]
    assert "nothing is proved" in " ".join(said.split())


def test_every_company_stands_in_the_table(told: tuple[str, dict[str, object], Path]) -> None:
    """Eighty columns show every name, and what it earns alone and together, whole."""
    said, figures, _ = told
    session = figures["sessions"]["totals"]  # type: ignore[index]
    for name, alone, earned in zip(
        companies.NAMES, session["alone"], session["earned"], strict=True
    ):
        (line,) = (line for line in said.splitlines() if re.match(rf"\s*{name}\s", line))
        assert f"{alone:,.0f}" in line
        assert f"{earned:,.0f}" in line


def test_the_report_is_where_it_is_said_to_be(told: tuple[str, dict[str, object], Path]) -> None:
    """The page of the first company is there, for its owner alone, and what was agreed too."""
    said, figures, stay = told
    report = Path(figures["sessions"]["totals"]["report"])  # type: ignore[index]
    assert report.is_relative_to(stay)
    assert report.name in said.replace("\n", "")
    assert os.stat(report).st_mode & 0o077 == 0


def test_a_report_stays_where_nothing_else_does(
    told: tuple[str, dict[str, object], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder to keep, one report is left, in place of the last; or it is said why not."""
    _, figures, _ = told
    monkeypatch.setattr(demo, "LEFT", tmp_path / "demo")
    for _ in range(2):
        kept = json.loads(json.dumps(figures))
        said = demo.where(kept, keep=True)
        left = tmp_path / "demo" / "report.html"
        assert str(left) in said
        assert json.loads(json.dumps(kept))["sessions"]["totals"]["report"] == str(left)
        assert os.stat(left).st_mode & 0o077 == 0
    monkeypatch.setattr(demo, "LEFT", left / "nowhere")
    assert "--dir NEW" in demo.where(json.loads(json.dumps(figures)), keep=True)


def test_no_plan_seems_to_use_more_than_its_quota(
    told: tuple[str, dict[str, object], Path],
) -> None:
    """As the reports round them, a plan that uses all of its quota uses that much and no more."""
    _, _, stay = told
    row = r"<th[^>]*>{}</th><td>.*?</td><td><span[^>]*>([^<]*)</span>"
    for name in companies.NAMES:
        page = (stay / "totals" / name / "out" / "report.html").read_text(encoding="utf-8")
        quotas, uses = (
            [float(text.replace("\u202f", "")) for text in re.findall(row.format(words), page)]
            for words in ("Your quota", "You use")
        )
        assert len(quotas) == len(uses) == len(companies.RESOURCES)
        assert all(use <= quota for use, quota in zip(uses, quotas, strict=True)), name


def test_any_word_about_a_session_plays_that_one() -> None:
    """Only where nothing is said about the session there is a story; the help says what is not."""
    parser = command_line()
    assert "None" not in parser.format_help()
    for arguments in ([], ["--topology", "mesh"], ["--limit", "9"], ["--page"]):
        assert tells_story(parser, parser.parse_args(arguments))
    for arguments in (["--paper"], ["--mode", "private"], ["--parties", "3"], ["--seed", "1"]):
        assert not tells_story(parser, parser.parse_args(arguments))


def test_readme_shows_what_the_command_prints(told: tuple[str, dict[str, object], Path]) -> None:
    """Every company's line of the session without noise, and a picture that is there and small."""
    said, _, _ = told
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (*companies.NAMES, "all together"):
        printed, shown = (
            next(line for line in text.splitlines() if re.match(rf"\s+{name}\s", line)).split()
            for text in (said, readme)
        )
        assert printed[:6] == shown[:6]
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert 10_000 < len((ROOT / picture).read_bytes()) < 150_000


def test_quotas_of_the_valley_fit(told: tuple[str, dict[str, object], Path]) -> None:
    """What all companies may use, each known to itself alone, is no more than there is."""
    _, _, stay = told
    for meeting in scenario.MEETINGS:
        files = [stay / meeting.name / n / "out" / "result.json" for n in companies.NAMES]
        results = [json.loads(file.read_text()) for file in files]
        sums = [
            sum(column)
            for column in zip(*(r["private"]["quota_ticks"] for r in results), strict=True)
        ]
        if meeting.mode == "exact":
            assert max(sums) <= results[0]["ticks"]
        assert all("quota" not in {k for k in r if k != "private"} for r in results)
