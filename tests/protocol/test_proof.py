"""What proves that a member broke the rules, and what does not."""

import pytest

from protocol.effects import Fail
from protocol.errors import BrokenInvariant, Equivocation, PeerHalted, Unavailable
from protocol.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from protocol.proof import ENVELOPE_BYTES, clash, fits, opened
from protocol.wire import Reader, longest
from tests.kit.builders import make_agreement, sign
from tests.kit.story import forged

AGREEMENT = make_agreement(members=3)
HERE, ELSEWHERE, NONE = bytes(32), b"x" * 32, b""


def said(kind: type[Message], head: bytes, *, sender: str = "ben", round: int = 1) -> Signed:  # noqa: A002
    """A message of some kind that stands on a head."""
    body: dict[type[Message], dict[str, object]] = {
        Hello: {"nonce": bytes(16), "asking": False, "recorded": 0, "met": bytes(32)},
        Release: {"values": (1, 2)},
        Seal: {"complete": False},
        Halt: {"reason": Reason.HEADS_DIFFER, "evidence": ()},
        MaskKey: {"key": bytes(32), "proof": bytes(64)},
    }
    common = {"sender": sender, "agreement": AGREEMENT.digest, "round": round, "head": head}
    return sign(kind(**common, **body[kind]))  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [Release, Seal, Halt])
@pytest.mark.parametrize("other", [Release, Seal, Halt])
def test_nobody_honest_stands_on_two_heads_in_one_round(
    one: type[Message], other: type[Message]
) -> None:
    """Whatever two messages say so contradict each other; on one head they do not."""
    assert clash(said(one, HERE), said(other, ELSEWHERE), NONE)
    assert not clash(said(one, HERE), said(other, HERE), NONE)


@pytest.mark.parametrize("kind", [Release, Seal, Halt])
def test_two_senders_or_two_rounds_contradict_nothing(kind: type[Message]) -> None:
    """Different heads are no fault of one member."""
    assert not clash(said(kind, HERE), said(kind, ELSEWHERE, sender="cyd"), NONE)
    assert not clash(said(kind, HERE), said(kind, ELSEWHERE, round=2), NONE)


@pytest.mark.parametrize("kind", [Release, Seal, Halt, Hello])
def test_hellos_are_no_promise(kind: type[Message]) -> None:
    """Where somebody greeted from is held against nobody."""
    assert not clash(said(Hello, HERE), said(kind, ELSEWHERE), NONE)
    assert not clash(said(kind, HERE), said(Hello, ELSEWHERE), NONE)


@pytest.mark.parametrize("before", [MaskKey, Halt])
@pytest.mark.parametrize("after", [Release, Halt, Seal])
def test_before_the_first_round_another_head_is_right(
    before: type[Message], after: type[Message]
) -> None:
    """Mask keys, and Halts beside them, stand on the head below the first round's."""
    early, late = said(before, HERE, round=0), said(after, ELSEWHERE, round=0)
    assert not clash(early, late, HERE)
    assert clash(said(after, HERE, round=0), late, HERE) == (after is not Halt)


def test_two_mask_keys_of_one_member_contradict_each_other() -> None:
    """Whatever differs between them."""
    key = said(MaskKey, HERE, round=0)
    assert clash(key, forged(key, key=b"y" * 32), HERE)
    assert clash(key, said(MaskKey, ELSEWHERE, round=0), HERE)
    assert not clash(key, said(MaskKey, HERE, round=0), HERE)


def test_two_halts_that_show_different_things_are_no_lie() -> None:
    """Only releases must be the same to the last number."""
    shown = said(Release, HERE)
    halt = Halt(
        sender="ben",
        agreement=AGREEMENT.digest,
        round=1,
        head=HERE,
        reason=Reason.EQUIVOCATION,
        evidence=(shown.data, b"nothing", forged(shown, values=(3, 4)).data),
    )
    assert not clash(sign(halt), said(Halt, HERE), NONE)
    assert opened(Reader(AGREEMENT), halt) == (shown,), "what cannot be read accuses nobody"


def test_what_fits_can_be_shown() -> None:
    """The room that is left for an envelope is enough for one, however long the messages are."""
    most = longest(AGREEMENT)
    for length in range(1, most):
        evidence = (Signed(said(Seal, HERE).message, bytes(length)),)
        if not fits(evidence, most):
            break
        halt = Halt(
            sender="ben",
            agreement=AGREEMENT.digest,
            round=2**32 - 1,
            head=HERE,
            reason=Reason.EQUIVOCATION,
            evidence=tuple(signed.data for signed in evidence),
        )
        assert len(sign(halt).data) <= most
    assert length > most - ENVELOPE_BYTES - 10


@pytest.mark.parametrize(
    "error",
    [Unavailable("nobody"), PeerHalted("no proof", sender="ben"), Equivocation("x", sender="ben")],
)
def test_nothing_is_final_without_proof(error: Unavailable | PeerHalted) -> None:
    """Whoever would say so breaks a promise of the program to itself."""
    assert not Fail(error, final=False).final
    with pytest.raises(BrokenInvariant, match="without proof"):
        Fail(error, final=True)
