"""What a session asks of the party that runs it. Data only: nothing here does anything.

Each says in its docstring what must be done, and what must be durable before what follows.
"""

from dataclasses import dataclass

from protocol.errors import InternalError, PeerError, SottoError
from protocol.rounds import RoundState
from protocol.wire.messages import Signed


class Effect:
    """Something the executor must do, in the order given."""


@dataclass(frozen=True)
class Respond(Effect):
    """Ask the gate for the release at this position, or the mask key, then `submit` it.

    The executor must have made it durable before it comes back: persist, then send.
    """

    state: RoundState


@dataclass(frozen=True)
class Record(Effect):
    """A round is closed. Must be durable no later than the next release or the seal.

    Round −1 is the exchange of mask keys before the first.
    """

    round: int
    releases: tuple[Signed, ...]


@dataclass(frozen=True)
class Send(Effect):
    """Publish these bytes to everyone. May be lost: the session sends again by itself."""

    signed: Signed


@dataclass(frozen=True)
class Finish(Effect):
    """Every party stands at this position and has said so. The outcome may be used.

    The seals must be durable before the next effect, which tells the others that this
    party needs them no more.
    """

    state: RoundState
    seals: tuple[Signed, ...]


@dataclass(frozen=True)
class Leave(Effect):
    """Nobody needs this party any more: the process may end."""


@dataclass(frozen=True)
class Fail(Effect):
    """The session cannot go on here; the error says why.

    `final` faults are for good and must be remembered with their proof, without which none is
    final. Others end with the next start.
    """

    error: SottoError
    final: bool

    def __post_init__(self) -> None:
        if self.final and not (isinstance(self.error, PeerError) and self.error.evidence):
            raise InternalError("a fault without proof is not final")


@dataclass(frozen=True)
class Warn(Effect):
    """Something a person should know; the session goes on."""

    text: str
