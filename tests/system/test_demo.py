"""The demonstration as a newcomer sees it: its table, its verdict, its files, and README."""

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
from scripts.lab.demo.__main__ import command_line, runs_scenario
from tests.support import ROOT
from tests.support.wait import LIMIT


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object], Path]:
    """Run `scripts/demo` without options and without a terminal: its output, figures and folder."""
    folder = tmp_path_factory.mktemp("demo")
    figures, folder_kept = folder / "figures.json", folder / "folder_kept"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.lab.demo", "--dir", folder_kept, "--json", figures],
        cwd=ROOT, env={**environment(), "COLUMNS": "80"}, capture_output=True, text=True,
        timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout, json.loads(figures.read_text()), folder_kept


def test_every_company_gains_and_the_plan_is_certified(
    run: tuple[str, dict[str, object], Path],
) -> None:
    """Without noise every company gains, and what is missed of the optimum is below the bound."""
    output, figures, _ = run
    session = figures["sessions"]["totals"]  # type: ignore[index]
    optimum = central(companies.valley()).utility
    assert figures["optimum"] == pytest.approx(optimum)
    assert min(session["gains"]) > 0.0
    assert abs(sum(session["payments"])) <= 1e-3
    missed = optimum - sum(session["earned"])
    assert missed <= session["certificate"]["money"] <= 1e-4 * optimum
    assert len(session["heads"]) == 1
    assert "every company gains" in " ".join(output.split())


def test_noise_has_no_certificate(
    run: tuple[str, dict[str, object], Path],
) -> None:
    """The session with noise has no certificate, and earns no more than the optimum."""
    output, figures, _ = run
    session = figures["sessions"]["noise"]  # type: ignore[index]
    assert session["certificate"] is None
    assert sum(session["earned"]) <= figures["optimum"] * (1.0 + 1e-9)  # type: ignore[operator]
    assert "not proved, because of the noise" in " ".join(output.split())


def test_the_table_shows_every_company(run: tuple[str, dict[str, object], Path]) -> None:
    """In 80 columns every name and its two incomes are printed in full."""
    output, figures, _ = run
    session = figures["sessions"]["totals"]  # type: ignore[index]
    for name, alone, earned in zip(
        companies.NAMES, session["alone"], session["earned"], strict=True
    ):
        (line,) = (line for line in output.splitlines() if re.match(rf"\s*{name}\s", line))
        assert f"{alone:,.0f}" in line
        assert f"{earned:,.0f}" in line


def test_the_report_is_where_the_output_says(run: tuple[str, dict[str, object], Path]) -> None:
    """The named report exists, and only its owner can read it."""
    output, figures, folder_kept = run
    report = Path(figures["sessions"]["totals"]["report"])  # type: ignore[index]
    assert report.is_relative_to(folder_kept)
    assert report.name in output.replace("\n", "")
    assert os.stat(report).st_mode & 0o077 == 0


def test_one_report_is_kept(
    run: tuple[str, dict[str, object], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --dir one report is kept; if it cannot be, the output says why."""
    _, figures, _ = run
    monkeypatch.setattr(demo, "LEFT", tmp_path / "demo")
    for _ in range(2):
        kept = json.loads(json.dumps(figures))
        output = demo.where(kept, keep=True)
        left = tmp_path / "demo" / "report.html"
        assert str(left) in output
        assert json.loads(json.dumps(kept))["sessions"]["totals"]["report"] == str(left)
        assert os.stat(left).st_mode & 0o077 == 0
    monkeypatch.setattr(demo, "LEFT", left / "nowhere")
    assert "--dir NEW" in demo.where(json.loads(json.dumps(figures)), keep=True)


def test_no_report_shows_more_use_than_quota(
    run: tuple[str, dict[str, object], Path],
) -> None:
    """As the reports round numbers, no plan uses more than its quota."""
    _, _, folder_kept = run
    row = r"<th[^>]*>{}</th><td>.*?</td><td><span[^>]*>([^<]*)</span>"
    for name in companies.NAMES:
        page = (folder_kept / "totals" / name / "out" / "report.html").read_text(encoding="utf-8")
        quotas, uses = (
            [float(text.replace(",", "")) for text in re.findall(row.format(words), page)]
            for words in ("Your quota", "You use")
        )
        assert len(quotas) == len(uses) == len(companies.RESOURCES)
        assert all(use <= quota for use, quota in zip(uses, quotas, strict=True)), name


def test_options_about_a_session_replace_the_scenario() -> None:
    """The eight companies run only where no option describes a session."""
    parser = command_line()
    assert "(None)" not in parser.format_help()
    for arguments in ([], ["--topology", "mesh"], ["--limit", "9"], ["--page"]):
        assert runs_scenario(parser, parser.parse_args(arguments))
    for arguments in (["--paper"], ["--mode", "private"], ["--parties", "3"], ["--seed", "1"]):
        assert not runs_scenario(parser, parser.parse_args(arguments))


def test_readme_shows_what_the_command_prints(run: tuple[str, dict[str, object], Path]) -> None:
    """README has the lines that the command prints, and a picture that exists and is small."""
    output, _, _ = run
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (*companies.NAMES, "together"):
        printed, shown = (
            next(line for line in text.splitlines() if re.match(rf"\s+{name}\s", line)).split()
            for text in (output, readme)
        )
        assert printed[:5] == shown[:5]  # the noise differs in every run
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme)
    assert 10_000 < len((ROOT / picture).read_bytes()) < 150_000


def test_quotas_fit_the_capacities(run: tuple[str, dict[str, object], Path]) -> None:
    """Private quotas together never exceed a capacity in the exact session."""
    _, _, folder_kept = run
    for setup in scenario.SETUPS:
        files = [folder_kept / setup.name / n / "out" / "result.json" for n in companies.NAMES]
        results = [json.loads(file.read_text()) for file in files]
        sums = [
            sum(column)
            for column in zip(*(r["private"]["quota_ticks"] for r in results), strict=True)
        ]
        if setup.mode == "exact":
            assert max(sums) <= results[0]["ticks"]
        assert all("quota" not in {k for k in r if k != "private"} for r in results)
