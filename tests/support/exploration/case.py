"""What an exploration covers: the session and its bounds.

Never here: how states are found, or what must hold in them.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.wire.messages import Signed
from tests.support.builders import make_agreement
from tests.support.exploration.lies import Liar
from tests.support.exploration.party import Players

Alphabet = Callable[[list[Signed]], list[Signed]]
"""All that a liar signs once it knows these messages of honest parties."""

_TERMS: dict[str, dict[str, Any]] = {
    "each": {},
    "totals": {"reveal": "totals"},
    "noise": {
        "mode": "private",
        "reveal": "totals",
        "privacy": {"epsilon": 1.0, "delta": 0.001},
    },
}

REVEALS = tuple(_TERMS)


class Case(Struct, frozen=True, kw_only=True):
    """One session, and what may go wrong in it. Losses, repetitions and delays have no bound."""

    members: int = 2
    rounds: int = 1
    #: `each`: releases are readable. `totals`: mask keys and commitments. `noise`: mask keys.
    reveal: str = "each"
    #: How often a party may lose power.
    crashes: int = 0
    #: The lies of the last member, by name; None: it is honest.
    lies: tuple[str, ...] | None = None
    #: Begin after a handshake whose Hellos have all arrived, and only once.
    greeted: bool = False

    @property
    def agreement(self) -> Agreement:
        terms: dict[str, Any] = {"members": self.members, "rounds": self.rounds, "resources": 1}
        return make_agreement(**terms | _TERMS[self.reveal])

    @property
    def liar(self) -> int | None:
        return None if self.lies is None else self.members - 1

    @property
    def honest(self) -> list[int]:
        return [place for place in range(self.members) if place != self.liar]

    def players(self, *, free_replies: bool = False) -> Players:
        # One start, one after each crash, and one that only the check of liveness needs.
        return Players(self.agreement, lives=self.crashes + 2, free_replies=free_replies)

    def alphabet(self, players: Players) -> Alphabet:
        if self.liar is None or self.lies is None:
            return lambda _: []
        nonces = tuple(players.nonce(place, 1) for place in range(self.members))
        return Liar(players.agreement, self.liar, nonces, self.lies).alphabet
