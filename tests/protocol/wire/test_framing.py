"""Several messages in one frame: they come out as they went in, and nothing else does."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.wire.codec import SHORTEST_BYTES, max_message_bytes
from protocol.wire.framing import Batches
from tests.reference import codec as reading
from tests.support.builders import make_agreement

AGREEMENT = make_agreement(members=5, resources=2)
BATCHES = Batches(AGREEMENT)
LIMIT = max_message_bytes(AGREEMENT)

messages = st.binary(min_size=SHORTEST_BYTES, max_size=LIMIT - 5).map(lambda data: b"\x97" + data)


@given(said=st.lists(messages, max_size=12))
def test_what_goes_into_frames_comes_out_in_order(said: list[bytes]) -> None:
    """However many and long they are, no frame is longer than a message may be."""
    frames = BATCHES.frames(said)
    assert [data for frame in frames for data in BATCHES.messages(frame)] == said
    assert all(len(frame) <= LIMIT for frame in frames)
    assert [data for frame in frames for data in reading.unbatched(frame)] == said


def test_a_round_is_one_frame_and_one_message_stays_as_it_is() -> None:
    """K releases travel together; what is alone has nothing around it."""
    said = [bytes([0x97, k]) * 100 for k in range(5)]
    assert BATCHES.frames(said) == [reading.batch(said)]
    assert BATCHES.frames(said[:1]) == said[:1]
    assert BATCHES.frames([]) == []


@given(said=st.lists(messages | st.binary(max_size=SHORTEST_BYTES - 1), max_size=12))
def test_a_crumb_takes_no_message_with_it(said: list[bytes]) -> None:
    """What a member says that is no message travels alone, and what others say arrives."""
    frames = BATCHES.frames(said)
    heard = [data for frame in frames for data in BATCHES.messages(frame)]
    whole = [data for data in said if len(data) >= SHORTEST_BYTES]
    assert [data for data in heard if len(data) >= SHORTEST_BYTES] == whole
    crumbs = [data for data in said if len(data) < SHORTEST_BYTES]
    assert [frame for frame in frames if len(frame) < SHORTEST_BYTES] == crumbs


GOOD = reading.batch([b"\x97" * SHORTEST_BYTES] * 2)
WRONG = {
    "cut off in a message": GOOD[:-1],
    "cut off in a length": GOOD + b"\0\0",
    "a length beyond the end": GOOD + struct.pack(">I", 2**32 - 1) + b"\x97" * 200,
    "more messages than members": reading.batch([b"\x97" * SHORTEST_BYTES] * 6),
    "crumbs": reading.batch([b"\x97"] * 3),
    "one crumb among messages": reading.batch([b"\x97" * 200, b"", b"\x97" * 200]),
    "zeros": bytes(LIMIT),
}


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_batch_is_dropped_whole(frame: bytes) -> None:
    """Nothing of it is looked at: many crumbs cost no more than one message."""
    assert len(BATCHES.messages(GOOD)) == 2
    assert BATCHES.messages(frame) == []


@given(frame=st.binary(max_size=2_000).map(lambda data: b"\0" + data))
def test_any_bytes_are_a_batch_or_nothing(frame: bytes) -> None:
    """Whatever a relay sends, what comes out fits the limits."""
    found = BATCHES.messages(frame)
    assert len(found) <= 5
    assert all(len(data) >= SHORTEST_BYTES for data in found)
    assert found == [] or reading.batch(found) == frame
