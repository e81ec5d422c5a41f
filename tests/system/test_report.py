"""The pages, the plan and the result file: what they say, to whom, and how they look."""

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from typing import Any
from xml.etree.ElementTree import tostring

import numpy as np
import pytest

from party.ledger.session_ledger import Ledger
from party.model.company_model import CompanyModel, dense
from party.rehearsal.in_process import players, run
from party.settlement.private_report import Spending, private_page
from party.settlement.result_files import plan_csv, public_result, result, write_result
from party.settlement.settle import Plan, Settlement, settle
from protocol.agreement.model import Agreement, Resource
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.agreement.schema import TICKS
from protocol.errors import BadTranscript, Incomplete, Unsealed
from protocol.outcome.outcome import Outcome, outcome
from protocol.privacy.accountant import PrivacyCost
from protocol.report.certificate import certified
from protocol.report.charts import CHARTS, trailing_mean
from protocol.report.csv_sheet import public_csv
from protocol.report.format import ROWS, capacity_text, per
from protocol.report.html import Line, aligned, chart, figure, fixed, round_numbers
from protocol.report.public import public_page
from protocol.report.terminal import audit_figures, audit_text
from protocol.rounds import RoundEngine
from protocol.runtime.wait_times import WaitTime
from protocol.wire.codec import pack
from protocol.wire.messages import Release
from scripts.lab.common.agreements import agreement_table, drawn
from scripts.lab.common.instances import Instance
from tests.support import ROOT
from tests.support.browser import Browser
from tests.support.builders import dump, make_agreement, play, public_key
from tests.support.local_sessions import options
from tests.support.wait import LIMIT

SCRIPT = "<script>alert(1)</script>"
HOSTILE = "a\"b'</td></table><img src=x onerror=alert(1)>&amp;,"
PLANTED = 7919.2671
SPENDING = Spending(
    data_set="main", delta=1e-3, session=PrivacyCost(0.0625), lifetime=PrivacyCost(math.inf)
)
EPSILON = SPENDING.session.epsilon(1e-3)


