"""What a session asks of its driver. Data only: nothing here acts.

Each docstring says what the driver must do, and what must be durable before the next effect.
"""

from msgspec import Struct

from protocol.errors import InternalError, PeerError, SottoError
from protocol.rounds import RoundState
from protocol.wire.messages import Message, Release, Signed


class Effect(Struct, frozen=True):
    """Something the driver must do, in the given order."""


class Respond(Effect, frozen=True):
    """Ask the gate for what this state awaits: release, mask key or commitment; `submit` it.

    It must be durable before it is submitted: persist, then send.
    """

    state: RoundState


class Record(Effect, frozen=True):
    """An exchange is closed. Must be durable no later than the next release or the seal."""

    #: The messages of all members in roster order, all of one kind.
    messages: tuple[Signed, ...]

    @property
    def kind(self) -> type[Message]:
        """What the members have exchanged."""
        return type(self.messages[0].message)

    @property
    def round(self) -> int | None:
        """The round that is closed; None for mask keys and commitments."""
        message = self.messages[0].message
        return message.round if isinstance(message, Release) else None


class Send(Effect, frozen=True):
    """Publish this message to all. It may be lost: the session sends it again."""

    signed: Signed


class Finish(Effect, frozen=True):
    """Every member has sealed this state. The outcome may be used.

    The seals must be durable before the next effect, which tells the others that this party has
    all it needs.
    """

    state: RoundState
    seals: tuple[Signed, ...]


class Leave(Effect, frozen=True):
    """No peer needs this party any more: the process may end."""


class Fail(Effect, frozen=True):
    """The session cannot go on here; the error says why.

    A `final` fault ends the session for good, and its proof must be durable. Without proof no
    fault is final. After any other error the session resumes at the next start.
    """

    error: SottoError
    final: bool

    def __post_init__(self) -> None:
        if self.final and not (isinstance(self.error, PeerError) and self.error.evidence):
            raise InternalError("a fault without proof is not final")


class Warn(Effect, frozen=True):
    """Something the operator should know; the session goes on."""

    text: str
