"""`coordinator new` for what some members bring and others take: spans, bands and opposites."""

from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from msgspec.structs import replace

from coordinator.members import set_endowments
from party.model.company_model import read, uses
from party.model.shared_rows import row_map
from protocol.agreement.quantities import net_prices, quantities
from protocol.agreement.render import endowments_in_words
from protocol.errors import BadData
from protocol.runtime.files import read_agreement
from scripts.examples.energy_community import EXAMPLE, HOURS, SITES, SPAN
from scripts.examples.together import Example, play
from tests.support.drafts import EXACT, new

NAMES = ("acme", "bolt", "coil")
POWER = ("--resource", "power=0", "--span", "power=20", "--band", "*:power=-1..1")


def written(folder: Path, *options: Any, names: tuple[str, ...] = NAMES, **more: Any) -> Any:
    done = new(folder, *EXACT, *options, names=names, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return read_agreement(folder / "agreement.toml")


def test_a_resource_may_have_a_span_and_members_bands(tmp_path: Path) -> None:
    """Bands are of one member and one resource; where none is given, the others stay as usual."""
    made = written(tmp_path, *POWER, "--band", "acme:docks=0.1..0.5", "--unit", "p*=kWh")
    power = made.resources[2]
    assert (power.capacity, power.span, power.unit) == (0.0, 20.0, "kWh")
    assert [m.floor for m in made.members] == [(0.0, 0.1, -1.0), (0.0, 0.0, -1.0), (0.0, 0.0, -1.0)]
    assert [m.share[1] for m in made.members] == [0.5, 1.0, 1.0]
    assert quantities(made).capacity.tolist() == pytest.approx([120.0, 14.4, 60.0])


def test_a_pattern_gives_all_members_an_endowment() -> None:
    """`*=0` is for every member, and for the resources that no other option is about."""
    members: list[dict[str, Any]] = [{"name": name} for name in NAMES]
    resources: list[dict[str, Any]] = [
        {"name": name, "capacity": 0.0, "span": 1.0} for name in ("power", "heat")
    ]
    set_endowments(members, resources, ["*=0", "acme:p*=0.5", "bolt:power=-0.5"])
    found = [member["endowment"] for member in members]
    assert found == [{"power": power, "heat": 0.0} for power in (0.5, -0.5, 0.0)]


def test_an_opposite_has_bands_and_endowments_turned(tmp_path: Path) -> None:
    """What a member may take at most it brings at least to the other side, and the reverse."""
    endowments = [f"--endowment={name}=0.333333333333" for name in NAMES[:2]]
    endowments += ["--endowment=coil=0.333333333334"]
    endowments += [f"--endowment={n}:power={e}" for n, e in zip(NAMES, (0.5, -0.5, 0), strict=True)]
    made = written(tmp_path, *POWER, "--opposite", "power", "--opposite", "hours", *endowments)
    hours, power = made.resources[3:]
    assert (hours.name, hours.capacity, hours.span, hours.opposite) == (
        "hours-least", -120.0, 120.0, "hours",
    )  # fmt: skip
    assert (power.name, power.capacity, power.span, power.opposite) == (
        "power-least", 0.0, 20.0, "power",
    )  # fmt: skip
    acme = made.members[0]
    assert acme.share == (1.0, 1.0, 1.0, 0.0, 1.0)
    assert acme.floor == (0.0, 0.0, -1.0, -1.0, -1.0)
    assert acme.endowment[2:] == pytest.approx((0.5, -0.333333333333, -0.5))
    assert made.pricing.reserve == 0.0
    assert made.rounds == 150 + 4 * 5


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--resource", "power=0"), 2, "add --span power=AMOUNT"),
        (("--resource", "power=-3"), 2, "add --span power=AMOUNT"),
        (("--span", "power=20"), 2, "there is no resource 'power'; there are hours, docks"),
        (("--span", "hours=0"), 2, "it must be RESOURCE=AMOUNT, with an amount above 0"),
        (("--span", "hours=inf"), 2, "it must be RESOURCE=AMOUNT, with an amount above 0"),
        (("--span", "hours"), 2, "it must be RESOURCE=AMOUNT"),
        (("--span", "hours=9", "--span", "h*=8"), 2, "hours has a span already"),
        (("--resource", "power=0", "--span", "power=20"), 3, "the floors in resource 'power'"),
        (("--band", "acme:hours=0.5"), 2, "it must be MEMBER:RESOURCE=FLOOR..SHARE"),
        (("--band", "acme:hours=a..b"), 2, "it must be MEMBER:RESOURCE=FLOOR..SHARE"),
        (("--band", "acm:hours=0..1"), 2, "there is no member 'acm'; there are acme, bolt, coil"),
        (("--band", "acme:days=0..1"), 2, "there is no resource 'days'"),
        (("--band", "acme:hours=0..1", "--band", "*:hours=0..1"), 2, "has a band of hours already"),
        (("--band", "acme:hours=0.6..0.5"), 3, "has the floor 0.6 in resource 'hours', above"),
        (("--band", "acme:hours=-2..1"), 3, "must be a number from -1 to 1"),
        (("--resource", "hours=9"), 2, "--resource hours=... is given 2 times; give it once"),
        (("--opposite", "days"), 2, "there is no resource 'days'; there are hours, docks"),
        (("--opposite", "hours", "--mode", "private"), 2, "--opposite needs --mode exact"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, options: tuple[str, ...], code: int, text: str
) -> None:
    """The message says what to change, and nothing is written."""
    refused = new(tmp_path, *EXACT, *options, names=NAMES)
    assert (refused.returncode, text in refused.stderr) == (code, True), refused.stderr
    assert not (tmp_path / "agreement.toml").exists()


def test_the_energy_community_is_one_command(tmp_path: Path) -> None:
    """Its 24 hours have the terms that the example plays."""
    resources = tuple(f"power-{hour}=0" for hour in HOURS)
    options = ("--span", f"power-*={SPAN:g}", "--unit", "power-*=kWh", "--band", "*:*=-1..1")
    made = written(tmp_path, *options, names=tuple(SITES), resources=resources)
    assert "Here: nothing, because every joint capacity is 0" in endowments_in_words(made)
    played = EXAMPLE.agreement(list(SITES))
    assert made.resources == played.resources
    assert [(m.floor, m.share) for m in made.members] == [
        (m.floor, m.share) for m in played.members
    ]


def company(*offers: tuple[float, float, float]) -> highspy.Highs:
    """In each of two hours: value of a unit taken, and cost and limit of units brought."""
    model = highspy.Highs()
    model.silent()
    for hour, (value, cost, limit) in enumerate(offers):
        taken = model.addVariable(lb=0.0, ub=8.0, obj=value, name=f"take{hour}")
        brought = model.addVariable(lb=0.0, ub=limit, obj=-cost, name=f"bring{hour}")
        model.addConstr(taken - brought <= 0.0, name=f"power-{hour}")
    model.setMaximize()
    return model


def companies() -> dict[str, Any]:
    return {
        "acme": company((3.0, 1.0, 9.0), (2.0, 4.0, 9.0)),
        "bolt": company((5.0, 9.0, 2.0), (6.0, 7.0, 2.0)),
        "coil": company((2.0, -1.5, 12.0), (4.0, 1.0, 6.0)),  # it gains by bringing in hour 0
    }


@pytest.mark.parametrize("exactly", [False, True])
def test_an_exchange_ends_at_its_joint_optimum(tmp_path: Path, exactly: bool) -> None:
    """What is brought equals what is taken, or is not below it; the session stops as certified.

    A pair of prices can rise together. The session must not take that for worth, and stop early.
    """
    opposite = ("--opposite", "power-*") if exactly else ()
    made = written(
        tmp_path, "--span", "*=20", "--band", "*:*=-1..1", *opposite,
        resources=("power-0=0", "power-1=0"),
    )  # fmt: skip
    example = Example(resources=[], models=companies)
    played = play(example, replace(made, rehearsal=True))
    certificate = played.outcome.certificate
    assert abs(played.lost) < 1e-3
    assert not played.outcome.no_trade
    assert certificate is not None
    net = net_prices(certificate.prices, quantities(made).opposites)
    assert certificate.gap <= 1e-4 * net.sum()
    assert certificate.gap < 1e-3 * played.best
    assert played.outcome.certificate_part == pytest.approx(certificate.bound / net.sum())
    totals = np.zeros(len(made.resources))
    for own in played.settlements.values():
        assert own.gain is not None
        assert own.gain > -certificate.bound
        assert own.within_quota is not None
        totals += own.within_quota.uses
    assert totals[:2].max() <= 1e-6
    assert not exactly or np.abs(totals).max() <= 1e-6


def test_a_family_of_rows_leaves_opposites_alone(tmp_path: Path) -> None:
    """`power-*=exchange[*]` maps the resources; their opposites use the same rows, turned."""
    made = written(
        tmp_path, "--span", "*=20", "--band", "*:*=-1..1", "--opposite", "*",
        resources=("power-0=0", "power-1=0"),
    )  # fmt: skip
    model = company((3.0, 1.0, 9.0), (2.0, 4.0, 9.0))
    for row in range(2):
        model.passRowName(row, f"exchange[{row}]")
    data = read(model, made, row_map({"power-*": "exchange[*]"}))
    taken = np.array([1.0, 0.0, 2.0, 0.0])
    assert uses(data, taken).tolist() == [1.0, 2.0, -1.0, -2.0]
    with pytest.raises(BadData, match="there is no row 'missing'"):
        read(model, made, row_map({"power-0-least": "missing", "power-*": "exchange[*]"}))