@dataclass(frozen=True)
class Played:
    """A session that was played to its end, and what its first member has."""

    known: Outcome
    data: CompanyModel
    settlement: Settlement

    @property
    def agreement(self) -> Agreement:
        return self.known.agreement

    @property
    def member(self) -> str:
        return self.agreement.members[0].name

    def private(self, settlement: Settlement | None = None) -> str:
        secret = settlement or self.settlement
        return private_page(self.known, self.member, self.data, secret, SPENDING)

    def public(self) -> str:
        return public_page(self.known)

    def short(self) -> Settlement:
        """The settlement if the quota were too small."""
        extra = np.array([0, TICKS // 8, 0, 0, TICKS // 4], dtype=np.int64)
        return replace(self.settlement, within_quota=None, extra_ticks=extra)


@cache
def played() -> Played:
    """A session with noise over the longest and the most hostile names that there can be."""
    chosen = options("--epsilon", "64", "--share-total", "2", "--no-demands", parties=4, rounds=40)
    instance = drawn(chosen)
    terms = agreement_table(instance, chosen)
    for member in terms["member"]:
        share = member["share"]
        share["W" * 64] = share.pop("resource3")
    for resource, unit in zip(terms["resource"], ("h", SCRIPT, "m" * 80, "", "°C"), strict=True):
        resource["unit"] = unit
    terms["resource"][2]["name"] = "W" * 64
    agreement = from_table(terms)
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        transcript = members[0].ledger.transcript()
    names = (HOSTILE, "V" * 255, *instance.data[0].names[2:])
    data = replace(instance.data[0], names=names)
    known = outcome(agreement, transcript)
    return Played(known, data, settle(data, known, "party1"))


class Page(HTMLParser):
    """What a page is made of, read as a browser would."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"a stray end of {tag}"

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.tags}

    def quotas(self) -> Iterator[list[list[str]]]:
        """The rows of every table of quotas."""
        for rows in self.tables:
            if rows and rows[-1][0] == "all together = capacity":
                yield rows


def value(text: str) -> Decimal:
    return Decimal(re.sub(r"[\u202f %]", "", text).replace("\u2212", "-"))


both_pages = pytest.mark.parametrize("kind", ["public", "private"])


def page_of(kind: str) -> str:
    return played().public() if kind == "public" else played().private()


@both_pages
def test_page_loads_and_runs_nothing(kind: str) -> None:
    """A page has no script, no link and nothing that would be fetched, and forbids both."""
    page = page_of(kind)
    read = Page(page)
    active = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "use"}
    assert not read.names & active
    attributes = {name for _, found in read.tags for name in found}
    assert not attributes & {"src", "srcset", "href", "action", "style", "background"}
    assert not {name for name in attributes if name.startswith("on")}
    assert not re.search(r"https?:|url\(|@import", page)
    policy = [a["content"] for _, a in read.tags if a.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


@both_pages
def test_names_stay_text(kind: str) -> None:
    """Names with markup in them are shown as they are, and add no element."""
    read = Page(page_of(kind))
    assert f"in {SCRIPT}" in read.text
    assert (HOSTILE in read.text) == (kind == "private")


@pytest.mark.parametrize("capacity", [1e-9, 0.3, 7.0, 120.0, 13.5591345, 98765.4321, 1e12])
def test_quotas_add_up_as_they_are_shown(capacity: float) -> None:
    """The rows of every quota table add up to the capacity, in units and in percent."""
    agreement = make_agreement(resource=[{"name": "hours", "capacity": capacity}])
    rows = next(Page(public_page(outcome(agreement, play(agreement)[0]))).quotas())
    assert [row[0] for row in rows] == ["ada", "ben", "cyd", "all together = capacity"]
    *members, total = rows
    assert sum(value(row[2]) for row in members) == value(total[1])
    assert sum(value(row[3]) for row in members) == value(total[2]) == 100
    assert float(value(total[1])) == pytest.approx(capacity, rel=1e-4)


@pytest.mark.parametrize(
    ("unit", "one"),
    [
        ("", "unit"), ("h", "h"), ("hours", "hour"), ("pallets", "pallet"), ("tonnes", "tonne"),
        ("boxes", "box"), ("batches", "batch"), ("truck hours", "truck hour"),
        ("ms", "ms"), ("gas", "gas"), ("class", "class"), ("m³", "m³"),
    ],
)  # fmt: skip
def test_a_price_is_for_one_of_what_is_counted(unit: str, one: str) -> None:
    """Units that are said as many are one in a price; anything else is left as it is."""
    assert per(Resource(name="r", capacity=1.0, unit=unit)) == f"per {one}"


@pytest.mark.parametrize(
    ("capacity", "text"), [(1800.0, "1\u202f800 units"), (2.5, "2.5000 units"), (1e15, None)]
)
def test_whole_capacities_have_no_decimals(capacity: float, text: str | None) -> None:
    """A capacity is written as short as it is."""
    written = capacity_text(Resource(name="r", capacity=capacity))
    assert written == text if text else "." not in written


def test_quotas_on_the_page_are_those_of_the_result() -> None:
    """What the page shows of a quota is what the result file has, to the last digit shown."""
    it = played()
    content = result(it.known, it.member, it.settlement, SPENDING)
    for j, rows in enumerate(Page(it.public()).quotas()):
        for row, member in zip(rows[:-1], it.agreement.members, strict=True):
            exact = content["quota"][member.name][j]
            digits = -int(value(row[2]).as_tuple().exponent)
            assert float(value(row[2])) == pytest.approx(exact, abs=1.01 * 10.0**-digits)


def test_many_members_and_resources_are_summed_up() -> None:
    """Where there are too many to show, the page says so and its totals still add up."""
    count = ROWS + 5
    members = [{"name": f"m{k}", "signing_key": public_key(f"m{k}").hex()} for k in range(count)]
    agreement = make_agreement(member=members, resources=CHARTS + 2, rounds=1)
    read = Page(public_page(outcome(agreement, play(agreement)[0])))
    assert f"The first {CHARTS} of {CHARTS + 2} resources are shown" in read.text
    tables = list(read.quotas())
    assert len(tables) == CHARTS + 2
    for rows in tables:
        *shown, more, total = rows
        assert (len(shown), more[0]) == (ROWS, "and 5 more")
        assert sum(value(row[2]) for row in (*shown, more)) == value(total[1])
    assert len([name for name, _ in read.tags if name == "figure"]) == 2 * CHARTS


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_unfinished_session_is_said_plainly(rounds: int) -> None:
    """A transcript without seals gives a page that says how far it went and binds nobody."""
    agreement = make_agreement(rounds=3)
    read = Page(public_page(outcome(agreement, play(agreement, rounds=rounds)[0])))
    assert f"not finished: {rounds} of 3 rounds are closed" in read.text
    assert "not sealed" in read.text


def test_an_outcome_without_all_seals_says_whose_are_missing() -> None:
    """All rounds are there: it is not called unfinished, and not sealed either."""
    agreement = make_agreement(rounds=3)
    known = outcome(agreement, play(agreement, rounds=3)[0], unsealed=("ben", "cyd"))
    read = Page(public_page(known))
    assert "not finished" not in read.text
    assert "This outcome is not sealed" in read.text
    assert "seals of members are missing here: those of ben, cyd" in read.text


def test_finished_session_is_not_called_unfinished() -> None:
    """A sealed transcript gives a page that says so, with digest, head and how to check."""
    agreement = make_agreement()
    transcript, positions = play(agreement)
    read = Page(public_page(outcome(agreement, transcript)))
    assert "not finished" not in read.text
    assert "sealed by all" in read.text
    assert positions[-1].chain_hash.hex() in read.text
    assert agreement.digest.hex() in read.text
    assert "protocol audit session.transcript --agreement agreement.toml" in read.text


def test_page_states_the_guarantee() -> None:
    """The privacy statement of the agreement is on the page, and so is that there is none."""
    private = make_agreement(mode="private", privacy={"epsilon": 3.0, "delta": 1e-5})
    text = Page(public_page(outcome(private, play(private)[0]))).text
    assert "(ε=3, δ=1e-05)-locally differentially private" in text
    assert "With it they guess right in at most 65 of 100." in text
    assert "Verdict:" in text
    assert "next to nothing" not in text
    weak = make_agreement(mode="private", privacy={"epsilon": 64.0, "delta": 1e-5})
    assert "next to nothing" in Page(public_page(outcome(weak, play(weak)[0]))).text
    hidden = make_agreement()
    assert "none: mode 'exact'" in Page(public_page(outcome(hidden, play(hidden)[0]))).text
    assert "This is a rehearsal" in Page(played().public()).text


def test_page_of_a_transcript_that_does_not_verify_is_refused() -> None:
    """No page is made of rounds that do not stand on each other."""
    agreement = make_agreement()
    transcript, _ = play(agreement)
    with pytest.raises(BadTranscript, match="round 0"):
        outcome(agreement, replace(transcript, rounds=transcript.rounds[::-1]))


def test_private_page_says_so_and_the_public_one_does_not() -> None:
    """The banner names the member on the private page, and is first on it."""
    it = played()
    assert (
        Page(it.private()).text.split("PRIVATE — ")[1].startswith("for party1 only, do not forward")
    )
    public = Page(it.public())
    assert "PRIVATE" not in public.text
    assert "do not forward" not in public.text
    assert ("body", {"class": "public"}) in public.tags


def test_private_page_has_all_of_the_public_one() -> None:
    """Everything that everybody sees is on the private page too."""
    it = played()
    private = Page(it.private()).text
    public = Page(it.public()).text
    assert public[public.index("The capacities and their prices") :] in private


def planted(it: Played) -> Settlement:
    """A settlement of recognisable numbers."""
    count, m = it.data.columns, it.data.resources
    plans = [Plan(np.full(count, n), np.full(m, n / 1e4), n) for n in PLANTED * np.arange(1, 4)]
    return replace(it.settlement, within_quota=plans[0], alone=plans[1], at_prices=plans[2])


def test_no_private_number_is_on_the_public_side() -> None:
    """Planted numbers are on the private page and under "private", and nowhere else."""
    it = played()
    secret = planted(it)
    marks = ("7919", "7\u202f919", "0.7919", "15\u202f838", "23\u202f757", "1.5838", "2.3757")
    page = it.private(secret)
    assert any(mark in page for mark in marks)
    assert not any(mark in it.public() for mark in marks)
    content = result(it.known, it.member, secret, SPENDING)
    private = content.pop("private")
    assert "7919" in json.dumps(private)
    assert not any(mark in json.dumps(content) for mark in marks)


def test_private_page_says_what_the_quota_is_worth() -> None:
    """Utilities, gain, payment and uses are there, and what is not guaranteed is called so."""
    it = played()
    secret = planted(it)
    text = Page(it.private(secret)).text
    for number in (PLANTED, 2 * PLANTED, 3 * PLANTED, secret.paid or 0.0):
        assert figure(number, digits=6) in text
    assert "You are worse off than alone by" in text
    assert "Your price plan (not guaranteed)" in text
    assert f"In this session your data spent epsilon {EPSILON:.4g} at delta 0.001." in text
    assert "together the data set 'main' has spent everything" in text


def test_quota_that_is_too_small_is_said_first() -> None:
    """Without a plan in the quota the page says what is missing, in units and percent."""
    it = played()
    read = Page(it.private(it.short()))
    assert "Your quota is too small" in read.text
    missing = next(rows for rows in read.tables if "Addition" in rows[0])
    assert [row[2] for row in missing[1:]] == ["+12.5000 %", "+25.0000 %"]
    assert float(value(missing[1][1])) == pytest.approx(
        quantities(it.agreement).capacity[1] / 8, rel=1e-3
    )
    unknown = Page(it.private(replace(it.short(), extra_ticks=None))).text
    assert "could not be computed" in unknown


def test_plan_shows_the_largest_variables() -> None:
    """The page has the fifty largest variables by size and says where the others are."""
    it = played()
    count = 60
    sizes = np.linspace(-40.0, 19.0, count)
    data = replace(it.data, names=tuple(f"make{i}" for i in range(count)), utility=sizes)
    plan = Plan(sizes, np.zeros(5), 1.0)
    whole = replace(it.settlement, within_quota=plan, at_prices=None)
    read = Page(replace(it, data=data).private(whole))
    rows = next(rows for rows in read.tables if rows[0][0] == "Variable")
    assert rows[1] == ["make0", "\u221240.0000", "–"]
    assert len(rows) == 51
    assert "The 50 largest of 60 variables" in read.text


def test_plan_table_reads_back_exactly() -> None:
    """`plan.csv` has every variable by its own name and every bit of its values."""
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


def test_result_has_the_fields_of_its_page() -> None:
    """`RESULT.md` names every field of the result, and no other."""
    it = played()
    page = (ROOT / "docs" / "RESULT.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", page.split("## `result.json`")[1], re.M))
    documented -= {"variable", "within_quota", "at_prices"}
    for secret in (it.settlement, it.short()):
        content = result(it.known, it.member, secret, SPENDING)
        assert set(fields(content, documented)) == documented
        assert json.loads(json.dumps(content, allow_nan=False)) == content


def test_rounds_without_an_answer_are_told_in_private_alone() -> None:
    """The company's page and result count them, and nothing that others see does."""
    it = played()
    secret = it.settlement
    page = private_page(it.known, it.member, it.data, secret, SPENDING, unanswered=7)
    assert f"In 7 of {it.known.rounds} rounds your solver had no answer" in page
    assert "had no answer" not in private_page(it.known, it.member, it.data, secret, SPENDING)
    content = result(it.known, it.member, secret, SPENDING, unanswered=7)
    assert content["private"]["rounds_without_answer"] == 7
    assert "answer" not in json.dumps(public_result(it.known, it.member))


def test_what_the_ledger_counts_is_in_file_and_page(tmp_path: Path) -> None:
    """Rounds without an answer and long waits: in `result.json`, in the report and on the page."""
    it, shown = played(), list[str]()
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
        write_result(
            *(it.known, it.member, it.data),
            ledger=ledger,
            folder=tmp_path,
            settlement=it.settlement,
            on_report=lambda parts: shown.extend(tostring(part, "unicode") for part in parts),
        )
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["private"]["rounds_without_answer"] == 1
    assert content["waiting"] == {
        other: {"seconds": 99.0, "longest_seconds": 77.0, "last_in_rounds": 3}
    }
    for page in ((tmp_path / "report.html").read_text(), "".join(shown)):
        assert "In 1 of 40 rounds your solver had no answer" in page
        assert f"waited longest for '{other}': 99 s in all, at most 77 s in one round" in page


COMPUTED = ("=1+1", "+x", "-x", "@sum", "\tx", "\rx", "\nx", "\uff1d1", "'x", '=HYPERLINK("a,b")')


def test_no_name_of_a_variable_is_computed_by_a_spreadsheet() -> None:
    """Names get an apostrophe that can be taken away again; numbers stay what they are."""
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
def test_no_text_is_split_into_cells_by_a_spreadsheet(mark: str) -> None:
    """Many split lines at semicolons and tabs too: where a text has some, it is in quotes."""
    it, text = played(), f"h{mark}=1+1"
    resources = tuple(replace(r, unit=text) for r in it.agreement.resources)
    hostile = replace(it.known, agreement=replace(it.agreement, resources=resources))
    data = replace(it.data, names=(text, *it.data.names[1:]))
    for sheet in (public_csv(hostile), plan_csv(data, it.settlement)):
        assert text in sheet
        assert mark not in re.sub('"[^"]*"', "", sheet)


def test_public_part_of_results_is_common() -> None:
    """Two members' results differ in their name and in what is private, and quotas fit."""
    it = played()
    first, second = (
        result(it.known, name, it.settlement, SPENDING) for name in ("party1", "party2")
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


def test_shortfall_in_the_result_is_a_part_of_the_capacity() -> None:
    """What is missing is a part of each capacity, and there is no utility within the quota."""
    it = played()
    private = result(it.known, it.member, it.short(), SPENDING)["private"]
    assert private["extra"] == [0.0, 0.125, 0.0, 0.0, 0.25]
    assert private["utility_within_quota"] is None
    assert private["gain"] is None


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.0, 4, "0"),
        (1234567.0, 4, "1\u202f234\u202f567"),
        (-12345.678, 6, "\u221212\u202f345.7"),
        (0.00123456, 4, "0.001235"),
        (1e-9, 3, "1.00e\u221209"),
        (1e15, 2, "1.0e+15"),
        (9.99999, 3, "10.00"),
    ],
)
def test_figures_are_written_for_people(number: float, digits: int, text: str) -> None:
    """So many digits, thousands apart, a true minus, and powers where nothing else fits."""
    assert figure(number, digits=digits) == text


