"""One party's session for tests: events as methods, effects as short lines of text.

The session is the real one. Peers exist only as the messages that a test delivers.
"""

from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.timing import RESEND_SECONDS
from protocol.errors import PeerError, SottoError
from protocol.rounds import RoundEngine, RoundState
from protocol.session.effects import Effect, Fail, Finish, Leave, Record, Respond, Send, Warn
from protocol.session.machine import Session
from protocol.wire.messages import (
    NO_NONCE,
    Commitment,
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, play, release_at, sign, signer

NONCE = {name: name[0].encode() * 16 for name in ("ada", "ben", "cyd", "dan")}
FIRST, LONGEST = RESEND_SECONDS
PATIENCE = 120.0


def brief(effect: Effect, me: str) -> str:
    """An effect in a few words. A message of another member is shown with its name."""
    if isinstance(effect, Send):
        message = effect.signed.message
        what = f"{type(message).__name__.lower()} {message.round}"
        if message.sender != me:
            what = f"{message.sender}'s {what}"
        if isinstance(message, Hello) and message.wants_reply:
            what = f"asking {what}"
        if isinstance(message, Seal) and message.has_all_seals:
            what = f"complete {what}"
        if isinstance(message, Halt):
            what += f" {message.reason.name} showing {len(message.evidence)}"
        return f"send {what}"
    if isinstance(effect, Respond):
        return f"respond {effect.state.round}"
    if isinstance(effect, Record):
        once = {MaskKey: "keys", Commitment: "commitments"}
        return f"record {once.get(effect.kind, effect.round)}"
    if isinstance(effect, Finish):
        return f"finish {effect.state.round}"
    if isinstance(effect, Fail):
        named = f" {effect.error.sender}" if isinstance(effect.error, PeerError) else ""
        return f"fail{' for good' * effect.final}: {type(effect.error).__name__}{named}"
    if isinstance(effect, Warn):
        return "warn"
    assert isinstance(effect, Leave)
    return "leave"


def ending_early() -> Agreement:
    """An agreement of nine rounds that ends after the first three that `play` gives."""
    return make_agreement(members=3, rounds=9, prices={"step": "center"})


class SessionHarness:
    """One party, with helpers that make the messages of its peers.

    Unless a test says otherwise, all members release what `play` does. So the states of a session
    without faults are known beforehand.
    """

    seen: list["SessionHarness"]

    def __init__(
        self,
        me: str = "ada",
        *,
        members: int = 3,
        rounds: int = 2,
        agreement: Agreement | None = None,
        closed: int = 0,
        released: int = 0,
        sealed: bool = False,
        witnessed: tuple[Signed, ...] = (),
        proof: tuple[Signed, ...] = (),
    ) -> None:
        self.agreement = agreement or make_agreement(members=members, rounds=rounds)
        self.me = me
        self.now = 1000.0
        self.transcript, self.positions = play(self.agreement)
        row = self.agreement.place(me)
        self.session = Session(
            self.agreement,
            me,
            nonce=NONCE[me],
            pack=signer(me),
            past=Transcript(
                self.transcript.rounds[:closed], self.transcript.seals if sealed else ()
            ),
            own=tuple(r[row] for r in self.transcript.rounds[:released]),
            witnessed=witnessed,
            proof=proof,
            now=self.now,
        )
        self.peers = [m.name for m in self.agreement.members if m.name != me]
        self.sent: list[Signed] = []
        self.effects: list[Effect] = []
        self.seen.append(self)

    # Events

    def begin(self) -> list[str]:
        return self._after(self.session.begin(self.now))

    def receive(self, *messages: Signed | Message) -> list[str]:
        lines = []
        for one in messages:
            signed = one if isinstance(one, Signed) else sign(one)
            lines += self._after(self.session.receive(signed, self.now))
        return lines

    def advance_time(self, seconds: float) -> list[str]:
        """Let time pass, with one tick at the end."""
        self.now += seconds
        return self._after(self.session.tick(self.now))

    def submit(self, values: tuple[int, ...] | None = None) -> list[str]:
        """The gate answers the current prices."""
        release = release_at(self.agreement, self.me, self.session.state, values)
        return self._after(self.session.submit(release, self.now))

    def _after(self, effects: list[Effect]) -> list[str]:
        self.effects += effects
        self.sent += [e.signed for e in effects if isinstance(e, Send)]
        return [brief(e, self.me) for e in effects]

    @property
    def missing(self) -> list[str]:
        return list(self.session.missing)

    @property
    def error(self) -> SottoError:
        return next(e.error for e in reversed(self.effects) if isinstance(e, Fail))

    # Messages of peers

    def hello(
        self,
        sender: str,
        *,
        round: int = 0,  # noqa: A002
        chain_hash: bytes | None = None,
        nonce: bytes | None = None,
        echo: bytes | None = None,
        nonce_digest: bytes | None = None,
        known: int | None = None,
        wants_reply: bool = False,
        agreement: Agreement | None = None,
        has: dict[str, int] | None = None,
    ) -> Hello:
        """A Hello of a peer in a round, which echoes this start unless `echo` is given.

        `known` is how many of our messages the peer knows, `has` how many of other members; its
        own entry there is what its ledger holds. The default is one for each closed exchange.
        """
        theirs = agreement or self.agreement
        at = self.positions[round].chain_hash if chain_hash is None else chain_hash
        # After the mask keys, their exchange is closed too.
        keyed = theirs.masked and (round > 0 or at != RoundEngine(theirs).opening.chain_hash)
        closed = round + keyed
        counts = {self.me: closed if known is None else known, **(has or {})}
        counts.setdefault(sender, closed)
        ahead = bytes(
            max(0, counts.get(m.name, closed) - closed) if m.name != sender else 0
            for m in theirs.members
        )
        return Hello(
            sender=sender,
            agreement=theirs.digest,
            round=round,
            chain_hash=at,
            nonce=NONCE[sender] if nonce is None else nonce,
            wants_reply=wants_reply,
            recorded=counts[sender],
            nonce_digest=bytes(32) if nonce_digest is None else nonce_digest,
            echo=NO_NONCE if nonce_digest else NONCE[self.me] if echo is None else echo,
            known_ahead=ahead if any(ahead) else b"",
        )

    def release(
        self,
        sender: str,
        round: int,  # noqa: A002
        *,
        values: tuple[int, ...] | None = None,
        state: RoundState | None = None,
    ) -> Signed:
        return release_at(self.agreement, sender, state or self.positions[round], values)

    def seal(
        self,
        sender: str,
        *,
        has_all_seals: bool = False,
        chain_hash: bytes | None = None,
        round: int | None = None,  # noqa: A002
    ) -> Seal:
        """The seal of the end, or one that claims an end at another round."""
        last = self.positions[-1 if round is None else round]
        return Seal(
            sender=sender,
            agreement=self.agreement.digest,
            round=last.round,
            chain_hash=last.chain_hash if chain_hash is None else chain_hash,
            has_all_seals=has_all_seals,
        )

    def halt(
        self,
        sender: str,
        round: int,  # noqa: A002
        *evidence: Signed,
        chain_hash: bytes | None = None,
        reason: Reason = Reason.HEADS_DIFFER,
    ) -> Halt:
        return Halt(
            sender=sender,
            agreement=self.agreement.digest,
            round=round,
            chain_hash=self.positions[round].chain_hash if chain_hash is None else chain_hash,
            reason=reason,
            evidence=tuple(signed.data for signed in evidence),
        )

    # Common starts

    def after_handshake(self) -> "SessionHarness":
        """All peers have answered; the gate is asked for the release."""
        self.begin()
        at = self.session.state.round
        self.receive(*(self.hello(peer, round=at) for peer in self.peers))
        return self

    def collecting(self, round: int = 0) -> "SessionHarness":  # noqa: A002
        """The party has sent its release of this round and waits for its peers."""
        self.after_handshake()
        self.submit()
        for closed in range(round):
            self.receive(*(self.release(peer, closed) for peer in self.peers))
            self.submit()
        return self

    def sealing(self) -> "SessionHarness":
        """All rounds are closed and the party has sealed."""
        last = self.positions[-1].round - 1
        self.collecting(last)
        self.receive(*(self.release(peer, last) for peer in self.peers))
        return self

    def finished(self) -> "SessionHarness":
        self.sealing()
        self.receive(*(self.seal(peer) for peer in self.peers))
        return self


def lying(signed: Signed, **changes: object) -> Signed:
    """Another content, signed by the same sender."""
    return sign(replace(signed.message, **changes))


def forged(signed: Signed, **changes: object) -> Signed:
    """Another content under the old signature, which does not fit."""
    other = lying(signed, **changes)
    return other._replace(data=other.data[:-64] + signed.data[-64:])


def assert_invariants(party: SessionHarness) -> None:
    own: dict[int, Message] = {}
    asked = {e.state.round for e in party.effects if isinstance(e, Respond)}
    over = False
    for effect in party.effects:
        message = effect.signed.message if isinstance(effect, Send) else None
        if isinstance(message, Release) and message.sender == party.me:
            assert own.setdefault(message.round, message) == message
            assert message.round in asked or message.round < party.session.state.round
            assert not over, "a release was sent after a final fault"
        if isinstance(effect, Fail) and effect.final:
            assert not over, "two final faults"
            over = True
        if isinstance(effect, Respond):
            assert not effect.state.over, "a release was asked for after the end"
        if isinstance(effect, Finish):
            assert effect.state.over, "finished before the end"
    if any(isinstance(e, Finish) for e in party.effects):
        assert not over, "finished and failed for good"
