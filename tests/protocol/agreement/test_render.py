"""The file that is written for people reads back as the same agreement."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.agreement.parse import from_table, parse
from protocol.agreement.render import written
from protocol.agreement.schema import MODES, STEPS
from tests.support.agreement_tables import centered, full, masked, toml


def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False, allow_subnormal=False)


@st.composite
def agreements(draw: st.DrawFn) -> dict[str, Any]:
    """Valid agreements of every mode, with optional fields stated or left out."""
    mode = draw(st.sampled_from(MODES))
    fits = {"center": mode == "exact", "ball": mode == "private"}
    step = draw(st.sampled_from([s for s in STEPS if fits.get(s, True)]))
    prices: dict[str, Any] = {"step": step}
    if step in ("constant", "sqrt"):
        prices["step_size"] = draw(numbers(1e-6, 1e6))
    if step == "center" and draw(st.booleans()):
        prices |= {"tolerance": draw(numbers(0.0, 1.0)), "reserve": draw(numbers(0.0, 0.5))}
    if step == "ball" and draw(st.booleans()):
        prices["worth_within"] = draw(numbers(1.1, 20.0))
    if step not in ("center", "ball") and draw(st.booleans()):
        prices["momentum"] = draw(numbers(0.0, 0.999))
    table: dict[str, Any] = {
        "session": draw(st.from_regex(r"[a-z0-9_][a-z.-]{0,20}", fullmatch=True)),
        "mode": mode,
        "rounds": draw(st.integers(1, 10**6)),
        "prices": prices,
        "resource": [
            {
                "name": f"r{j}",
                "capacity": draw(numbers(2e-3, 1e12)),  # so that no first price is too high
                "worth": draw(numbers(1e-3, 1e9)),
                "unit": draw(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=9)),
            }
            for j in range(draw(st.integers(1, 4)))
        ],
        "member": [{"name": "first", "share": 1}]
        + [
            {"name": f"p{k}", "share": draw(numbers(0.0, 1.0))}
            for k in range(draw(st.integers(2 if step == "ball" else 1, 4)))
        ],
    }
    names = [resource["name"] for resource in table["resource"]]
    table["member"][1]["share"] = {name: draw(numbers(0.0, 1.0)) for name in names}
    if draw(st.booleans()):
        table["currency"] = draw(st.text("€$EURk¥", min_size=1, max_size=8))
    if draw(st.booleans()):
        for member in table["member"]:
            member["endowment"] = {name: float(member["name"] == "first") for name in names}
        for name in names:
            part = min(draw(numbers(0.0, 1.0)), table["member"][1]["share"][name])
            table["member"][0]["endowment"][name] = 1.0 - part
            table["member"][1]["endowment"][name] = part
    if step == "ball":
        for resource in table["resource"]:
            resource["spare"] = draw(numbers(0.0, 0.5))
    elif draw(st.booleans()):
        prices["start"] = {name: draw(numbers(-1e12, 1e12)) for name in names}
    if mode != "exact":
        table["privacy"] = {
            "epsilon": draw(numbers(1e-6, 100.0)),
            "delta": 0.001,
            "truncate": draw(st.booleans()),
            "share_objective": draw(st.booleans()),
        }
        if mode == "clipped":
            table["privacy"]["alpha"] = draw(numbers(1.0, 2.0))
        if mode == "clipped" or table["privacy"]["truncate"]:
            table["privacy"]["tau"] = draw(numbers(1e-4, 0.5))
    maskable = mode != "clipped" and len(table["member"]) > 2
    if step == "ball" or (maskable and draw(st.booleans())):
        table["reveal"] = "totals"
        for switch in ("truncate", "share_objective", "tau"):
            table.get("privacy", {}).pop(switch, None)
        if mode == "private" and draw(st.booleans()):
            table["privacy"]["colluders"] = draw(st.integers(1, len(table["member"]) - 2))
            table["privacy"]["overrun"] = draw(numbers(1e-6, 0.5))
    return table


@given(agreements(), st.integers())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_the_order_of_keys_does_not_matter(table: dict[str, Any], seed: int) -> None:
    """Any order of keys gives an equal agreement with an equal digest."""
    shuffled = parse(toml(table, random.Random(seed)))
    assert shuffled == parse(toml(table))
    assert shuffled.digest == parse(toml(table)).digest


@given(agreements())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_written_agreement_reads_back_equal(table: dict[str, Any]) -> None:
    """Reading the written file gives the same terms, transport and digest."""
    agreement = from_table(table)
    again = parse(written(agreement))
    assert again.transport == agreement.transport
    assert again.digest == agreement.digest
    assert (again.reveal, again.privacy) == (agreement.reveal, agreement.privacy)
    assert (again.pricing, again.members) == (agreement.pricing, agreement.members)


def test_every_term_has_a_comment() -> None:
    """The file explains each term; only names, amounts, keys and addresses need no comment."""
    plain = {"session", "name", "capacity", "coordinator_key", "signing_key", "transport_key"}
    for table in (full(), masked(), centered()):
        text = written(from_table(table))
        assert text.startswith("# Agreement of the session")
        for line in text.splitlines()[1:]:
            key = "" if line.startswith("# ") else line.partition(" = ")[0]
            if key not in plain | {"address", ""} and not key.startswith("["):
                assert " # " in line, line
