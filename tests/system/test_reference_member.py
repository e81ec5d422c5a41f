"""A member that was written from SPEC.md alone plays a whole session with real parties."""

import random
from pathlib import Path

import pytest

from protocol.errors import QuotaTooSmall
from tests.reference.member import Member
from tests.support.local_sessions import options, play
from tests.support.wait import LIMIT


@pytest.mark.parametrize(("topology", "mode"), [("relay", "private"), ("mesh", "exact")])
def test_a_second_implementation_sits_at_the_same_table(
    tmp_path: Path, topology: str, mode: str
) -> None:
    """All end with one file, byte for byte, and with the prices, quotas and payments it reads."""
    chosen = options("--topology", topology, "--mode", mode, rounds=8)
    with play(tmp_path / "s", chosen) as session:
        folder, chance = session.cast.folder, random.Random(5)
        session.cast.start_coordinator()
        for name in ("party1", "party2"):
            session.cast.start_party(name)
        width, ticks = session.agreement.width, session.agreement.ticks
        member = Member(
            (folder / "agreement.toml").read_text(),
            (folder / "party3" / "party3.key").read_text(),
            lambda number, prices: [chance.randrange(ticks) for _ in range(width)],  # noqa: ARG005
        )
        ours = member.play(LIMIT / 2.0)
        for name in ("party1", "party2"):
            ended = session.cast.processes[name].wait(LIMIT)  # a quota by chance may be too small
            assert ended in (0, QuotaTooSmall.exit_code), session.error(name)
            assert (folder / name / "out" / "session.transcript").read_bytes() == ours
            result, engine = session.cast.result(name), member.engine
            assert result["head"] == engine.chain_hash.hex()
            assert result["prices"] == engine.prices
            assert list(result["quota_ticks"].values()) == engine.quota
            assert list(result["payments"].values()) == engine.payments
        if topology == "mesh":  # where the end is told to the coordinator, and not overheard
            assert session.cast.processes["coordinator"].wait(LIMIT) == 0
