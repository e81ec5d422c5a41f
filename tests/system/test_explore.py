"""All orders of events of small sessions: every promise holds in every state.

`scripts/explore` runs larger cases and says what was covered. A broken promise is printed with
the events that lead to it.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from party.release.masks import Masks, MaskSecret, announcement
from protocol.agreement.model import Agreement
from protocol.session.exchange import RoundBuffer
from protocol.session.handshake import Handshake
from protocol.session.outbox import Outbox
from protocol.session.sealing import Sealing
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from tests.support.builders import make_agreement, sign
from tests.support.explored_party import Players
from tests.support.explorer import Explorer, Found
from tests.support.simulated_disk import Disk


def agreement_of(members: int, rounds: int, *, masked: bool = False) -> Agreement:
    reveal = {"reveal": "totals"} if masked else {}
    return make_agreement(members=members, rounds=rounds, resources=1, **reveal)


# What a member that lies also signs when it sends a message.


def _header(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in ("sender", "agreement", "round", "chain_hash")}


def other_release(signed: Signed) -> list[Signed]:
    """A second release of the same round, with another number."""
    message = signed.message
    if not isinstance(message, Release):
        return []
    return [sign(replace(message, values=tuple(value + 1 for value in message.values)))]


def other_chain_hash(signed: Signed) -> list[Signed]:
    """The same release or seal on another chain hash."""
    if not isinstance(signed.message, Release | Seal):
        return []
    return [sign(replace(signed.message, chain_hash=bytes(32)))]


def early_seal(signed: Signed) -> list[Signed]:
    """A claim that the session is over, beside each release."""
    message = signed.message
    if not isinstance(message, Release):
        return []
    return [sign(Seal(**_header(message), has_all_seals=has_all)) for has_all in (False, True)]


def false_accusation(signed: Signed) -> list[Signed]:
    """A Halt whose evidence proves nothing."""
    message = signed.message
    if not isinstance(message, Release):
        return []
    evidence = (signed.data, signed.data)
    halt = Halt(**_header(message), reason=Reason.EQUIVOCATION, evidence=evidence)
    return [sign(halt)]


def boast(signed: Signed) -> list[Signed]:
    """A Hello that claims to know a release that does not exist."""
    message = signed.message
    if not isinstance(message, Hello):
        return []
    return [sign(replace(message, known_ahead=b"\x02" * 2))]


def other_mask_key(signed: Signed) -> list[Signed]:
    """A second mask key, with a valid proof."""
    message = signed.message
    if not isinstance(message, MaskKey):
        return []
    agreement = agreement_of(3, 1, masked=True)
    secret = MaskSecret(b"\x07" * 32)
    return [sign(announcement(agreement, message.sender, message.chain_hash, secret))]


LIES = (other_release, other_chain_hash, early_seal, false_accusation, boast)


@pytest.mark.parametrize("rounds", [1, 2])
def test_two_parties_keep_every_promise_in_every_order_of_messages(rounds: int) -> None:
    """Whatever is lost, repeated or late: one release a round, one transcript, and an end."""
    assert Explorer(agreement_of(2, rounds)).run()


def test_a_crash_at_any_step_breaks_no_promise() -> None:
    """A party that loses power once, at any step of its disk or between two messages, goes on."""
    assert Explorer(agreement_of(2, 1), crashes=1, greeted=True).run()


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_named_or_changes_nothing(lie: Callable[[Signed], list[Signed]]) -> None:
    """Honest parties finish alike, or stop and name the liar; they never name another member."""
    assert Explorer(agreement_of(2, 1), liar=1, lie=lie, greeted=True).run()


def _never(*_: Any, **__: Any) -> None:
    return None


def _closed_with_one_missing(buffer: RoundBuffer) -> tuple[Signed, ...]:
    if len(buffer.current) < len(buffer._agreement.members) - 1:
        return ()
    return tuple(buffer.current.values())


def _fresh_key(masks: Masks, state: Any) -> Signed:
    secret = MaskSecret(masks._random())
    key = masks._pack(announcement(masks._agreement, masks._member, state.chain_hash, secret))
    masks._ledger.record_mask_key(secret.seed, key)
    return key


def _keep_secret(disk: Disk, seals: tuple[Signed, ...]) -> None:
    disk._write(seals=seals)
    disk.commit()


def _seal_only(outbox: Outbox, _: Signed) -> None:
    outbox.messages = ()


BUGS: dict[str, tuple[type, str, Any, dict[str, Any]]] = {
    "a release leaves without being recorded": (Disk, "record_release", _never, {}),
    "a recorded release is made again": (Disk, "release", _never, {"crashes": 1}),
    "a nonce is used again after a restart": (
        *(Players, "nonce", lambda _, party, __: bytes([party + 1]) * 16),
        {"crashes": 1},
    ),
    "a party does not wait for the answers of its peers": (
        *(Handshake, "complete", property(lambda _: True)),
        {"members": 3},
    ),
    "a round is closed with one release missing": (
        *(RoundBuffer, "complete", _closed_with_one_missing),
        {},
    ),
    "a session ends with one seal missing": (
        *(Sealing, "everyone_sealed", property(lambda s: len(s.seals) >= len(s._names) - 1)),
        {},
    ),
    "seals are not recorded": (Disk, "record_seals", _never, {}),
    "nothing is sent again": (Outbox, "add", _seal_only, {}),
    "different chain hashes are not noticed": (
        *(RoundBuffer, "diverges", lambda *_: False),
        {"members": 3, "greeted": True, "liar": 1, "lie": other_release},
    ),
    "a mask key is made again after a crash": (
        *(Masks, "key", _fresh_key),
        {"members": 3, "masked": True, "greeted": True, "crashes": 1},
    ),
    "the mask secret survives the seals": (
        *(Disk, "record_seals", _keep_secret),
        {"members": 3, "masked": True, "greeted": True},
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_exploration_finds_a_seeded_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with this bug breaks a promise within the bounds of the exploration."""
    where, name, replacement, bounds = BUGS[bug]
    monkeypatch.setattr(where, name, replacement)
    members, masked = bounds.get("members", 2), bounds.get("masked", False)
    more = {key: value for key, value in bounds.items() if key not in ("members", "masked")}
    with pytest.raises(Found):
        Explorer(agreement_of(members, 1, masked=masked), **more).run()


