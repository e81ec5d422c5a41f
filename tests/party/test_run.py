"""The one place that concludes a session, for the command, the API and `party result`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, tostring

import numpy as np
import pytest
from msgspec.structs import replace

from party.model.best_response import USUAL, MipLimits
from party.model.company_model import CompanyModel
from party.rehearsal.in_process import players, run
from party.run import _note_model, conclude
from party.settlement import private_report, settle
from party.settlement.result_files import Company
from party.ui.console import TextView, View
from protocol.agreement.parse import from_table
from protocol.errors import BadData, QuotaTooSmall
from protocol.outcome.outcome import Outcome, outcome
from scripts.lab.common.agreements import agreement_table, drawn, session_options
from tests.support.ledgers import in_memory
from tests.support.report_pages import certain_session

FILES = ["plan.csv", "public.csv", "report.html", "result.json", "session.transcript"]


class RecordingView(View):
    """Remembers what it was asked to show."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.contents: list[Element] = []

    def outcome(self, outcome: Outcome) -> None:  # noqa: ARG002
        self.shown.append("outcome")

    def report(self, contents: list[Element]) -> None:
        self.shown.append("report")
        self.contents = contents

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        assert "private" not in public
        self.shown.append(f"finished, files in {folder and folder.name}")


@pytest.fixture
def ended() -> Iterator[tuple[Outcome, Company]]:
    """The outcome of a short session in which only totals are public, and one of its companies."""
    parser = argparse.ArgumentParser()
    session_options(parser)
    options = parser.parse_args(["--parties=3", "--mode=exact", "--reveal=totals"])
    options.rehearsal, options.seed = True, 1
    instance = drawn(options)
    agreement = from_table(agreement_table(instance, options))
    with players(agreement, instance.subproblems(), 1) as members:
        run(members)
        ledger, name = members[0].ledger, agreement.members[0].name
        yield (
            outcome(agreement, ledger.transcript()),
            Company(name, instance.data[0], ledger, USUAL),
        )


def test_without_files_the_quota_is_recorded(ended: tuple[Outcome, Company]) -> None:
    """The outcome is shown, and the demands are destroyed."""
    view, (known, company) = RecordingView(), ended
    conclude(known, company, None, view)
    assert view.shown == ["outcome", "finished, files in None"]
    assert company.ledger.allocation() is not None
    assert not company.ledger.demands()[0].size


def test_without_files_a_plan_is_computed_only_on_demand(
    ended: tuple[Outcome, Company], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without --out solves nothing; a program reads the settlement."""
    solved: list[object] = []
    solve = settle.settle

    def counted(*arguments: Any, **options: Any) -> settle.Settlement:
        solved.append(arguments)
        return solve(*arguments, **options)

    monkeypatch.setattr("party.settlement.settle.settle", counted)
    known, company = ended
    conclusion = conclude(known, company, None, View())
    assert not solved
    assert conclusion.settlement is conclusion.settlement
    assert len(solved) == 1


def test_the_report_is_built_once_for_file_and_page(
    ended: tuple[Outcome, Company], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are written, and the page shows the contents of report.html."""
    built: list[list[Element]] = []
    build = private_report.private_parts

    def counted(*arguments: Any, **options: Any) -> list[Element]:
        built.append(build(*arguments, **options))
        return built[-1]

    monkeypatch.setattr(private_report, "private_parts", counted)
    view, (known, company) = RecordingView(), ended
    conclude(known, company, tmp_path, view)
    assert view.shown == ["outcome", "report", f"finished, files in {tmp_path.name}"]
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert len(built) == 1
    assert view.contents is built[0]
    assert tostring(view.contents[0], "unicode", method="html") in (
        tmp_path / "report.html"
    ).read_text().replace("\n", "")


def test_a_conclusion_without_a_plan_is_an_error_of_its_own(
    ended: tuple[Outcome, Company], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`party join` and `party result` end with exit code 30 then."""
    conclusion = conclude(*ended, None, View())
    conclusion.require_plan()
    short = replace(conclusion.settlement, within_quota=None)
    monkeypatch.setitem(vars(conclusion), "settlement", short)
    with pytest.raises(QuotaTooSmall, match=r"report\.html says what is missing"):
        conclusion.require_plan()


def test_all_files_are_written_if_the_solver_finds_no_plan_at_the_prices(
    ended: tuple[Outcome, Company], tmp_path: Path
) -> None:
    """Such as where a search in whole numbers has too little time."""
    known, company = ended
    whole = replace(company.data, integer=np.ones(company.data.columns, dtype=np.bool_))
    hurried = replace(company, data=whole, mip_limits=MipLimits(seconds=1e-9))
    conclusion = conclude(known, hurried, tmp_path, View())
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert conclusion.settlement.at_prices is None


def test_another_model_is_noticed_before_the_end_and_refused_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before the first release a model may change; after the seals its plan would be wrong."""
    agreement, instance, transcript = certain_session()
    first, second = instance.data[0], instance.data[1]
    ledger = in_memory(agreement, "party1")

    def noted(data: CompanyModel) -> str:
        _note_model(data, agreement, ledger, TextView(agreement))
        return capsys.readouterr().err

    assert noted(first) == ""
    assert noted(second) == ""
    ledger.record_release(transcript.rounds[0][0])
    assert noted(second) == ""
    assert "you joined this session before with another model" in noted(first)
    ledger.record_seals(transcript.seals)
    with pytest.raises(BadData, match="with another model"):
        noted(second)
    ledger.forget()
    assert noted(second) == ""
    assert ledger.model() is None
