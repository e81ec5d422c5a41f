"""What an operator reads is never better than the truth."""

import io
import json
import re
import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn

from party.ledger.budget import opened
from party.settlement.result_files import public_result
from party.ui.budget_table import figures, show_budget
from party.ui.console import JsonView, ProgressView, TextView, _ProgressBar, _rounded_down
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.outcome.outcome import outcome
from protocol.outcome.replay import round_states
from protocol.report.elements import page
from protocol.report.live_sections import LiveState, live_sections
from protocol.report.progress import SessionPath
from protocol.report.public import public_page
from protocol.rounds import RoundState
from protocol.runtime.presence import clock_text
from protocol.session.phases import Phase
from protocol.wire.messages import Signed
from tests.support.builders import make_agreement, play, table
from tests.support.report_pages import certain_session


@given(st.floats(1e-9, 1e12))
@example(119.9999999)
@example(0.99999995)
def test_a_quota_is_never_shown_larger_than_it_is(amount: float) -> None:
    """Amounts have six digits and are rounded down."""
    shown = Decimal(_rounded_down(amount))
    assert shown <= Decimal(amount)
    assert Decimal(amount) - shown <= Decimal(amount) / 100_000


def test_times_in_a_log_are_no_finer_than_the_pace() -> None:
    """Times in a log are multiples of the pace, so that others may see it."""
    out = io.StringIO()
    JsonView(make_agreement(pace_seconds=64.0), out).warn("something")
    assert json.loads(out.getvalue())["at"] % 64.0 == 0.0


def test_prices_of_the_next_round_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    """The total of a round stands beside the prices that follow from it. The last has none: the
    prices of the outcome are others."""
    agreement = make_agreement(rounds=2)
    transcript, (_, first, last) = play(agreement)
    for state, releases in zip((first, last), transcript.rounds, strict=True):
        ProgressView(agreement).round(state, releases)
    running, over = capsys.readouterr().err.splitlines()
    assert running.startswith("round 1 of 2: total ")
    assert "off the capacity; next prices" in running
    assert over == "round 2 of 2: all rounds are closed"


def test_a_pair_of_opposites_has_one_price(capsys: pytest.CaptureFixture[str]) -> None:
    """Progress, outcome and pages show the difference of both prices, also below 0."""
    terms = table(rounds=2, reveal="each")
    terms["resource"] = [
        {"name": "power", "capacity": 10.0, "unit": "kWh"},
        {"name": "least", "capacity": -10.0, "span": 10.0, "opposite": "power"},
    ]
    for member in terms["member"]:
        member |= {"floor": {"power": 0.0, "least": -1.0}, "share": {"power": 1.0, "least": 0.0}}
    agreement = from_table(terms)
    transcript, states = play(agreement)
    prices = replace(states[1].prices, current=np.array([0.75, 1.0]))
    after = replace(states[1], prices=prices)
    ProgressView(agreement).round(after, transcript.rounds[0])
    assert capsys.readouterr().err.endswith("; next prices -0.25\n")
    found = outcome(agreement, transcript)
    found.__dict__["prices"] = np.array([0.75, 1.0])
    TextView(agreement).finished(public_result(found, "ada"), None)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("; ")[1:] for line in shown[1:3]] == [["price -0.25 per kWh"], []]
    assert [line.split(":")[0] for line in shown[1:3]] == ["  power", "  least"]
    live = LiveState(agreement, "ada")
    live.close_round(1, np.zeros(2), after)
    for text in (public_page(found), page("live", *live_sections(live))):
        assert "in the price of power" in text
        assert "price \u22120.2500 per kWh" in text


def certified() -> tuple[Agreement, list[RoundState], list[tuple[Signed, ...]]]:
    """A session under the centre rule that ends with a certificate."""
    agreement, _, transcript = certain_session()
    return agreement, list(round_states(agreement, transcript)), list(transcript.rounds)


def test_progress_is_told_in_money_that_falls(capsys: pytest.CaptureFixture[str]) -> None:
    """The last word is the certificate, in money and never below the truth."""
    agreement, states, rounds = certified()
    for state, releases in zip(states[1:], rounds, strict=True):
        ProgressView(agreement).round(state, releases)
    lines = capsys.readouterr().err.splitlines()
    told = [re.search(r"at most ([\d.,]+) EUR from the best", line) for line in lines]
    amounts = [float(found[1].replace(",", "")) for found in told if found]
    assert len(amounts) > 3
    assert amounts[-1] < 0.1 * amounts[0]
    assert told[-1] is not None
    certificate = states[-1].certificate
    assert certificate is not None
    assert amounts[-1] >= certificate.bound
    assert "off the capacity" not in lines[-1]
    assert lines[-1].startswith(f"round {len(rounds)} of at most {agreement.rounds}: ")


