"""The figures and sentences of `protocol plan`."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.planning.forecast import GAINS
from protocol.planning.privacy_statement import statement
from protocol.planning.verdict import plan_figures
from protocol.privacy.axes import noise_ratio
from protocol.report.terminal import plan_text
from tests.support.builders import NAMES, make_agreement


def priced(worth: float) -> list[dict[str, Any]]:
    return [{"name": "hours", "capacity": 10.0, "worth": worth}]


def test_plan_names_the_agreement_and_its_promise() -> None:
    """The text has the digest, the privacy statement and the bound of the theorem."""
    privacy = {"epsilon": 8.0, "delta": 1e-3}
    agreement = make_agreement(mode="private", privacy=privacy, resource=priced(30.0))
    figures = plan_figures(agreement)
    text = plan_text(agreement, figures)
    assert agreement.digest.hex() in text
    assert statement(agreement) in text
    assert f"at most {figures['theorem_gap']:.4g} (theorem)" in text
    assert f"each party sends 3 messages of {figures['release_bytes']} bytes and receives 6" in text


@pytest.mark.parametrize(
    ("pace", "rounds", "words"),
    [(0.25, 4, "1 seconds"), (0.5, 300, "2.5 minutes"), (60.0, 150, "2.5 hours")],
)
def test_plan_says_how_long_a_session_takes(pace: float, rounds: int, words: str) -> None:
    """It is the pace times the rounds; without a pace there is a warning."""
    agreement = make_agreement(pace_seconds=pace, rounds=rounds)
    text = plan_text(agreement, plan_figures(agreement))
    assert f"at {pace:g} s a round, all releases take {words}, plus network time" in text
    without = make_agreement(rounds=rounds)
    assert "may reveal something about the data" in plan_text(without, plan_figures(without))


@pytest.mark.parametrize(
    ("epsilon", "share", "word"),
    [(None, 1.0, "no noise"), (1e-3, 1.0, "swamps"), (10.0, 1.0, "faint"), (100.0, 0.34, "clear")],
)
def test_verdict_follows_the_noise(epsilon: float | None, share: float, word: str) -> None:
    """The noise as a fraction of the capacity decides the verdict."""
    members = [{"name": name, "share": share} for name in ("ada", "ben", "cyd")]
    terms: dict[str, Any] = {"member": members, "resource": priced(30.0)}
    if epsilon is not None:
        terms |= {"mode": "private", "privacy": {"epsilon": epsilon, "delta": 1e-3}}
    agreement = make_agreement(**terms)
    assert word in plan_text(agreement, plan_figures(agreement)).splitlines()[-1]


def test_plan_names_who_receives_claims() -> None:
    """Members read before they join who will see their payments and quotas, and who is missing."""
    depot = {"name": "depot", "key": "ab" * 32}
    agreement = make_agreement(
        mode="exact",
        reveal="totals",
        prices={"step": "center"},
        resource=[{"name": "hours", "capacity": 9.0, "operator": depot},
                  {"name": "docks", "capacity": 4.0}],
    )  # fmt: skip
    expected = (
        "depot (hours); a recipient that the agreement does not name (payments, docks), so these "
        "claims are not encrypted"
    )
    assert expected in plan_text(agreement, plan_figures(agreement))


def test_plan_of_resources_that_are_worth_nothing() -> None:
    """With a worth of 0 there is no step to name."""
    agreement = make_agreement(resource=priced(0.0))
    text = plan_text(agreement, plan_figures(agreement))
    assert "at most 0 (theorem)" in text
    assert "with the step" not in text


def noisy(**terms: Any) -> Agreement:
    """Five members with noise, in the money of a currency."""
    chosen: dict[str, Any] = {
        "mode": "private",
        "rounds": 50,
        "currency": "EUR",
        "privacy": {"epsilon": 1.0, "delta": 1e-3},
        "prices": {},
        "resource": priced(30.0),
        "member": [{"name": name, "share": 0.4} for name in NAMES],
    }
    return make_agreement(**chosen | terms)


def test_bound_is_compared_with_the_worth() -> None:
    """For a bound above the total worth, the text says that it promises nothing."""
    agreement = noisy()
    figures = plan_figures(agreement)
    assert figures["theorem_gap_over_worth"] == pytest.approx(figures["theorem_gap"] / 30.0)
    text = plan_text(agreement, figures)
    assert f"at most {figures['theorem_gap']:.4g} EUR (theorem)" in text
    percent = 100.0 * figures["theorem_gap_over_worth"]
    assert percent > 100.0
    assert (
        f"at most {percent:.3g} % of what all capacities are worth, which promises nothing" in text
    )
    better = noisy(privacy={"epsilon": 100.0, "delta": 1e-3})
    figures = plan_figures(better)
    assert figures["theorem_gap_over_worth"] < 1.0
    assert "promises nothing" not in plan_text(better, figures)


@pytest.mark.parametrize(("word", "limit"), [("faint", 1.0), ("clear", 0.1)])
def test_needed_epsilon_is_enough_and_hardly_less_is(word: str, limit: float) -> None:
    """The named ε gives the verdict, and 2 % less does not."""
    needed = plan_figures(noisy())["needed"]
    assert needed is not None
    epsilon = needed[word]["epsilon"]
    enough, less = (
        plan_figures(noisy(privacy={"epsilon": e, "delta": 1e-3}))
        for e in (epsilon, 0.98 * epsilon)
    )
    assert enough["total_average"] <= limit < less["total_average"]
    assert f"Verdict: {word}" in enough["verdict"]


@pytest.mark.parametrize(("word", "limit"), [("faint", 1.0), ("clear", 0.1)])
def test_needed_members_are_enough_and_fewer_are_not(word: str, limit: float) -> None:
    """The named number of members, with the same sum of shares, gives the verdict."""

    def crowd(times: int) -> Agreement:
        members = [
            {"name": f"{name}{n}", "share": 0.4 / times} for name in NAMES for n in range(times)
        ]
        return noisy(member=members)

    needed = plan_figures(noisy(privacy={"epsilon": 8.0, "delta": 1e-3}))["needed"]
    assert needed is not None
    times, rest = divmod(needed[word]["members"], 5)
    assert rest == 0
    privacy = replace(crowd(times).privacy, epsilon=8.0)  # type: ignore[type-var]
    enough = plan_figures(replace(crowd(times), privacy=privacy))
    assert enough["total_average"] <= limit
    if times > 1:
        less = plan_figures(replace(crowd(times - 1), privacy=privacy))
        assert less["total_average"] > limit


def test_plan_says_if_no_rounds_or_epsilon_would_do() -> None:
    """No number of rounds and no ε is enough here."""
    agreement = noisy(privacy={"epsilon": 0.01, "delta": 1e-9}, member=[
        {"name": name} for name in NAMES[:2]
    ], resource=[{"name": f"r{j}", "capacity": 1.0, "worth": 1.0} for j in range(100)])  # fmt: skip
    figures = plan_figures(agreement)
    assert figures["needed"]["clear"]["rounds"] is None
    assert figures["needed"]["clear"]["epsilon"] is None
    text = plan_text(agreement, figures)
    assert "no number of rounds would do" in text
    assert "no epsilon up to 100 would do" in text


def test_nothing_is_needed_if_the_verdict_cannot_improve() -> None:
    """The text does not say what would improve it."""
    hidden, clear = make_agreement(), noisy(privacy={"epsilon": 100.0, "delta": 1e-3})
    assert plan_figures(hidden)["needed"] is None
    for agreement in (hidden, clear):
        assert "it would take" not in plan_text(agreement, plan_figures(agreement))


@pytest.mark.parametrize(
    ("step", "noise", "warned"),
    [
        ({"step": "sqrt", "step_size": 0.1}, "component", ["the step 'sqrt'"]),
        ({"step": "theorem"}, "norm", ["the step 'theorem'", "the noise 'norm'"]),
        ({}, "norm", ["the noise 'norm'"]),
        ({}, "component", []),
    ],
)
def test_plan_warns_if_units_matter(step: dict[str, Any], noise: str, warned: list[str]) -> None:
    """It warns only about rules that use raw units of very different capacities."""

    def plan(second: float) -> list[str]:
        resources = [
            {"name": "hours", "capacity": 10.0, "worth": 30.0},
            {"name": "grams", "capacity": second, "worth": 30.0},
        ]
        privacy = {"epsilon": 1.0, "delta": 1e-3, "noise": noise}
        agreement = noisy(prices=step, privacy=privacy, resource=resources)
        lines = plan_text(agreement, plan_figures(agreement)).splitlines()
        return [line for line in lines if line.startswith("warning: the largest")]

    assert plan(20.0) == []
    far = plan(1e6)
    assert len(far) == len(warned)
    for line, words in zip(far, warned, strict=True):
        assert words in line
        assert "1e+05 times" in line


def test_plan_of_the_centre_rule_says_when_it_stops() -> None:
    """The text has tolerance, reserve, the most rounds and what is revealed."""
    agreement = make_agreement(
        rounds=70, resource=priced(30.0), prices={"tolerance": 0.002, "reserve": 0.03}
    )
    figures = plan_figures(agreement)
    text = plan_text(agreement, figures)
    assert "than 0.2 % of what all capacities are worth" in text
    assert "after 70 rounds in any case" in text
    assert "3 % of each capacity" in text
    assert "may lack as much" in text
    usual = make_agreement(rounds=70)
    assert "may lack as much" not in plan_text(usual, plan_figures(usual))
    assert "exactly what each company would take" in text
    assert "sends at most 70 messages" in text
    assert figures["theorem_gap"] is None
    assert "noise (standard deviation" not in text


def crowd(count: int, *, shares: list[float] | None = None, **terms: Any) -> Agreement:
    """Members with shares of 2/K, or with the given shares."""
    parts = shares or [2.0 / count] * count
    members = [{"name": f"p{k}", "share": part} for k, part in enumerate(parts)]
    return noisy(member=members, **terms)


def budget(epsilon: float, **more: Any) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": 1e-3, **more}


@pytest.mark.parametrize("step", ["worth", "ball"])
def test_plan_shows_each_beside_totals(step: str) -> None:
    """The better of both forecasts is named, with how much less noise it has."""
    agreement = crowd(50, reveal="totals", privacy=budget(4.0), prices={"step": step})
    figures = plan_figures(agreement)
    less = figures["each"]["total_average"] / figures["totals"]["total_average"]
    if step == "worth":
        assert less == pytest.approx(7.0, rel=1e-3)  # √(K − 1) times
    assert less > 6.5
    assert figures["totals"]["total_average"] == figures["total_average"]
    assert figures["better"] == "totals"
    text = plan_text(agreement, figures)
    assert f"better is                totals ({less:.2g} times less noise in totals)" in text
    assert "epsilon 4 against 1, " in text
    assert f"withhold {100 * figures['totals']['quota_kept']:.0f} % of a capacity for noise" in text


def test_the_forecast_of_totals_is_the_same_if_each_is_agreed() -> None:
    """An agreement with single releases is compared with the default step for totals."""
    each = plan_figures(crowd(50, privacy=budget(4.0)))
    totals = plan_figures(crowd(50, reveal="totals", privacy=budget(4.0)))
    assert each["totals"] == totals["totals"]
    assert each["each"] == totals["each"]


@pytest.mark.parametrize(
    ("count", "words", "unmet"),
    [
        (5, "leaves nothing to gain", ["trade", "gain"]),
        (40, "only for companies that differ much", ["gain"]),
        (100, "leaves room to trade. ", []),
    ],
)
def test_the_verdict_on_a_ball_says_who_can_gain(count: int, words: str, unmet: list[str]) -> None:
    """The plan says which ε, or how many members, would improve the verdict; with these it does."""
    agreement = crowd(count, reveal="totals", privacy=budget(1.0))
    figures = plan_figures(agreement)
    text = plan_text(agreement, figures)
    assert figures["trades"] is ("trade" not in unmet)
    assert words in text
    assert [word for word in ("trade", "gain") if f"for '{word}' it would take" in text] == unmet
    for word in unmet:
        ways = figures["needed"][word]
        assert f"epsilon {ways['epsilon']:g} or {ways['members']} members" in text
        enough = crowd(count, reveal="totals", privacy=budget(ways["epsilon"]))
        many = crowd(ways["members"], reveal="totals", privacy=budget(1.0))
        for better in map(plan_figures, (enough, many)):
            assert better["trades"]
            assert word == "trade" or better["burden"] <= GAINS


def test_the_burden_of_noise_is_what_is_withheld_over_what_can_be_traded() -> None:
    """With equal endowments and spheres it is 2·κ·√m (PRIVACY.md, Theorem 18)."""
    agreement = crowd(40, reveal="totals", privacy=budget(1.0))
    kappa, m = noise_ratio(agreement) / 40, len(agreement.resources)
    burden = plan_figures(agreement)["burden"]
    assert burden == pytest.approx(2.0 * kappa * math.sqrt(m), rel=0.02)


def test_plan_prefers_each_if_totals_gain_nothing() -> None:
    """The noise of one large member is nearly all the noise."""
    worth = {"step": "worth"}
    shares = [1.0, *[0.01] * 5]
    agreement = crowd(6, shares=shares, reveal="totals", privacy=budget(1.0), prices=worth)
    figures = plan_figures(agreement)
    assert figures["better"] == "each"
    assert "hardly more noise, and the guarantee depends on no other member" in plan_text(
        agreement, figures
    )


@pytest.mark.parametrize(
    "terms",
    [
        {"member": [{"name": name} for name in NAMES[:2]]},
        {"mode": "clipped"},
        {"privacy": {"epsilon": 1.0, "delta": 1e-3, "truncate": True}},
        {"privacy": {"epsilon": 1.0, "delta": 1e-3, "share_objective": True}},
    ],
)
def test_plan_compares_nothing_if_masks_are_impossible(terms: dict[str, Any]) -> None:
    """Two members, adaptive caps, truncation and objectives exclude masks."""
    figures = plan_figures(noisy(**terms))
    assert figures["totals"] is None
    assert figures["better"] is None
    assert "reveal" not in plan_text(noisy(**terms), figures)


def test_plan_of_totals_without_noise() -> None:
    """Totals are better for the same prices; the text says what they reveal."""
    agreement = make_agreement(resource=priced(30.0), prices={}, reveal="totals")
    figures = plan_figures(agreement)
    text = plan_text(agreement, figures)
    assert figures["better"] == "totals"
    assert "With few companies, or over several sessions, totals can reveal what one" in text
    assert "none in numbers: single demands are masked, but totals are shown" in statement(
        agreement
    )


@pytest.mark.parametrize(
    ("count", "epsilon", "words"),
    [
        (10, 1.0, "Quotas will not: they will be pro rata"),
        (50, 16.0, "Quotas leave about 2 % of a capacity unused"),
    ],
)
def test_verdict_on_totals_says_what_quotas_will_be(count: int, epsilon: float, words: str) -> None:
    """The verdict says how quotas follow demand; the statement names the colluders."""
    agreement = crowd(
        count,
        reveal="totals",
        privacy=budget(epsilon, colluders=2),
        prices={"step": "worth"},
    )
    assert words in plan_figures(agreement)["verdict"]
    assert "any 2 other members, the coordinator and everybody outside" in statement(agreement)
