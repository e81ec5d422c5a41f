"""Which peers run, which have answered this start, and what our Hellos contain."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from protocol.errors import DifferentAgreement
from protocol.session.exchange import RoundBuffer
from protocol.session.handshake import Handshake
from protocol.wire.messages import NO_NONCE, Hello
from tests.support.builders import make_agreement, play, sign
from tests.support.session_harness import NONCE

AGREEMENT = make_agreement(members=3)
VECTORS = Path(__file__).parents[2] / "reference" / "vectors" / "messages.json"


@pytest.fixture
def handshake() -> Handshake:
    return Handshake(AGREEMENT, "ada", NONCE["ada"], recorded=2)


def hello(
    sender: str,
    *,
    nonce: bytes | None = None,
    echo: bytes = NO_NONCE,
    nonce_digest: bytes = bytes(32),
    wants_reply: bool = True,
    agreement: bytes = AGREEMENT.digest,
) -> Hello:
    return Hello(
        sender=sender,
        agreement=agreement,
        round=0,
        chain_hash=bytes(32),
        nonce=NONCE[sender] if nonce is None else nonce,
        wants_reply=wants_reply,
        recorded=0,
        nonce_digest=nonce_digest,
        echo=echo,
    )


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text(encoding="utf-8"))["met"])
def test_the_digest_is_that_of_the_vectors(vector: dict[str, list[str] | str]) -> None:
    """Nonces in roster order, zeros for peers that are not met."""
    ada, *others = (bytes.fromhex(nonce) for nonce in vector["nonces"])
    handshake = Handshake(AGREEMENT, "ada", ada)
    for name, nonce in zip(("ben", "cyd"), others, strict=True):
        handshake.meet(hello(name, nonce=nonce), repeating=True)
    assert handshake.nonce_digest.hex() == vector["met"]


def test_zeros_are_not_a_nonce(handshake: Handshake) -> None:
    """A peer that sends them after its own nonce is not counted twice."""
    for _ in range(2):
        handshake.meet(hello("ben"), repeating=True)
        assert not handshake.meet(hello("ben", nonce=NO_NONCE), repeating=True).new_nonce
    assert not handshake.all_met
    handshake.meet(hello("cyd"), repeating=True)
    assert handshake.all_met


def test_a_restarted_peer_is_new_but_not_first(handshake: Handshake) -> None:
    """Its second nonce replaces the first."""
    assert handshake.meet(hello("ben"), repeating=True)[:2] == (True, True)
    assert handshake.meet(hello("ben"), repeating=True)[:2] == (False, False)
    assert handshake.meet(hello("ben", nonce=b"!" * 16), repeating=True)[:2] == (False, True)


@pytest.mark.parametrize("repeating", [True, False])
def test_a_peer_with_the_digest_of_our_last_hello_needs_no_reply(
    handshake: Handshake, repeating: bool
) -> None:
    """But only while we repeat that Hello anyway."""
    sent = handshake.compose(wants_reply=True, known_ahead=b"")
    informed = hello("ben", nonce_digest=sent["nonce_digest"])
    assert handshake.meet(informed, repeating=repeating).needs_reply is not repeating


def test_our_hello_echoes_the_peer_that_waited_longest(handshake: Handshake) -> None:
    """One peer in each Hello, and none whose digest equals ours."""
    for name in ("cyd", "ben"):
        handshake.meet(hello(name), repeating=False)
    echoes = [handshake.compose(wants_reply=False, known_ahead=b"")["echo"] for _ in range(3)]
    assert echoes == [NONCE["cyd"], NONCE["ben"], NO_NONCE]


def test_counts_of_zero_are_left_out_of_a_hello(handshake: Handshake) -> None:
    """`known_ahead` is empty or has a count above zero."""
    assert handshake.compose(wants_reply=True, known_ahead=bytes(3))["known_ahead"] == b""
    assert handshake.compose(wants_reply=True, known_ahead=b"\0\1\0")["known_ahead"] == b"\0\1\0"


def test_a_kept_hello_is_verified_when_its_nonces_are_known(handshake: Handshake) -> None:
    """The digest of ben covers a nonce of cyd that arrives later."""
    later = Handshake(AGREEMENT, "ada", NONCE["ada"])
    for name in ("ben", "cyd"):
        later.meet(hello(name), repeating=True)
    early = hello("ben", nonce_digest=later.nonce_digest)
    handshake.meet(early, repeating=True)
    assert handshake.verify(sign(early), new_nonce=True) == []
    cyd = hello("cyd")
    handshake.meet(cyd, repeating=True)
    assert handshake.verify(sign(cyd), new_nonce=True) == [(sign(early), early)]
    assert handshake.unverified_hellos.keys() == {"cyd"}


def test_every_peer_must_answer_once(handshake: Handshake) -> None:
    """A repeated answer is not new."""
    assert handshake.accept("ben")
    assert not handshake.accept("ben")
    assert not handshake.complete
    assert handshake.accept("cyd")
    assert handshake.complete


def test_a_stale_claim_takes_back_an_answer_and_warns_once(handshake: Handshake) -> None:
    """The warning has both counts."""
    handshake.accept("ben")
    warning = handshake.doubt("ben", 3)
    assert warning is not None
    assert "claims to know 3 releases of 'ada', but this ledger holds 2" in warning
    assert handshake.doubt("ben", 3) is None
    assert handshake.answered == set()


def test_another_agreement_is_a_warning_until_most_peers_have_one() -> None:
    """The warning comes once for each agreement of a peer."""
    handshake = Handshake(make_agreement(members=4), "ada", NONCE["ada"])
    other = {"agreement": bytes(32), "echo": NONCE["ada"]}
    first = handshake.reject(hello("ben", **other))  # type: ignore[arg-type]
    assert isinstance(first, str)
    assert "waiting until 'ben' joins with ours" in first
    assert handshake.reject(hello("ben", **other)) is None  # type: ignore[arg-type]
    second = handshake.reject(hello("cyd", **other))  # type: ignore[arg-type]
    assert isinstance(second, DifferentAgreement)
    assert second.sender == "cyd"


def test_another_agreement_counts_only_in_answer_to_this_start(handshake: Handshake) -> None:
    """An old Hello of another agreement is ignored."""
    assert handshake.reject(hello("ben", agreement=bytes(32))) is None
    assert handshake.other_agreements == {}


def test_an_answer_with_our_agreement_settles_the_difference(handshake: Handshake) -> None:
    """A peer may come back with the right file."""
    handshake.other_agreements["ben"] = bytes(32)
    handshake.accept("ben")
    assert handshake.other_agreements == {}


@pytest.mark.parametrize(("recorded", "found"), [(0, True), (1, False)])
def test_a_peer_gets_back_the_newest_message_that_its_ledger_lacks(
    handshake: Handshake, recorded: int, found: bool
) -> None:
    """Once, with our next Hello."""
    transcript, states = play(AGREEMENT)
    buffer = RoundBuffer(AGREEMENT, "ada", states[0].chain_hash)
    release = transcript.rounds[0][1]
    buffer.add(release)
    handshake.find_lost(replace(hello("ben"), recorded=recorded), buffer)
    assert handshake.take_lost() == ((release,) if found else ())
    assert handshake.take_lost() == ()