def test_the_bar_is_as_long_as_its_figure() -> None:
    """A bar of 30 % fills 30 % of its width; it never goes back, and ends full."""
    agreement, states, _ = certified()
    bar = _ProgressBar(agreement)
    lengths = []
    for at, state in enumerate(states[1:]):
        bar.add(state, float(at))
        bar.show("")
        [task] = bar.progress.tasks
        out = io.StringIO()
        drawing = BarColumn(bar_width=100).render(task)
        Console(file=out, width=120, color_system=None).print(drawing)
        drawn = out.getvalue().count("\u2501")
        assert abs(drawn - task.percentage) <= 1.0
        lengths.append(task.percentage)
    assert lengths == sorted(lengths)
    assert lengths[-1] == 100.0
    assert lengths[len(lengths) // 2] > 10.0


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_bar_fits_the_terminal(width: int) -> None:
    """One line with bar and figure at any width; from 60 columns on also the certificate."""
    agreement, states, _ = certified()
    bar, out = _ProgressBar(agreement), io.StringIO()
    bar.console = Console(file=out, width=width, color_system=None)
    for at, state in enumerate(states[1:]):
        bar.add(state, float(at))
        bar.show("at most 1,234.56 EUR from the best", "next prices 1.234 5.678")
        bar.console.print(bar.progress.get_renderable())
    lines = out.getvalue().splitlines()
    assert len(lines) == len(states) - 1
    for number, line in enumerate(lines, start=1):
        assert line.startswith(f"round {number} ")
        assert " %" in line
        assert len(line) <= width
        assert "\u2026" not in line
        assert ("from the best" in line) == (width >= 60)
        assert ("next prices" in line) == (width >= 100)
    assert width < 80 or all(" left" in line for line in lines[1:-1])


def test_rounds_left_are_never_more_than_are_agreed() -> None:
    """The estimate is at least one round until the end."""
    agreement, states, _ = certified()
    path = SessionPath(agreement)
    for state in states[1:]:
        path.add(state)
        assert path.rounds_left == 0 if state.over else path.rounds_left >= 1
        assert path.rounds_left + state.round <= agreement.rounds


def test_a_log_has_the_certificate_of_each_round() -> None:
    """As public figures, for programs."""
    agreement, states, rounds = certified()
    out = io.StringIO()
    JsonView(agreement, out).round(states[-1], rounds[-1])
    event = json.loads(out.getvalue())
    certificate = states[-1].certificate
    assert certificate is not None
    assert event["certificate"] == {"money": certificate.bound, "fits": True}
    assert event["round"] == len(rounds)


def test_who_has_left_is_named_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """A member that is away is not listed as here; a change is shown, but flapping is not."""
    view = ProgressView(make_agreement(members=4))
    left = time.time() - 3.0
    view.waiting(Phase.HANDSHAKE, ("cyd",), {"cyd": None, "ben": left})
    [line] = capsys.readouterr().err.splitlines()
    since = f"ben (away since {clock_text(left)})"
    assert line == f"waiting for cyd (not seen yet), {since} (here: ada, dan)"
    for _ in range(50):
        view.waiting(Phase.HANDSHAKE, ("cyd",), {"cyd": None})
        view.waiting(Phase.HANDSHAKE, ("cyd",), {"cyd": None, "ben": left})
    assert len(capsys.readouterr().err.splitlines()) <= 2


def test_who_came_and_left_between_two_looks_is_shown_with_its_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was not seen yet, and is away since a moment ago: that is a change, in text and log."""
    agreement, out, left = make_agreement(members=3), io.StringIO(), time.time() - 3.0
    for view in (ProgressView(agreement), JsonView(agreement, out)):
        view.waiting(Phase.HANDSHAKE, ("ben", "cyd"), {"ben": None, "cyd": None})
        view.waiting(Phase.HANDSHAKE, ("ben", "cyd"), {"ben": left, "cyd": None})
    assert f"ben (away since {clock_text(left)})" in capsys.readouterr().err
    events = [json.loads(line)["away"] for line in out.getvalue().splitlines()]
    assert events == [{"ben": None, "cyd": None}, {"ben": left, "cyd": None}]


@pytest.mark.parametrize(
    ("count", "who"),
    [(1, "1 other member shares what it knows"), (2, "2 other members share what they know")],
)
def test_the_budget_table_names_its_assumption_about_colluders(
    capsys: pytest.CaptureFixture[str], count: int, who: str
) -> None:
    """If only totals are public, the table says how many colluders its ε allows for."""
    agreement = make_agreement(
        members=4,
        mode="private",
        reveal="totals",
        prices={"step": "sqrt", "step_size": 0.1},
        privacy={"epsilon": 8.0, "delta": 0.001, "colluders": count},
    )
    account = opened(agreement)
    show_budget(figures([account], account.data_set, None, delta=1e-3))
    output = " ".join(capsys.readouterr().out.split())
    assert f"*{count}" in output
    assert f"at most {who}, the rest add their noise, and no one breaks" in output
    assert "cover what payments, quotas and the use of capacities show" in output
