"""The files of a session for machines, and the commands `protocol audit` and `protocol report`."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import tostring

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from party.ledger.session_ledger import Ledger
from party.model.best_response import USUAL
from party.settlement.result_files import Company, plan_csv, result, write_report, write_result
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.agreement.schema import TICKS
from protocol.errors import Incomplete, Unsealed
from protocol.report.certificate import certified
from protocol.report.csv import public_csv
from protocol.report.terminal import audit_figures, audit_text
from protocol.runtime.wait_times import WaitTime
from protocol.wire.codec import pack
from protocol.wire.messages import Release
from tests.support import ROOT
from tests.support.builders import dump, make_agreement, play
from tests.support.report_pages import SPENDING, Page, certain, played, protocol


def test_plan_csv_reads_back_exactly() -> None:
    """`plan.csv` has every variable by name and every bit of its values."""
    it = played()
    rows = list(csv.reader(io.StringIO(plan_csv(it.data, it.settlement))))
    assert rows[0] == ["variable", "within_quota", "at_prices"]
    assert tuple(row[0] for row in rows[1:]) == it.data.names
    for column, plan in ((1, it.settlement.within_quota), (2, it.settlement.at_prices)):
        assert plan is not None
        assert [float(row[column]) for row in rows[1:]] == plan.values.tolist()
    short = list(csv.reader(io.StringIO(plan_csv(it.data, it.short()))))
    assert {row[1] for row in short[1:]} == {""}


def fields(content: dict[str, Any], documented: set[str], path: str = "") -> Iterator[str]:
    """The dotted names of all fields, down to those that the page describes as a whole."""
    for name, inner in content.items():
        here = f"{path}{name}"
        if isinstance(inner, dict) and here not in documented:
            yield from fields(inner, documented, f"{here}.")
        else:
            yield here


def test_result_has_exactly_the_documented_fields() -> None:
    """`RESULT.md` names every field of the result, and no other."""
    it = played()
    page = (ROOT / "docs" / "RESULT.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", page.split("## `result.json`")[1], re.M))
    documented -= {"variable", "within_quota", "at_prices"}
    for secret in (it.settlement, it.short()):
        content = result(it.outcome, it.member, secret, SPENDING)
        assert set(fields(content, documented)) == documented
        assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_ledger_counts_reach_file_and_page(tmp_path: Path) -> None:
    """Unanswered rounds and long waits are in `result.json`, in the report and on the live page."""
    it = played()
    _, other, *_ = (m.name for m in it.agreement.members)
    release = Release(
        sender=it.member,
        agreement=it.agreement.digest,
        round=0,
        chain_hash=bytes(32),
        values=(0,) * it.agreement.width,
    )
    with closing(Ledger(tmp_path / "ledger", it.agreement, it.member)) as ledger:
        signed = pack(release, key=it.agreement.members[0].signing_key, sign=lambda _: bytes(64))
        ledger.record_release(signed, answered=False)
        ledger.record_waits([WaitTime(name=other, seconds=99.0, longest=77.0, last=3)])
        for write in (write_result, write_report):
            company = Company(it.member, it.data, ledger, USUAL)
            parts = write(it.outcome, company, it.settlement, tmp_path)
        shown = [tostring(part, "unicode") for part in parts or []]
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["private"]["rounds_without_answer"] == 1
    assert content["waiting"] == {
        other: {"seconds": 99.0, "longest_seconds": 77.0, "last_in_rounds": 3}
    }
    for page in ((tmp_path / "report.html").read_text(), "".join(shown)):
        assert "In 1 of 40 rounds your solver had no answer" in page
        assert f"waited longest for '{other}': 99 s in all, at most 77 s in one round" in page


COMPUTED = ("=1+1", "+x", "-x", "@sum", "\tx", "\rx", "\nx", "\uff1d1", "'x", '=HYPERLINK("a,b")')


def test_variable_names_are_never_formulas() -> None:
    """Names get an apostrophe that can be removed again; numbers stay numbers."""
    it = played()
    names = (*COMPUTED, *it.data.names[len(COMPUTED) :])
    data = replace(it.data, names=names)
    within = it.settlement.within_quota
    assert within is not None
    negative = replace(it.settlement, within_quota=replace(within, values=-within.values - 1.0))
    _, *rows = csv.reader(io.StringIO(plan_csv(data, negative), newline=""))
    assert [name.removeprefix("'") if name[0] == "'" else name for name, *_ in rows] == list(names)
    assert not [name for name, *_ in rows if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert [float(value) for _, value, _ in rows] == (-within.values - 1.0).tolist()


@pytest.mark.parametrize("mark", [";", "\t", "\r"])
def test_spreadsheets_never_split_a_text(mark: str) -> None:
    """A text with a semicolon, tab or carriage return is quoted."""
    it, text = played(), f"h{mark}=1+1"
    resources = tuple(replace(r, unit=text) for r in it.agreement.resources)
    hostile = replace(it.outcome, agreement=replace(it.agreement, resources=resources))
    data = replace(it.data, names=(text, *it.data.names[1:]))
    for sheet in (public_csv(hostile), plan_csv(data, it.settlement)):
        assert text in sheet
        assert mark not in re.sub('"[^"]*"', "", sheet)


def test_public_part_of_results_is_common() -> None:
    """Public parts of two results differ in the member only, and quotas fit the capacities."""
    it = played()
    first, second = (
        result(it.outcome, name, it.settlement, SPENDING) for name in ("party1", "party2")
    )
    assert {key for key in first if first[key] != second[key]} == {"member"}
    ticks = np.array(list(first["quota_ticks"].values()))
    assert (ticks.sum(axis=0) == TICKS).all()
    for j, capacity in enumerate(quantities(it.agreement).capacity.tolist()):
        parts = [Decimal(amounts[j]) for amounts in first["quota"].values()]
        assert Decimal(capacity) * (1 - Decimal("1e-12")) < sum(parts) <= Decimal(capacity)
    private = first["private"]
    quota = np.array(first["quota"]["party1"])
    assert (np.array(private["uses_within_quota"]) <= quota).all()
    assert private["extra"] is None


def test_shortfall_is_a_fraction_of_the_capacity() -> None:
    """The result gives the shortfall per capacity, and no utility within the quota."""
    it = played()
    private = result(it.outcome, it.member, it.short(), SPENDING)["private"]
    assert private["extra"] == [0.0, 0.125, 0.0, 0.0, 0.25]
    assert private["utility_within_quota"] is None
    assert private["gain"] is None


class Files(Struct, frozen=True):
    """A sealed session on the disk."""

    transcript: Path
    agreement: Path

    def arguments(self) -> list[str]:
        return [str(self.transcript), "--agreement", str(self.agreement)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    agreement = make_agreement(rounds=2)
    (tmp_path / "session.transcript").write_bytes(dump(agreement, play(agreement)[0]))
    (tmp_path / "agreement.toml").write_text(written(agreement))
    return Files(tmp_path / "session.transcript", tmp_path / "agreement.toml")


@pytest.mark.parametrize("command", ["plan", "audit", "report"])
def test_help_teaches_the_command(command: str) -> None:
    """The help of each command has an example and the exit codes."""
    text = protocol(command, "--help").stdout
    assert f"example:\n  protocol {command} " in text
    assert "exit codes:\n  0 " in text


def test_report_writes_the_page_beside_the_transcript(files: Files) -> None:
    """`protocol report` verifies, writes one page, and prints its path."""
    page = files.transcript.with_suffix(".html")
    assert protocol("report", *files.arguments()).stdout == f"{page}\n"
    assert "sealed by all" in Page(page.read_text(encoding="utf-8")).text
    other = files.transcript.with_name("other.html")
    protocol("report", *files.arguments(), "--out", str(other))
    assert other.read_bytes() == page.read_bytes()


def test_report_refuses_a_damaged_transcript(files: Files) -> None:
    """A changed transcript gives no page, and no input file is overwritten."""
    out = ("--out", str(files.agreement))
    assert "would overwrite" in protocol("report", *files.arguments(), *out, code=2).stderr
    data = bytearray(files.transcript.read_bytes())
    data[-1] ^= 1
    files.transcript.write_bytes(data)
    error = protocol("report", *files.arguments(), code=9).stderr
    assert error.startswith(f"error: {files.transcript}: ")
    files.transcript.write_bytes(data[:-9])
    error = protocol("audit", *files.arguments(), code=9).stderr
    assert error.startswith(f"error: {files.transcript}: the transcript is cut off or damaged")
    assert not files.transcript.with_suffix(".html").exists()


@pytest.mark.parametrize(
    ("rounds", "state", "code"),
    [
        (0, "not complete", Incomplete.exit_code),
        (1, "not complete", Incomplete.exit_code),
        (2, "not sealed: all rounds are there", Unsealed.exit_code),
        (None, "sealed by all members", 0),
    ],
)
def test_audit_exit_code_says_what_is_missing(
    files: Files, rounds: int | None, state: str, code: int
) -> None:
    """Only a complete and sealed transcript exits with 0; the text is printed in every case."""
    agreement = make_agreement(rounds=2)
    files.transcript.write_bytes(dump(agreement, play(agreement, rounds=rounds)[0]))
    assert state in protocol("audit", *files.arguments(), code=code).stdout
    figures = json.loads(protocol("audit", *files.arguments(), "--json", code=code).stdout)
    assert (figures["complete"], figures["sealed"]) == (rounds in (2, None), rounds is None)


def test_audit_recomputes_the_quota(files: Files) -> None:
    """`protocol audit` prints the quota: in ticks as JSON, in percent as text."""
    figures = json.loads(protocol("audit", *files.arguments(), "--json").stdout)
    assert list(figures["quota"]) == ["ada", "ben", "cyd"]
    assert [sum(column) for column in zip(*figures["quota"].values(), strict=True)] == [TICKS] * 2
    lines = protocol("audit", *files.arguments()).stdout.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("quota"))
    assert lines[begin + 1].split() == ["r0", "r1"]
    rows = [line.split() for line in lines[begin + 2 :]]
    assert [row[0] for row in rows] == ["ada", "ben", "cyd"]
    for name, *cells in rows:
        for cell, ticks in zip(cells, figures["quota"][name], strict=True):
            assert float(cell.rstrip("%")) == pytest.approx(100.0 * ticks / TICKS, abs=5e-4)


def test_results_have_certificate_payments_and_endowments() -> None:
    """The public part of the result has what anyone can compute, in units and in money."""
    it = certain()
    content = result(it.outcome, it.member, it.settlement, SPENDING)
    certificate = it.outcome.certificate
    assert certificate is not None
    assert content["certificate"]["money"] == certificate.bound
    assert content["certificate"]["fits"]
    assert 0.0 < content["certificate"]["part"] < 2e-4
    assert (content["currency"], content["ended_by_itself"]) == ("EUR", True)
    assert content["ticks"] == it.agreement.ticks
    assert math.fsum(content["payments"].values()) == 0.0
    assert content["private"]["payment"] == content["payments"]["party1"]
    halves = (0.5 * quantities(it.agreement).capacity).tolist()
    assert content["endowment"]["party1"] == pytest.approx(halves, rel=1e-9)
    noisy = result(played().outcome, "party1", played().settlement, SPENDING)
    assert noisy["certificate"] is None
    assert not noisy["ended_by_itself"]


def test_audit_shows_certificate_and_payments() -> None:
    """Text and figures of an audit have certificate, payments, and the early end."""
    it = certain()
    text, figures = audit_text(it.outcome), audit_figures(it.outcome)
    assert "the session ended by itself" in text
    assert f"certified  {certified(it.agreement, figures['certificate'])}" in text
    assert " EUR per h" in text
    for name, payment in figures["payments"].items():
        assert f"{name}  {payment!r}" in text
    assert sum(map(Fraction, figures["payments"].values())) == 0
    assert figures["endowment"]["party1"] == [it.agreement.ticks // 2] * 5
    noisy = audit_text(played().outcome)
    assert "Nothing is certified: with noise" in noisy
    assert "ended by itself" not in noisy


def test_public_csv_is_exact() -> None:
    """Quotas and payments read back to the last bit, and no text is a formula."""
    it = certain()
    content = result(it.outcome, it.member, it.settlement, SPENDING)
    rows = list(csv.DictReader(io.StringIO(public_csv(it.outcome))))
    assert len(rows) == 3 * (5 + 1)
    for name, quota in content["quota"].items():
        own = [row for row in rows if row["company"] == name]
        assert [float(row["quota"]) for row in own[:-1]] == quota
        assert [float(row["brings"]) for row in own[:-1]] == content["endowment"][name]
        assert [float(row["price"]) for row in own[:-1]] == content["prices"]
        assert float(own[-1]["payment"]) == content["payments"][name]
        assert own[-1]["resource"] == ""
    assert {row["currency"] for row in rows} == {"EUR"}
    resources = tuple(replace(r, unit="=1+1") for r in it.agreement.resources)
    hostile = replace(it.outcome, agreement=replace(it.agreement, resources=resources))
    assert {row["unit"] for row in csv.DictReader(io.StringIO(public_csv(hostile)))} == {
        "'=1+1",
        "",
    }


def test_masked_csv_has_no_quotas() -> None:
    """If only totals can be read, the CSV has prices and endowments, but no quotas or payments."""
    known = replace(certain().outcome, agreement=replace(certain().agreement, reveal="totals"))
    rows = list(csv.DictReader(io.StringIO(public_csv(known))))
    assert len(rows) == 3 * 5
    assert {(row["quota"], row["payment"]) for row in rows} == {("", "")}
    assert all(row["brings"] and row["price"] for row in rows)


def test_report_writes_the_csv(files: Files) -> None:
    """`protocol report --csv` writes the table that a party gets."""
    sheet = files.transcript.with_suffix(".csv")
    done = protocol("report", *files.arguments(), "--csv", str(sheet))
    assert done.stdout.splitlines()[1] == str(sheet)
    with sheet.open(encoding="utf-8") as text:
        assert [row["company"] for row in csv.DictReader(text)][::3] == ["ada", "ben", "cyd"]