def test_counts_are_written_with_their_decimals() -> None:
    """A count of hundredths reads as a number with two decimals."""
    assert fixed(1234567, 2) == "12\u202f345.67"
    assert fixed(-5, 3) == "\u22120.005"
    assert fixed(100, 0) == "100"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 9.0, [0, 2, 4, 6, 8]),
        (-260.0, 480.0, [-200, 0, 200, 400]),
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-1e15, 0.0, [-1e15, -8e14, -6e14, -4e14, -2e14, 0]),
        (0.0, 3e-9, [0, 1e-9, 2e-9, 3e-9]),
    ],
)
def test_axes_have_round_numbers(low: float, high: float, expected: list[float]) -> None:
    """An axis is marked at a few round numbers, and at zero."""
    assert round_numbers(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 10_000])
def test_chart_of_any_length_stays_small(count: int) -> None:
    """A line runs from the first round to the last, in few corners, within its frame."""
    drawn = chart("r", "note", [Line([float(i % 7) - 3.0 for i in range(count)])], first=1)
    points = drawn.findall(".//polyline")[0].attrib["points"].split()
    places = [tuple(map(float, point.split(","))) for point in points]
    assert len(points) <= 402
    assert places[0][0] == 54.0
    assert places[-1][0] == 314.0
    assert all(10.0 <= y <= 128.0 for _, y in places)


