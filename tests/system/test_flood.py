"""A member that takes part and floods: the others continue, and only the flooder is named.

No times are asserted here: `scripts/attack flood` measures how fast the others continue.
"""

from pathlib import Path

import pytest

from protocol.agreement.schema import TOPOLOGIES
from scripts.lab.attack.flood import Flooded
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

ROUNDS = 60
RATE = 4_000.0


@pytest.mark.parametrize(
    ("topology", "kind"), [*((each, "forged") for each in TOPOLOGIES), ("mesh", "parts")]
)
def test_a_flooder_is_named_and_no_honest_member_is(
    tmp_path: Path, topology: str, kind: str
) -> None:
    """Forgeries in the names of all others, or messages of many frames, change no result."""
    chosen = options("--topology", topology, rounds=ROUNDS)
    with RunningSession(tmp_path / "s", chosen) as session:
        attacked = Flooded(session)
        attacked.begin(kind, RATE)
        attacked.start()
        until(attacked.names_flooder, "the flooder is named")
        session.wait(LIMIT)
        assert not attacked.names_others()
        assert len(attacked.names_flooder()) < 100, "it is named too often"
        assert_undisturbed(session, "--topology", topology)


@pytest.mark.parametrize("kind", ["hellos", "mixed", "parts"])
def test_other_floods_change_no_result(tmp_path: Path, kind: str) -> None:
    """Useless Hellos, old messages among forgeries, messages of many frames."""
    with RunningSession(tmp_path / "s", options(rounds=ROUNDS)) as session:
        attacked = Flooded(session)
        attacked.start()
        assert session.until_round("party1", 3)
        attacked.begin(kind, RATE)
        session.wait(LIMIT)
        assert not attacked.names_others()
        assert_undisturbed(session)
