"""What a session asks of its driver. Data only: nothing here acts.

Each docstring says what the driver must do, and what must be durable before the next effect.
"""

from dataclasses import dataclass

from protocol.errors import InternalError, PeerError, SottoError
from protocol.rounds import RoundState
from protocol.wire.messages import Message, Release, Signed


class Effect:
    """Something the driver must do, in the given order."""


@dataclass(frozen=True)
class Respond(Effect):
    """Ask the gate for what this state awaits: release, mask key or commitment; `submit` it.

    It must be durable before it is submitted: persist, then send.
    """

    state: RoundState


@dataclass(frozen=True)
class Record(Effect):
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


@dataclass(frozen=True)
class Send(Effect):
    """Publish this message to all. It may be lost: the session sends it again."""

    signed: Signed


@dataclass(frozen=True)
class Finish(Effect):
    """Every member has sealed this state. The outcome may be used.

    The seals must be durable before the next effect, which tells the others that this party has
    all it needs.
    """

    state: RoundState
    seals: tuple[Signed, ...]


@dataclass(frozen=True)
class Leave(Effect):
    """No peer needs this party any more: the process may end."""


@dataclass(frozen=True)
class Fail(Effect):
    """The session cannot go on here; the error says why.

    A `final` fault ends the session for good, and its proof must be durable. Without proof no
    fault is final. After any other error the session resumes at the next start.
    """

    error: SottoError
    final: bool

    def __post_init__(self) -> None:
        if self.final and not (isinstance(self.error, PeerError) and self.error.evidence):
            raise InternalError("a fault without proof is not final")


@dataclass(frozen=True)
class Warn(Effect):
    """Something the operator should know; the session goes on."""

    text: str
