"""The table of the step `ball`: what it stores, and how it judges sessions."""

import gzip
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from party.settlement.settle import plan_within
from protocol.agreement.endowment import endowment
from protocol.agreement.quantities import amounts
from scripts.lab.study.ball_cells import Cell
from scripts.lab.study.ball_table import collect, tables
from scripts.lab.study.fates import Earnings

CELL = Cell(5, 16.0, 1, seeds=1)


def test_a_stopped_table_goes_on_where_it_was(tmp_path: Path) -> None:
    """Stored sessions are kept: their noise cannot be drawn again. Lacking ones are played."""
    path = tmp_path / "sessions.jsonl.gz"
    first = collect(path, [CELL], report=lambda _: None)[CELL]
    more = replace(CELL, seeds=2)
    second = collect(path, [more], report=lambda _: None)[more]
    assert str({step: played[:1] for step, played in second.items()}) == str(first)
    assert [len(played) for played in second.values()] == [2, 2]
    assert len(gzip.decompress(path.read_bytes()).splitlines()) == 4
    stored = collect(path, [replace(CELL, seeds=9)], [], report=lambda _: None)
    assert str(list(stored.values())) == str([second])
    assert "1 of 1 cells have fewer than 30 seeds" in " ".join(tables(stored, []))


def test_what_companies_earn_is_what_their_settlements_find() -> None:
    """A solver that is kept finds the utility of the settlement's plan in each part of a split."""
    for kind in ("paper", "demands"):
        cell = Cell(5, 8.0, 3, kind=kind)
        instance = cell.instance(1)
        agreement = cell.agreement(instance, "ball")
        earnings, brought = Earnings(instance), endowment(agreement)
        assert earnings.needy is (kind == "demands")
        for split in (brought, brought // 3, brought):
            plans = [
                plan_within(data, amounts(agreement, part, row))
                for row, (data, part) in enumerate(zip(instance.data, split, strict=True))
            ]
            found = np.array([np.nan if plan is None else plan.utility for plan in plans])
            np.testing.assert_allclose(earnings.within(agreement, split), found, rtol=1e-9)