def test_trailing_mean_is_of_the_last_rounds() -> None:
    """Each value is the mean of the last ones, or of as many as there were."""
    means = trailing_mean(np.array([3.0, 5.0, 7.0, 0.0]), 3)
    assert means.tolist() == pytest.approx([3.0, 4.0, 5.0, 4.0])


def protocol(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "protocol", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@dataclass(frozen=True)
class Files:
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


def test_report_writes_the_page_beside_the_transcript(files: Files) -> None:
    """`protocol report` verifies, writes one page, and prints where it is."""
    page = files.transcript.with_suffix(".html")
    assert protocol("report", *files.arguments()).stdout == f"{page}\n"
    assert "sealed by all" in Page(page.read_text(encoding="utf-8")).text
    other = files.transcript.with_name("other.html")
    protocol("report", *files.arguments(), "--out", str(other))
    assert other.read_bytes() == page.read_bytes()


def test_report_refuses_what_an_audit_refuses(files: Files) -> None:
    """A changed transcript gives no page, and no file that was read is overwritten."""
    out = ("--out", str(files.agreement))
    assert "would overwrite" in protocol("report", *files.arguments(), *out, code=2).stderr
    data = bytearray(files.transcript.read_bytes())
    data[-1] ^= 1
    files.transcript.write_bytes(data)
    said = protocol("report", *files.arguments(), code=9).stderr
    assert said.startswith(f"error: {files.transcript}: ")
    files.transcript.write_bytes(data[:-9])
    said = protocol("audit", *files.arguments(), code=9).stderr
    assert said.startswith(f"error: {files.transcript}: the transcript is cut off or damaged")
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
def test_audit_says_in_its_exit_code_what_is_missing(
    files: Files, rounds: int | None, state: str, code: int
) -> None:
    """Only a transcript of the whole session, sealed, ends with 0; the rest is printed as ever."""
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


SEEN = """(() => {
  const all = [...document.querySelectorAll('body, body *')];
  const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
  const seen = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const banner = document.querySelector('.banner');
  const style = banner && getComputedStyle(banner);
  return {
    viewport: document.documentElement.clientWidth,
    scroll: document.documentElement.scrollWidth,
    outside: all.filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
      .map(e => e.tagName + ' ' + e.textContent.slice(0, 40)),
    headings: [...document.querySelectorAll('h1, h2')].filter(seen).map(e => e.textContent),
    charts: [...document.querySelectorAll('svg.chart')].map(box),
    lines: [...document.querySelectorAll('polyline')].map(box),
    bars: [...document.querySelectorAll('svg.bar')].map(box),
    size: parseFloat(getComputedStyle(document.querySelector('td')).fontSize),
    banner: banner && seen(banner) && {
      text: banner.textContent, top: banner.getBoundingClientRect().top,
      colours: [style.color, style.backgroundColor], border: parseFloat(style.borderTopWidth),
    },
  };
})()"""

PUBLIC_HEADINGS = [
    "The capacities and their prices",
    "How good the outcome is, at least",
    "The quotas",
    "Who pays whom",
    "How the prices moved",
    "What was asked for, against the capacity",
    "Privacy",
    "Check it yourself",
]
PRIVATE_HEADINGS = [
    "What the session is worth to you",
    "Your quota and what you make of it",
    "Your plan",
    "How certain that is",
    "If you could buy whatever you want",
    "What privacy was spent",
]


@pytest.mark.parametrize(("width", "mobile"), [(390, True), (1280, False)], ids=["phone", "desk"])
@both_pages
def test_page_is_readable_on_a_screen(
    browser: Browser, kind: str, width: int, mobile: bool
) -> None:
    """On a phone and on a desk: nothing sticks out, charts are drawn, headings are seen."""
    asked = browser.show(page_of(kind), width=width, height=844, mobile=mobile)
    assert len(asked) == 1, "the page asked for more than itself"
    seen = browser.measure(SEEN)
    assert seen["viewport"] == width
    assert seen["scroll"] <= width
    assert seen["outside"] == []
    own = PRIVATE_HEADINGS if kind == "private" else []
    assert seen["headings"] == [played().agreement.session, *own, *PUBLIC_HEADINGS]
    assert len(seen["charts"]) == 10
    assert all(w > 250 and h > 100 for w, h in seen["charts"])
    assert all(w > 150 and h > 10 for w, h in seen["lines"])
    assert seen["bars"]
    assert all(w > 25 and h > 5 for w, h in seen["bars"])
    assert seen["size"] >= 13
    if kind == "public":
        assert seen["banner"] is None
        return
    assert seen["banner"]["text"] == "PRIVATE — for party1 only, do not forward"
    assert 0 <= seen["banner"]["top"] < 100
    assert seen["banner"]["colours"] == ["rgb(255, 255, 255)", "rgb(156, 31, 23)"]


def test_private_page_says_so_on_paper(browser: Browser) -> None:
    """Printed without colour the banner is black on white in a frame, and all of it prints."""
    browser.show(played().private(), width=794, height=1123, mobile=False)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        banner = browser.measure(SEEN)["banner"]
        paper = browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    assert banner["colours"] == ["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"]
    assert banner["border"] >= 3
    assert len(paper) > 20_000


def test_no_name_runs_as_a_script(browser: Browser) -> None:
    """In a real browser hostile names add no script and no picture, and are read as they are."""
    browser.show(played().private(), width=1280, height=844, mobile=False)
    assert browser.measure("document.querySelectorAll('script, img').length") == 0
    assert browser.measure("document.body.textContent.includes('<script>alert(1)</script>')")


@cache
def certain() -> Played:
    """A session without noise that ended by itself, in a currency, with endowments of its own."""
    chosen = options("--mode", "exact", "--no-demands", parties=3, rounds=150)
    instance = drawn(chosen)
    terms = agreement_table(instance, chosen) | {"currency": "EUR"}
    for member, part in zip(terms["member"], (0.5, 0.25, 0.25), strict=True):
        member["endowment"] = part
    for resource in terms["resource"]:
        resource["unit"] = "h"
    agreement = from_table(terms)
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
    return Played(known, instance.data[0], settle(instance.data[0], known, "party1"))


def amount(text: str, before: str) -> Decimal:
    """The amount of money that stands behind these words."""
    found = re.search(rf"{re.escape(before)}\s*([\u2212\d.\u202f]+)(?: EUR)?", text)
    assert found is not None, before
    return value(found[1])


def facts_of(text: str) -> dict[str, Decimal]:
    """The figures of the first section of a private page by what they are."""
    return {
        "alone": amount(text, "Alone your best plan earns"),
        "within": amount(text, "Within your quota it earns"),
        "left": amount(text, "Left after payment"),
        "gain": amount(text, "You are better off by"),
    }


def test_private_page_begins_with_what_the_session_is_worth() -> None:
    """Alone, together, payment and gain come first, with their currency, and they add up."""
    it = certain()
    text = Page(it.private()).text
    begin = text.index("What the session is worth to you")
    assert begin < text.index("Your quota and what") < text.index("Your plan") < text.index("How c")
    assert "4 companies share" not in text[:begin]
    shown = facts_of(text)
    payment = amount(text, "You pay" if it.settlement.payment > 0.0 else "You get")
    payment = payment if it.settlement.payment > 0.0 else -payment
    assert shown["within"] - payment == shown["left"]
    assert shown["left"] - shown["alone"] == shown["gain"]
    assert it.settlement.gain is not None
    assert float(shown["gain"]) == pytest.approx(it.settlement.gain, abs=0.03)
    assert f"it earns {fixed(int(shown['within'] * 100), 2)} EUR" in text


def test_private_page_states_the_theorem_without_noise() -> None:
    """Twice the certificate, in money, is what a company can lose at most by joining."""
    it = certain()
    certificate = it.known.certificate
    assert certificate is not None
    assert certificate.fits
    text = Page(it.private()).text
    assert f"by more than that, {figure(certificate.bound)} EUR" in text
    assert "no promise" not in text
    for data, member in zip(drawn_data(), it.agreement.members, strict=True):
        gain = settle(data, it.known, member.name).gain
        assert gain is not None
        assert gain >= -certificate.bound


def drawn_data() -> list[CompanyModel]:
    """The models of all companies of `certain`."""
    chosen = options("--mode", "exact", "--no-demands", parties=3, rounds=150)
    return list(drawn(chosen).data)


def test_private_page_promises_nothing_with_noise() -> None:
    """With noise the page says that there is no promise, why, and whether it came to that."""
    it = played()
    text = Page(it.private()).text
    assert "no promise that nobody loses by joining, because prices follow from" in text
    assert "nobody loses by joining: for no company" not in text
    assert "Nothing is certified: with noise" in text
    plan = it.settlement.within_quota
    assert plan is not None
    for utility, said in ((plan.utility + 1e6, "Here it is so."), (-1e6, "Here it is not so.")):
        alone = replace(plan, utility=utility)
        assert said in Page(it.private(replace(it.settlement, alone=alone))).text


@pytest.mark.parametrize(("loss", "ticks"), [(1.0, 1), (1.0, 2), (5e3, 1)])
def test_private_page_takes_rounding_for_what_it_is(loss: float, ticks: int) -> None:
    """Nobody is told to have lost who has what it brings, but for a tick that costs little."""
    it = played()
    plan = it.settlement.within_quota
    assert plan is not None
    secret = replace(
        it.settlement,
        quota_ticks=it.settlement.endowment_ticks - ticks,
        within_quota=replace(plan, utility=1e6),
        alone=replace(plan, utility=1e6 - it.settlement.payment + loss),
    )
    text, rounding = Page(it.private(secret)).text, (loss, ticks) == (1.0, 1)
    rounded = "Your quota is what you bring: but for rounding you are as well off as alone."
    assert (rounded in text) == ("Here it is not so, but for rounding." in text) == rounding
    assert (
        ("You are worse off than alone by" in text) == ("Here it is so." in text) == (not rounding)
    )
    assert amount(text, "You are worse off by") == pytest.approx(Decimal(loss), abs=Decimal("0.03"))


def test_private_page_promises_nothing_where_quotas_were_cut() -> None:
    """A certificate whose demands do not fit says nothing about the quotas; nor does the page."""
    it = certain()
    certificate = it.known.certificate
    assert certificate is not None
    center = it.known.state.prices.center
    assert center is not None
    unfit = replace(center, best=replace(certificate, fits=False))
    state = replace(it.known.state, prices=replace(it.known.state.prices, center=unfit))
    cut = replace(it, known=replace(it.known, state=state))
    for page in (cut.private(), cut.public()):
        text = Page(page).text
        assert "Nothing is certified about the quotas" in text
        assert "No other plan" not in text
    assert "because quotas were cut" in Page(cut.private()).text


@pytest.mark.parametrize(
    ("alone", "within", "said"),
    [
        (False, True, "Without the others you could not work at all; together with them you can."),
        (True, False, "Within your quota your model has no plan: what is missing is said below."),
        (False, False, "Alone, with what you bring, your model has no plan."),
        (True, True, "You are better off than alone by"),
    ],
)
def test_private_page_fits_the_case_of_the_company(alone: bool, within: bool, said: str) -> None:
    """A company without a plan alone, or within its quota, reads what is so for it."""
    it = certain()
    secret = replace(
        it.settlement,
        alone=it.settlement.alone if alone else None,
        within_quota=it.settlement.within_quota if within else None,
    )
    text = Page(it.private(secret)).text
    assert said in text
    assert ("what you bring, your model has no plan" in text) == (not alone)
    assert ("Your quota is too small" in text) == (not within)


def test_costs_are_shown_as_costs() -> None:
    """For a model that minimises the page says costs, which are lower where it is better."""
    it = certain()
    paid = replace(it, data=replace(it.data, minimises=True))
    within, alone = it.settlement.within_quota, it.settlement.alone
    assert within is not None
    assert alone is not None
    costs = replace(
        it.settlement,
        within_quota=replace(within, utility=-400.0),
        alone=replace(alone, utility=-1000.0),
    )
    text = Page(paid.private(costs)).text
    assert "your best plan costs 1\u202f000.00 EUR" in text
    assert "within your quota it costs 400.00 EUR" in text
    gain = 600.0 - it.settlement.payment
    assert float(amount(text, "You are better off than alone by")) == pytest.approx(gain, abs=0.02)
    assert "earns" not in text.split("From here on")[0]


def test_public_page_certifies_the_outcome() -> None:
    """The certificate in money and as a part of all worth, what it rests on, and the early end."""
    it = certain()
    certificate = it.known.certificate
    assert certificate is not None
    text = Page(it.public()).text
    part = (
        100.0 * certificate.bound / math.fsum(it.known.prices * quantities(it.agreement).capacity)
    )
    assert (
        "No other plan for all companies together would earn more than "
        f"{figure(certificate.bound)} EUR more ({figure(part)} % of what all capacities are worth)"
    ) in text
    assert "a best plan of its own, which nobody but itself can know" in text
    assert it.known.rounds < 150
    assert f"{it.known.rounds} of 150, ended by itself" in text
    assert "add up to its capacity exactly" not in text
    assert "final prices" not in text


def test_payments_add_up_as_they_are_shown() -> None:
    """Rows and columns of the payments add up on both pages, the last column to zero."""
    it = certain()
    for page in (it.public(), it.private()):
        rows = next(rows for rows in Page(page).tables if "It pays, EUR" in rows[0])
        chain_hash, *members, total = rows
        assert chain_hash == [
            "Company",
            "What it brings is worth, EUR",
            "Its quota, EUR",
            "It pays, EUR",
        ]
        for row, payment in zip(members, it.known.payments.tolist(), strict=True):
            brought, quota, paid = map(value, row[1:])
            assert quota - brought == paid
            assert abs(float(paid) - payment) < 0.01
        assert [sum(value(row[i]) for row in members) for i in (1, 2, 3)] == [
            value(cell) for cell in total[1:]
        ]
        assert value(total[3]) == 0
    brings = next(rows for rows in Page(it.public()).tables if "May claim" in rows[0])
    assert [row[2] for row in brings[1:]] == ["50 %", "25 %", "25 %"]


def test_quotas_that_leave_something_say_so() -> None:
    """Where full shares leave some of a capacity, the total is what it is and not the capacity."""
    members = [
        {"name": name, "signing_key": public_key(name).hex(), "share": share}
        for name, share in (("ada", 0.25), ("ben", 1.0))
    ]
    agreement = make_agreement(
        member=members, prices={}, rounds=1, resource=[{"name": "hours", "capacity": 100.0}]
    )
    ticks = agreement.ticks
    engine = RoundEngine(agreement)
    values = np.array([[ticks // 4], [ticks // 4]], dtype=np.int64)
    state = engine.advance(engine.opening, values)
    known = Outcome(
        agreement=agreement,
        state=state,
        released=values[None],
        path=np.array([engine.opening.prices.current, state.prices.current]),
        sealed=True,
    )
    read = Page(public_page(known))
    [rows] = [rows for rows in read.tables if rows and "all together, of" in rows[-1][0]]
    assert [value(row[3]) for row in rows[:-1]] == [25, 65]
    assert rows[-1] == ["all together, of 100.00", "90.00", "90.00 %"]
    assert "Of a capacity that the quotas leave in part" in read.text


def test_results_have_certificate_payments_and_endowments() -> None:
    """The public part of the result is what everybody can compute, in units and in money."""
    it = certain()
    content = result(it.known, it.member, it.settlement, SPENDING)
    certificate = it.known.certificate
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
    noisy = result(played().known, "party1", played().settlement, SPENDING)
    assert noisy["certificate"] is None
    assert not noisy["ended_by_itself"]


def test_audit_says_what_is_certified_and_paid() -> None:
    """The text and the figures of an audit have certificate, payments, and the end by itself."""
    it = certain()
    text, figures = audit_text(it.known), audit_figures(it.known)
    assert "the session ended by itself" in text
    assert f"certified  {certified(it.agreement, figures['certificate'])}" in text
    assert " EUR per h" in text
    for name, payment in figures["payments"].items():
        assert f"{name}  {payment!r}" in text
    assert sum(map(Fraction, figures["payments"].values())) == 0
    assert figures["endowment"]["party1"] == [it.agreement.ticks // 2] * 5
    noisy = audit_text(played().known)
    assert "Nothing is certified: with noise" in noisy
    assert "ended by itself" not in noisy


@pytest.mark.parametrize(("width", "mobile"), [(390, True), (1280, False)], ids=["phone", "desk"])
def test_first_screen_says_what_it_is_worth(browser: Browser, width: int, mobile: bool) -> None:
    """Gain, payment, certainty and privacy are said without scrolling, and nothing sticks out."""
    for it in (certain(), played()):
        browser.show(it.private(), width=width, height=844, mobile=mobile)
        seen = browser.measure(SEEN)
        assert seen["scroll"] <= width
        assert seen["outside"] == []
        bottom = browser.measure(
            "document.querySelector('.verdicts').getBoundingClientRect().bottom"
        )
        assert 0.0 < bottom < 844.0
        first = "document.querySelector('section').textContent"
        text = browser.measure(first)
        places = [text.index(word) for word in ("off than alone by", "Payment", "Certainty")]
        assert places == sorted(places)
        assert text.index("Certainty") < text.index("Privacy")


def test_charts_are_wide_on_wide_screens(browser: Browser) -> None:
    """On a large screen charts have more room than on a desk, and fill it."""
    widths = []
    for width in (1280, 1920):
        browser.show(certain().public(), width=width, height=1080, mobile=False)
        seen = browser.measure(SEEN)
        assert seen["outside"] == []
        widths.append(seen["charts"][0][0])
    assert widths[1] > 1.4 * widths[0]


def test_decimal_points_stand_below_each_other(browser: Browser) -> None:
    """In the columns of prices and of the plan every decimal point has one place."""
    it = certain()
    browser.show(it.private(), width=1280, height=844, mobile=False)
    points = browser.measure(POINTS)
    assert {"Price, EUR", "Within your quota"} <= points.keys()
    for name, places in points.items():
        assert max(places) - min(places) < 0.6, name


POINTS = """(() => {
  const found = {};
  for (const table of document.querySelectorAll('section > table')) {
    [...table.querySelectorAll('thead th')].forEach((head, i) => {
      if (!['Price, EUR', 'Within your quota', 'Capacity'].includes(head.textContent)) return;
      found[head.textContent] = [...table.querySelectorAll('tbody tr')].map(row => {
        const node = document.createTreeWalker(row.children[i], NodeFilter.SHOW_TEXT).nextNode();
        const range = document.createRange(), at = node.data.indexOf('.');
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect().left;
      });
    });
  }
  return found;
})()"""


def test_privacy_verdict_is_that_of_the_case() -> None:
    """Without noise nothing is claimed; with it how often guesses are right, and if too often."""
    hidden = Page(certain().private()).text
    assert "There is no guarantee (no noise): the others can know what you would take" in hidden
    masked = replace(certain().agreement, reveal="totals")
    known = replace(certain().known, agreement=masked)
    only = Page(private_page(known, "party1", certain().data, certain().settlement, SPENDING)).text
    assert "The others can read what all companies together would take, exactly" in only
    assert "Totals without noise can tell one company’s demands" in only
    assert "There is no guarantee" not in only
    it = played()
    real = replace(it, known=replace(it.known, agreement=replace(it.agreement, rehearsal=False)))
    weak = Spending(
        data_set="main", delta=1e-3, session=PrivacyCost(400.0), lifetime=PrivacyCost(400.0)
    )
    for spending, said in ((SPENDING, False), (weak, True)):
        page = private_page(real.known, real.member, real.data, real.settlement, spending)
        text = Page(page).text
        right = math.ceil(100.0 * NormalDist().cdf(math.sqrt(spending.session.mu_squared) / 2.0))
        assert f"guess right in at most {right} of 100 cases instead of 50" in text
        first = text.split("Your quota and what")[0]
        assert ("next to nothing" in first) == said
        assert "no guarantee" not in first


def test_report_has_its_date() -> None:
    """A report that is written on some day says so, and one without a day says nothing."""
    it = certain()
    page = private_page(
        it.known, it.member, it.data, it.settlement, SPENDING, written="17 November 2026"
    )
    assert "Private report for party1, 17 November 2026" in Page(page).text
    assert "Private report for party1, " not in Page(it.private()).text


def test_company_whose_solver_failed_reads_of_no_price_plan() -> None:
    """Where there is no plan at the prices nothing is said about one."""
    it = certain()
    text = Page(it.private(replace(it.settlement, at_prices=None))).text
    assert "If you could buy whatever you want" not in text


def test_public_result_for_spreadsheets_is_exact() -> None:
    """Quotas and payments read back to the last bit, and no text is a formula."""
    it = certain()
    content = result(it.known, it.member, it.settlement, SPENDING)
    rows = list(csv.DictReader(io.StringIO(public_csv(it.known))))
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
    hostile = replace(it.known, agreement=replace(it.agreement, resources=resources))
    assert {row["unit"] for row in csv.DictReader(io.StringIO(public_csv(hostile)))} == {
        "'=1+1",
        "",
    }


@cache
def brought() -> Played:
    """4 hours are there, the first company makes 4 more at 2 each, two others take 4 each."""

    def company(takes: float, earns: float, most: float = 4.0) -> CompanyModel:
        none = np.zeros(0)
        made = dense(
            A=np.array([[takes]]), B=np.zeros((0, 1)), u=np.array([earns]), row_lower=none,
            row_upper=none, lower=np.zeros(1), upper=np.array([most]),
        )  # fmt: skip
        return replace(made, names=("hours_made",) if takes < 0.0 else ("things",))

    data = (company(-1.0, -2.0), company(1.0, 5.0), company(1.0, 4.0, most=9.0))
    floor = np.array([[-4.0], [0.0], [0.0]])
    share = np.array([[0.5], [1.0], [1.0]])
    instance = Instance(np.array([4.0]), share, data, ("hours",), floor)
    chosen = options("--mode", "exact", parties=3, rounds=150)
    agreement = from_table(agreement_table(instance, chosen) | {"currency": "EUR"})
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
    return Played(known, data[0], settle(data[0], known, "party1"))


def test_a_company_that_brings_reads_what_it_is_paid() -> None:
    """It makes 4 hours and gets 4 for each: on its page, in its result and in the sheet of all."""
    it = brought()
    text = Page(it.private()).text
    assert float(amount(text, "You get")) == pytest.approx(16.0, rel=1e-2)
    assert "for what your quota is worth below what you bring" in text
    content = result(it.known, it.member, it.settlement, SPENDING)
    quotas = [quota[0] for quota in content["quota"].values()]
    assert quotas == pytest.approx([-4.0, 4.0, 4.0], rel=1e-2)
    assert sum(quotas) <= 4.0
    assert [own[0] for own in content["endowment"].values()] == pytest.approx([0.0, 2.0, 2.0])
    assert sum(content["payments"].values()) == 0.0
    assert content["payments"]["party1"] == pytest.approx(-16.0, rel=1e-2)
    rows = list(csv.DictReader(io.StringIO(public_csv(it.known))))[::2]
    for row, quota, own in zip(rows, quotas, content["endowment"].values(), strict=True):
        assert [float(row["quota"]), float(row["brings"])] == [quota, own[0]]
    public = Page(it.public())
    assert "one below 0 brings that much" in public.text
    cells = {cell for table in public.tables for line in table for cell in line}
    assert any(cell.startswith(("\u22124", "\u22123.99")) for cell in cells)


def test_sheet_has_no_quota_that_nobody_knows() -> None:
    """Where only totals can be read, the sheet has prices and what is brought, and no more."""
    known = replace(certain().known, agreement=replace(certain().agreement, reveal="totals"))
    rows = list(csv.DictReader(io.StringIO(public_csv(known))))
    assert len(rows) == 3 * 5
    assert {(row["quota"], row["payment"]) for row in rows} == {("", "")}
    assert all(row["brings"] and row["price"] for row in rows)


def test_report_writes_the_sheet_where_it_is_told(files: Files) -> None:
    """`protocol report --csv` leaves the same table that a party gets."""
    sheet = files.transcript.with_suffix(".csv")
    done = protocol("report", *files.arguments(), "--csv", str(sheet))
    assert done.stdout.splitlines()[1] == str(sheet)
    with sheet.open(encoding="utf-8") as text:
        assert [row["company"] for row in csv.DictReader(text)][::3] == ["ada", "ben", "cyd"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1.5", "22.25"], ["1.5\u2007", "22.25"]),
        (["7", "0.125"], ["7\u2008\u2007\u2007\u2007", "0.125"]),
        (["7", "12"], ["7", "12"]),
        ([], []),
    ],
)
def test_figures_of_a_column_are_filled_up(texts: list[str], expected: list[str]) -> None:
    """Behind a figure are as many blanks as others have digits there."""
    assert aligned(texts) == expected
