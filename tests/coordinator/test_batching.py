"""What a relay keeps back, and for how long: all of it goes out, once for each time it came."""

import random
from collections import Counter
from typing import Any

from coordinator.batching import EXCHANGES, Batching
from protocol.agreement.timing import first_wait
from protocol.wire.codec import Reader
from protocol.wire.messages import Halt, Hello, MaskKey, Reason, Release, Seal
from tests.support.builders import make_agreement, sign

AGREEMENT = make_agreement(members=4, rounds=20)
NAMES = [m.name for m in AGREEMENT.members]
READER = Reader(AGREEMENT)
HOLD = 0.5 * first_wait(AGREEMENT)


def release(sender: str, number: int, value: int = 0) -> bytes:
    return sign(
        Release(
            sender=sender,
            agreement=AGREEMENT.digest,
            round=number,
            chain_hash=bytes(32),
            values=(value,) * AGREEMENT.width,
        )
    ).data


class Relay:
    """Hears messages at times, and remembers what it passed on together."""

    def __init__(self) -> None:
        self.gathering = Batching(AGREEMENT)
        self.passed: list[list[bytes]] = []

    def hears(self, data: bytes, now: float, *, owner: str = "") -> list[bytes]:
        """`owner` is whose connection brings it: the sender's own unless told."""
        signed = READER.unpack(data)
        return self._note(self.gathering.hear(signed, owner or signed.message.sender, now))

    def waits(self, now: float) -> list[bytes]:
        return self._note(self.gathering.due(now))

    def _note(self, released: list[bytes]) -> list[bytes]:
        self.passed += [released] if released else []
        return released


def test_a_round_goes_out_when_all_have_spoken() -> None:
    """Nothing before the last release, and then all of them together."""
    relay, said = Relay(), [release(name, 0) for name in NAMES]
    assert [relay.hears(data, 0.0) for data in said[:-1]] == [[]] * 3
    assert relay.hears(said[-1], 0.01) == said
    assert relay.gathering.deadline is None


def test_who_is_slow_keeps_the_others_waiting_for_a_moment_only() -> None:
    """What has been gathered goes out without the last, which then goes out alone."""
    relay, said = Relay(), [release(name, 0) for name in NAMES]
    for data in said[:-1]:
        relay.hears(data, 1.0)
    assert relay.gathering.deadline == 1.0 + HOLD
    assert relay.waits(1.0 + 0.9 * HOLD) == []
    assert relay.waits(1.0 + HOLD) == said[:-1]
    assert relay.hears(said[-1], 2.0) == said[-1:]


def test_what_is_said_again_waits_for_nobody() -> None:
    """A repetition repairs a loss: it passes at once, unless the first is still on its way."""
    relay, said = Relay(), [release(name, 0) for name in NAMES]
    relay.hears(said[0], 0.0)
    assert relay.hears(said[0], 0.001) == []
    for data in said[1:]:
        relay.hears(data, 0.002)
    assert relay.hears(said[0], 0.003) == [said[0]]
    assert relay.hears(release("ada", 0, value=7), 0.004) == [release("ada", 0, value=7)]


def test_what_is_not_said_by_all_in_a_round_passes_at_once() -> None:
    """Hellos and halts are passed on at once; mask keys and seals are gathered."""
    relay = Relay()
    common: dict[str, Any] = {
        "sender": "ada",
        "agreement": AGREEMENT.digest,
        "chain_hash": bytes(32),
    }
    greeting = Hello(
        **common, round=0, nonce=bytes(16), wants_reply=True, recorded=0, nonce_digest=bytes(32)
    )
    halt = Halt(**common, round=0, reason=Reason.HEADS_DIFFER, evidence=())
    for message in (greeting, halt):
        assert relay.hears(sign(message).data, 0.0) == [sign(message).data]
    seal = Seal(**common, round=20, has_all_seals=False)
    assert relay.hears(sign(seal).data, 0.0) == []
    key = MaskKey(**common, round=0, key=bytes(32), proof=bytes(64))
    assert Batching(AGREEMENT).hear(sign(key), key.sender, 0.0) == []


def test_one_member_cannot_break_up_the_batches_of_others() -> None:
    """Releases of other rounds that one member signs do not send a round out before its time."""
    relay, said = Relay(), [release(name, 5) for name in NAMES]
    relay.hears(said[0], 0.0)
    for number in (*range(6, 20), *range(5)):
        relay.hears(release("ben", number), 0.0)
    for data in said[1:-1]:
        assert said[0] not in relay.hears(data, 0.0)
    assert set(relay.hears(said[-1], 0.0)) >= set(said)


def test_old_releases_of_others_do_not_hold_up_a_round() -> None:
    """A member that sends old releases of another again, in between, does not break up a batch."""
    relay = Relay()
    for number in range(EXCHANGES + 1):
        for name in NAMES:
            relay.hears(release(name, number), 0.0)
    said = [release(name, 9) for name in NAMES]
    assert relay.hears(said[0], 1.0) == []
    old = release(NAMES[0], 0)
    assert relay.hears(old, 1.0, owner=NAMES[-1]) == [old]
    for data in said[1:-1]:
        assert relay.hears(data, 1.0) == []
    assert relay.hears(said[-1], 1.0) == said


def test_nothing_is_lost_and_little_is_kept_whatever_is_said() -> None:
    """Rounds at random, liars, repetitions: all that came in goes out within the time."""
    chance = random.Random(7)
    for _ in range(50):
        relay, came, now = Relay(), Counter[bytes](), 0.0
        for _ in range(200):
            now += chance.choice((0.0, 0.001, 0.1 * HOLD, HOLD))
            relay.waits(now)
            data = release(chance.choice(NAMES), chance.randrange(9), chance.randrange(2))
            came[data] += 1
            relay.hears(data, now)
            held = [e for e in relay.gathering._exchanges.values() if e.held]
            assert len(held) <= EXCHANGES
            assert sum(len(e.held) for e in held) <= EXCHANGES * len(NAMES)
            assert all(e.until <= now + HOLD for e in held)
        relay.waits(now + HOLD)
        went = Counter(data for batch in relay.passed for data in batch)
        assert went.keys() == came.keys()
        assert all(went[data] <= count for data, count in came.items())
