"""Several messages in one frame come out as they went in, and invalid frames are dropped."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.wire.codec import SHORTEST_BYTES, max_message_bytes
from protocol.wire.framing import Batches
from tests.reference import codec as reference
from tests.support.builders import make_agreement

AGREEMENT = make_agreement(members=5, resources=2)
BATCHES = Batches(AGREEMENT)
LIMIT = max_message_bytes(AGREEMENT)

MESSAGES = st.binary(min_size=SHORTEST_BYTES, max_size=LIMIT - 5).map(lambda data: b"\x97" + data)


@given(messages=st.lists(MESSAGES, max_size=12))
def test_messages_come_out_of_frames_in_order(messages: list[bytes]) -> None:
    """Any messages come back in order, and no frame exceeds the longest message."""
    frames = BATCHES.frames(messages)
    assert [data for frame in frames for data in BATCHES.messages(frame)] == messages
    assert all(len(frame) <= LIMIT for frame in frames)
    assert [data for frame in frames for data in reference.unbatched(frame)] == messages


def test_a_round_is_one_frame_and_a_single_message_is_not_wrapped() -> None:
    """K releases are one batch; a single message is its own frame."""
    messages = [bytes([0x97, k]) * 100 for k in range(5)]
    assert BATCHES.frames(messages) == [reference.batch(messages)]
    assert BATCHES.frames(messages[:1]) == messages[:1]
    assert BATCHES.frames([]) == []


@given(sent=st.lists(MESSAGES | st.binary(max_size=SHORTEST_BYTES - 1), max_size=12))
def test_bytes_too_short_for_a_message_spoil_no_batch(sent: list[bytes]) -> None:
    """Short bytes of one member get their own frame, and the messages of others arrive."""
    frames = BATCHES.frames(sent)
    received = [data for frame in frames for data in BATCHES.messages(frame)]
    messages = [data for data in sent if len(data) >= SHORTEST_BYTES]
    assert [data for data in received if len(data) >= SHORTEST_BYTES] == messages
    short = [data for data in sent if len(data) < SHORTEST_BYTES]
    assert [frame for frame in frames if len(frame) < SHORTEST_BYTES] == short


GOOD = reference.batch([b"\x97" * SHORTEST_BYTES] * 2)
WRONG = {
    "cut off in a message": GOOD[:-1],
    "cut off in a length": GOOD + b"\0\0",
    "a length beyond the end": GOOD + struct.pack(">I", 2**32 - 1) + b"\x97" * 200,
    "more messages than members": reference.batch([b"\x97" * SHORTEST_BYTES] * 6),
    "short messages": reference.batch([b"\x97"] * 3),
    "one short message among others": reference.batch([b"\x97" * 200, b"", b"\x97" * 200]),
    "zeros": bytes(LIMIT),
}


@pytest.mark.parametrize("frame", WRONG.values(), ids=WRONG.keys())
def test_an_invalid_batch_is_dropped_as_a_whole(frame: bytes) -> None:
    """No message of an invalid batch is read."""
    assert len(BATCHES.messages(GOOD)) == 2
    assert BATCHES.messages(frame) == []


@given(frame=st.binary(max_size=2_000).map(lambda data: b"\0" + data))
def test_random_frames_stay_within_the_limits(frame: bytes) -> None:
    """Any frame gives at most K messages, none of them too short."""
    found = BATCHES.messages(frame)
    assert len(found) <= 5
    assert all(len(data) >= SHORTEST_BYTES for data in found)
    assert found == [] or reference.batch(found) == frame