def main() -> int:
    """Explore one case and say what was covered."""
    parser = argparse.ArgumentParser(
        prog="scripts/explore",
        description=(
            "Play every order of deliveries, losses, repetitions and crashes of a small session, "
            "with the real code of its parties. Without --liar every state must also lead to the "
            "end once nothing is lost. Example: scripts/explore --members 2 --rounds 2 --crashes 1"
        ),
    )
    parser.add_argument("--members", type=int, default=2, help="how many parties (default: 2)")
    parser.add_argument("--rounds", type=int, default=1, help="how many rounds (default: 1)")
    parser.add_argument("--crashes", type=int, default=0, help="losses of power (default: 0)")
    parser.add_argument("--masked", action="store_true", help="mask keys and masked releases")
    parser.add_argument(
        "--greeted",
        action="store_true",
        help="begin after a handshake whose Hellos have arrived and do not come again",
    )
    parser.add_argument(
        *("--liar",),
        choices=[lie.__name__.replace("_", "-") for lie in LIES],
        help="the last member also signs this lie (default: all are honest)",
    )
    parser.add_argument(
        *("--most",),
        type=int,
        default=5_000_000,
        help="give up after this number of states (default: 5,000,000)",
    )
    options = parser.parse_args()
    lies = {lie.__name__.replace("_", "-"): lie for lie in LIES}
    liar = {"liar": options.members - 1, "lie": lies[options.liar]} if options.liar else {}
    explorer = Explorer(
        agreement_of(options.members, options.rounds, masked=options.masked),
        crashes=options.crashes,
        greeted=options.greeted,
        **liar,
    )
    began = time.process_time()
    try:
        done = explorer.run(most_states=options.most)
    except Found as found:
        print(found)
        return 1
    print(
        f"{'all' if done else 'the first'} {explorer.states:,} states, at most {explorer.depth} "
        f"events deep; {len(explorer.players.locals):,} states of single parties, "
        f"{explorer.players.played:,} events played, {len(explorer.players.messages):,} messages; "
        f"{time.process_time() - began:.0f} s of processor time; nothing violated"
    )
    return 0 if done else 3


if __name__ == "__main__":
    sys.exit(main())
