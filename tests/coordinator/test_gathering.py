"""What a relay keeps back, and for how long: all of it goes out, once for each time it came."""

import random
from collections import Counter

from coordinator.gathering import EXCHANGES, Gathering
from protocol.messages import MaskKey, Release, Seal
from protocol.timers import first_wait
from protocol.wire import glance, longest
from tests.kit.builders import make_agreement, sign

AGREEMENT = make_agreement(members=4, rounds=20)
NAMES = [m.name for m in AGREEMENT.members]
HOLD = 0.5 * first_wait(AGREEMENT)


def release(sender: str, number: int, value: int = 0) -> bytes:
    return sign(
        Release(
            sender=sender,
            agreement=AGREEMENT.digest,
            round=number,
            head=bytes(32),
            values=(value,) * AGREEMENT.width,
        )
    ).data


class Relay:
    """Hears messages at times, and remembers what it passed on together."""

    def __init__(self) -> None:
        self.gathering = Gathering(AGREEMENT)
        self.passed: list[list[bytes]] = []

    def hears(self, data: bytes, now: float) -> list[bytes]:
        return self._note(self.gathering.hear(glance(data), data, now))

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
    """Hellos, halts and whatever is no message."""
    relay = Relay()
    assert relay.hears(b"anything", 0.0) == [b"anything"]
    seal = Seal(sender="ada", agreement=AGREEMENT.digest, round=20, head=bytes(32), complete=False)
    assert relay.hears(sign(seal).data, 0.0) == [], "but seals are gathered"


def test_what_has_another_length_than_it_claims_is_not_kept() -> None:
    """A member that says long things in the name of all cannot fill the relay with them."""
    relay = Relay()
    for name in NAMES:
        data = release(name, 0)
        swollen = data + bytes(longest(AGREEMENT) - len(data))
        assert relay.hears(swollen, 0.0) == [swollen]
    assert relay.gathering.deadline is None
    key = MaskKey(
        sender="ada",
        agreement=AGREEMENT.digest,
        round=0,
        head=bytes(32),
        key=bytes(32),
        proof=bytes(64),
    )
    seal = Seal(sender="ada", agreement=AGREEMENT.digest, round=20, head=bytes(32), complete=True)
    for said in (release("ada", 0), sign(key).data, sign(seal).data):
        assert relay.hears(said, 0.0) == [], "what is as long as it should be is gathered"


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
