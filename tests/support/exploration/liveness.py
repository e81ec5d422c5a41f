"""Whether a session ends once all parties run and nothing is lost.

Where a member lies it may stay silent from then on. Then every honest party must finish, stop
because of the lie, or give up when its patience ends. Unless all finish, one of them must name the
liar. One exception: masks hide whose release made a total impossible. Never here: which states
there are.
"""

from collections import deque

from protocol.errors import ImpossibleTotal, PeerError
from tests.support.exploration.party import Event, Local, Players
from tests.support.simulated_disk import Violation

CALM_TURNS = 60
"""Turns of all parties within which a session must end once nothing is lost any more."""


def _stopped(held: Local) -> bool:
    """Whether a party has ended because of what the liar did."""
    return bool(held.stored.fault) or isinstance(held.error, ImpossibleTotal)


class Liveness:
    """The states of all honest parties from which the end was reached."""

    def __init__(self, players: Players, liar: int | None = None) -> None:
        self._players = players
        self._liar = None if liar is None else players.names[liar]
        #: How many turns lead from each of these states to the end.
        self._turns: dict[tuple[int, ...], int] = {}
        #: The most turns that any state needed.
        self.most_turns = 0

    def require_end(self, parties: tuple[int, ...]) -> None:
        """From here, with all parties running and nothing lost, the session must end."""
        path: list[tuple[int, ...]] = []
        while parties not in self._turns:
            if self._ended(parties):
                self._turns[parties] = 0
                break
            path.append(parties)
            if len(path) > CALM_TURNS:
                raise Violation("the session does not end although nothing is lost")
            after = self._turn(parties)
            if after == parties and self._liar is not None:
                self._require_names(parties)
                self._turns[parties] = 0
            parties = after
        turns = self._turns[parties]
        self.most_turns = max(self.most_turns, turns + len(path))
        # The first state is asked about once: only those after it are worth remembering.
        self._turns.update((one, turns + n) for n, one in enumerate(path[:0:-1], start=1))

    def _ended(self, parties: tuple[int, ...]) -> bool:
        held = [self._players.locals[one] for one in parties]
        if self._liar is None:
            return all(one.stored.seals for one in held)
        return all(one.stored.seals or _stopped(one) for one in held)

    def _require_names(self, parties: tuple[int, ...]) -> None:
        """Nothing changes any more: all parties that still wait give up, and blame no other.

        One party must name the liar or have stopped because of it. Others may wait for that one:
        to them it is silent too.
        """
        errors = []
        waiting = [one for one in parties if not self._players.locals[one].stored.seals]
        stopped = [one for one in waiting if _stopped(self._players.locals[one])]
        for local in (one for one in waiting if one not in stopped):
            after = self._players.step(local, Event("expire"), exact=True).after
            error = self._players.locals[after].error
            if isinstance(error, PeerError) and error.sender != self._liar:
                raise Violation(f"an honest party is blamed: {error}")
            errors.append(error)
        named = [e for e in errors if isinstance(e, PeerError) or repr(self._liar) in str(e)]
        if not named and not stopped:
            raise Violation(f"all give up, and none names the liar: {errors}")

    def _turn(self, parties: tuple[int, ...]) -> tuple[int, ...]:
        """Every party runs, sends again, and receives all that is sent meanwhile."""
        now, pending = list(parties), deque[int]()

        def play(party: int, event: Event) -> None:
            held = self._players.locals[now[party]]
            again = held.life > 1 and isinstance(held.error, ImpossibleTotal)  # as at every start
            if (held.driver is None) == (event.kind == "start") and not again:
                step = self._players.step(now[party], event, exact=True)
                now[party] = step.after
                pending.extend(step.sends)

        for party in range(len(now)):
            for kind in ("start", "reply", "resend"):
                play(party, Event(kind))
        while pending:
            message = pending.popleft()
            for party in range(len(now)):
                play(party, Event("receive", message))
        return tuple(now)
