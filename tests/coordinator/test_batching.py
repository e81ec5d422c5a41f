"""What a relay holds back, and for how long: everything goes out, and soon."""

import random
from collections import Counter
from typing import Any

from coordinator.batching import Batching
from coordinator.collector import RoundCollector
from protocol.agreement.timing import first_wait
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from tests.support.builders import make_agreement, sign

AGREEMENT = make_agreement(members=4, rounds=20)
NAMES = [m.name for m in AGREEMENT.members]
HOLD = 0.5 * first_wait(AGREEMENT)


def release(sender: str, number: int, value: int = 0) -> Signed:
    return sign(
        Release(
            sender=sender,
            agreement=AGREEMENT.digest,
            round=number,
            chain_hash=bytes(32),
            values=(value,) * AGREEMENT.width,
        )
    )


def releases(number: int) -> list[Signed]:
    return [release(name, number) for name in NAMES]


def bytes_of(messages: list[Signed]) -> list[bytes]:
    return [signed.data for signed in messages]


class Relay:
    """Receives messages at given times, and remembers what it passed on."""

    def __init__(self) -> None:
        self.batching = Batching(AGREEMENT)
        self.collector = RoundCollector(AGREEMENT)
        self.passed: list[bytes] = []

    def receive(self, signed: Signed, now: float, *, owner: str = "") -> list[bytes]:
        """`owner` is the member whose connection brings the message: its sender by default."""
        collected = self.collector.collect(signed, now)
        owner = owner or signed.message.sender
        return self._note(self.batching.add(signed, owner, collected, now))

    def wait(self, now: float) -> list[bytes]:
        return self._note(self.batching.due(now))

    def _note(self, released: list[bytes]) -> list[bytes]:
        self.passed += released
        return released


def test_a_round_goes_out_when_all_members_have_released() -> None:
    """Nothing before the last release, and then all of them together."""
    relay, sent = Relay(), releases(0)
    assert [relay.receive(signed, 0.0) for signed in sent[:-1]] == [[]] * 3
    assert relay.receive(sent[-1], 0.01) == bytes_of(sent)
    assert relay.batching.deadline is None


def test_a_slow_member_delays_the_others_for_a_moment_only() -> None:
    """What is held goes out without the last release, which then completes the round."""
    relay, sent = Relay(), releases(0)
    for signed in sent[:-1]:
        relay.receive(signed, 1.0)
    assert relay.batching.deadline == 1.0 + HOLD
    assert relay.wait(1.0 + 0.9 * HOLD) == []
    assert relay.wait(1.0 + HOLD) == bytes_of(sent[:-1])
    assert relay.receive(sent[-1], 2.0) == bytes_of(sent[-1:])


def test_a_repeated_message_passes_at_once() -> None:
    """It repairs a loss, unless the first one is still held."""
    relay, sent = Relay(), releases(0)
    relay.receive(sent[0], 0.0)
    assert relay.receive(sent[0], 0.001) == []
    for signed in sent[1:]:
        relay.receive(signed, 0.002)
    assert relay.receive(sent[0], 0.003) == [sent[0].data]
    other = release("ada", 0, value=7)
    assert relay.receive(other, 0.004) == [other.data]


def test_hellos_and_halts_pass_at_once() -> None:
    """Only messages that every member sends once are held."""
    relay = Relay()
    common: dict[str, Any] = {
        "sender": "ada",
        "agreement": AGREEMENT.digest,
        "chain_hash": bytes(32),
        "round": 0,
    }
    hello = Hello(**common, nonce=bytes(16), wants_reply=True, recorded=0, nonce_digest=bytes(32))
    halt = Halt(**common, reason=Reason.HEADS_DIFFER, evidence=())
    for message in (hello, halt):
        assert relay.receive(sign(message), 0.0) == [sign(message).data]


def test_mask_keys_and_seals_are_held() -> None:
    """Every member sends one of each."""
    masked = make_agreement(members=4, rounds=20, reveal="totals")
    for agreement, kind, fields in (
        (masked, MaskKey, {"key": bytes(32), "proof": bytes(64)}),
        (AGREEMENT, Seal, {"has_all_seals": False}),
    ):
        message: Message = kind(
            sender="ada", agreement=agreement.digest, chain_hash=bytes(32), round=0, **fields
        )
        collected = RoundCollector(agreement).collect(sign(message), 0.0)
        assert Batching(agreement).add(sign(message), "ada", collected, 0.0) == []


def test_one_member_cannot_break_up_the_batches_of_others() -> None:
    """Releases of other rounds that one member signs do not send a round out early."""
    relay, sent = Relay(), releases(0)
    relay.receive(sent[0], 0.0)
    for number in range(1, 20):
        relay.receive(release("ben", number), 0.0)
    for signed in sent[1:-1]:
        assert sent[0].data not in relay.receive(signed, 0.0)
    assert set(relay.receive(sent[-1], 0.0)) >= set(bytes_of(sent))


def test_old_releases_of_others_do_not_delay_a_round() -> None:
    """A member that forwards an old release of another does not break up a batch."""
    relay = Relay()
    for signed in (s for number in range(9) for s in releases(number)):
        relay.receive(signed, 0.0)
    sent = releases(9)
    assert relay.receive(sent[0], 1.0) == []
    old = release(NAMES[0], 0)
    assert relay.receive(old, 1.0, owner=NAMES[-1]) == [old.data]
    for signed in sent[1:-1]:
        assert relay.receive(signed, 1.0) == []
    assert relay.receive(sent[-1], 1.0) == bytes_of(sent)


def test_a_forwarded_message_passes_at_once() -> None:
    """The member that it is from may be away, and others may need it now."""
    relay, sent = Relay(), releases(0)
    assert relay.receive(sent[0], 0.0, owner=NAMES[1]) == [sent[0].data]


def test_nothing_is_lost_and_little_is_held() -> None:
    """Random rounds, conflicting and repeated messages: everything goes out in time."""
    chance = random.Random(7)
    for _ in range(50):
        relay, came, now = Relay(), Counter[bytes](), 0.0
        for _ in range(200):
            now += chance.choice((0.0, 0.001, 0.1 * HOLD, HOLD))
            relay.wait(now)
            signed = release(chance.choice(NAMES), chance.randrange(9), chance.randrange(2))
            came[signed.data] += 1
            relay.receive(signed, now)
            assert len(relay.batching._held) <= len(NAMES)
            assert (relay.batching.deadline or 0.0) <= now + HOLD
            assert bool(relay.batching._held) == (relay.batching.deadline is not None)
        relay.wait(now + HOLD)
        went = Counter(relay.passed)
        assert went.keys() == came.keys()
        assert all(went[data] <= count for data, count in came.items())
