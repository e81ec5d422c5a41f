"""Who is here and who has left, as a relay tells it to parties."""

import time

import pytest

from protocol.runtime.presence import MARK, Presence, clock_text, merged, state_text, unpacked
from protocol.wire.framing import Batches
from tests.support.builders import make_agreement, play

NAMES = ("ada", "ben", "cyd")


def observed() -> Presence:
    """ada is here, ben has left after 100 s, cyd was never here."""
    presence = Presence(NAMES)
    presence.arrived("ada")
    presence.arrived("ben")
    presence.left("ben", 100.0)
    presence.left("cyd", 100.0)
    return presence


def test_parties_read_what_the_relay_knows() -> None:
    """Who is here, who left and when, and who was never here."""
    away = unpacked(NAMES, observed().packed(160.0))
    assert away is not None
    assert set(away) == {"ben", "cyd"}
    assert away["cyd"] is None
    left = away["ben"]
    assert left is not None
    assert left == pytest.approx(time.time() - 60.0, abs=30.0)
    assert state_text(away, "ada") == "here"
    assert state_text(away, "ben") == f"away since {clock_text(left)}"
    assert state_text(away, "cyd") == "not seen yet"


def test_a_relay_that_starts_again_makes_no_member_a_newcomer() -> None:
    """Who was here before and has not come back is away, not one that never came."""
    before = {"ben": 50.0, "cyd": None}
    found = merged(before, {"ada": None, "ben": None, "cyd": None})
    assert found is not None
    assert state_text(found, "ada") == f"away since {clock_text(time.time())}"
    assert (found["ben"], found["cyd"]) == (50.0, None)
    assert merged(found, {"ben": 70.0, "cyd": None}) == {"ben": 70.0, "cyd": None}
    assert merged(None, {"ada": None}) == {"ada": None}
    assert merged(found, None) == found, "a frame that says nothing changes nothing"


@pytest.mark.parametrize("frame", [b"", MARK, MARK + bytes(11), MARK + bytes(13), bytes(13)])
def test_other_bytes_say_nothing(frame: bytes) -> None:
    """A relay that sends other frames changes nothing and ends nothing."""
    assert unpacked(NAMES, frame) is None


def test_no_message_looks_like_such_a_frame() -> None:
    """A relay passes on messages and batches only, so no member can send one through it."""
    agreement = make_agreement()
    releases = [signed.data for signed in play(agreement)[0].rounds[0]]
    assert all(data[:1] != MARK for data in (*releases, *Batches(agreement).frames(releases)))


def test_a_date_stands_beside_a_time_of_another_day() -> None:
    """A wait may last for days."""
    assert clock_text(time.time()).count(":") == 1
    assert " on " not in clock_text(time.time())
    assert " on " in clock_text(time.time() - 2 * 86_400.0)


def test_a_snapshot_changes_when_a_member_comes_or_leaves() -> None:
    """So a relay tells parties also of a member that came and left before it told them."""
    presence = Presence(("ada", "ben"))
    seen = [presence.snapshot]
    presence.arrived("ada")
    seen.append(presence.snapshot)
    presence.left("ada", 1.0)
    seen.append(presence.snapshot)
    assert len(set(seen)) == 3
    presence.left("ben", 2.0)  # it was never here
    assert presence.snapshot == seen[-1]
