"""The events that lead to a broken promise, as lines that can be read and played again.

A line names a party, an event, and the message that arrives by the first digits of its SHA-256.
Never here: a search for events.
"""

import hashlib
import re
from typing import NamedTuple

from protocol.wire.messages import Contribution, Seal, Signed
from tests.support.exploration.case import Case
from tests.support.exploration.liveness import Liveness
from tests.support.exploration.party import Event, Players, Step
from tests.support.exploration.promises import Promises

_LINE = re.compile(
    r"(?P<name>\w+) (?P<kind>\w+)(?: (?P<message>[0-9a-f]{12}))?"
    r"(?: fails_at=(?P<fails_at>\d+))?(?: sent=(?P<sent>\d+))?(?:  # .*)?"
)


class Move(NamedTuple):
    """An event at one party, and what it leads to."""

    party: int
    event: Event
    step: Step


class Found(Exception):
    """A broken promise, with the events that led to it."""

    def __init__(self, what: str, trace: list[str]) -> None:
        super().__init__("\n".join([what, *trace]))
        self.what = what
        #: One line for each event.
        self.trace = trace


def line(players: Players, move: Move) -> str:
    """One event as a line; what comes after `#` explains it."""
    event = move.event
    words = [players.names[move.party], event.kind]
    comment = []
    if event.kind == "receive":
        signed = players.messages[event.message]
        words.append(_digits(signed))
        comment.append(f"gets {_brief(signed)}")
    if event.fails_at is not None:
        words.append(f"fails_at={event.fails_at}")
        comment.append("loses power at this step of its disk")
    if event.sent is not None:
        words.append(f"sent={event.sent}")
        comment.append("loses power after this many messages left")
    if move.step.sends:
        sends = (players.messages[number] for number in move.step.sends)
        comment.append("sends " + ", ".join(map(_brief, sends)))
    text = " ".join(words)
    return f"{text}  # {'; '.join(comment)}" if comment else text


def replay(case: Case, trace: list[str], *, to_end: bool = True) -> None:
    """Play these events with the real code, one by one. Raises `Violation` as the search did.

    `to_end`: then nothing is lost any more, and the session must end.
    Raises `ValueError` if a message arrives that was never sent: then the code has changed.
    """
    players = case.players()
    promises, alphabet = Promises(players, case.liar), case.alphabet(players)
    parties = {players.names[place]: players.absent(place) for place in case.honest}
    sent: dict[str, Signed] = {}
    for text in trace:
        found = _LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"not an event: {text!r}")
        name, arrives = found["name"], found["message"]
        binding = [one for one in sent.values() if isinstance(one.message, Contribution | Seal)]
        lies = {_digits(one): one for one in alphabet(binding)}
        if arrives and arrives not in sent | lies:
            raise ValueError(f"no such message was sent: {text!r}")
        message = players.message_id((sent | lies)[arrives]) if arrives else -1
        failing = {key: int(found[key]) for key in ("fails_at", "sent") if found[key]}
        event = Event(found["kind"], message, **failing)
        step = players.step(parties[name], event)
        promises.check_step(parties[name], step)
        parties[name] = step.after
        sent |= {_digits(players.messages[n]): players.messages[n] for n in step.sends}
        promises.check_signed(one.message for one in sent.values())
        promises.check_ends(parties.values())
    if to_end:
        Liveness(players, case.liar).require_end(tuple(parties.values()))


def _digits(signed: Signed) -> str:
    return hashlib.sha256(signed.data).hexdigest()[:12]


def _brief(signed: Signed) -> str:
    return f"{type(signed.message).__name__} {signed.message.round} of {signed.message.sender}"
