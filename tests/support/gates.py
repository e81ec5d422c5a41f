"""Real gates in one process: for all members, or for one with a chosen demand and noise."""

from typing import Any, cast

import numpy as np

from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Subproblem
from party.release.gate import Gate
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.numeric import Floats, Ticks
from protocol.rounds import RoundEngine, RoundState, mask_keys, numbers
from protocol.wire.codec import pack
from protocol.wire.messages import Message, Signed
from tests.support.builders import signer
from tests.support.ledgers import in_memory


def gates(
    agreement: Agreement,
    problems: list[Subproblem],
    noise: Noise,
    ledgers: list[Ledger] | None = None,
) -> list[Gate]:
    """A real gate for each member, without signatures."""
    ledgers = ledgers or [in_memory(agreement, member.name) for member in agreement.members]

    def gate(index: int) -> Gate:
        member = agreement.members[index]

        def unsigned(message: Message) -> Signed:
            return pack(message, key=member.signing_key, sign=lambda _: bytes(64))

        return Gate(
            agreement,
            member.name,
            subproblem=problems[index],
            noise=noise,
            ledger=ledgers[index],
            pack=unsigned,
        )

    return [gate(k) for k in range(len(agreement.members))]


def play(
    agreement: Agreement,
    problems: list[Subproblem],
    noise: Noise,
    ledgers: list[Ledger] | None = None,
) -> list[RoundState]:
    """The round states of a session, from the first release to its end."""
    return play_rounds(agreement, problems, noise, ledgers)[0]


def play_rounds(
    agreement: Agreement,
    problems: list[Subproblem],
    noise: Noise,
    ledgers: list[Ledger] | None = None,
) -> tuple[list[RoundState], list[Ticks]]:
    """The round states of a session, and the numbers that were released in each round."""
    kept = ledgers or [in_memory(agreement, member.name) for member in agreement.members]
    engine, all_gates = RoundEngine(agreement), gates(agreement, problems, noise, kept)
    path, released = [engine.opening], list[Ticks]()
    if path[-1].unpaired:
        keys = tuple(one.release(path[-1]) for one in all_gates)
        for ledger in kept:
            ledger.record_mask_keys(keys)
        path = [engine.pair(path[-1], mask_keys(keys))]
    while not path[-1].over:
        released.append(numbers(tuple(one.release(path[-1]) for one in all_gates)))
        path.append(engine.advance(path[-1], released[-1]))
    return path, released


class Problem:
    """A responder with a fixed answer, which records its questions."""

    def __init__(self, *demand: float, objective: float = 0.0, fails: bool = False) -> None:
        self.announced: list[Floats] = []
        self.asked: list[Floats] = []
        self._answer = None if fails else Answer(objective, np.array(demand), np.zeros(0))

    def ask(self, prices: Floats) -> None:
        self.announced.append(prices)

    def answer(self, prices: Floats) -> Answer | None:
        self.asked.append(prices)
        return self._answer


class Shift(Noise):
    """Noise that adds fixed numbers of ticks, and records each draw."""

    private = True

    def __init__(self, *ticks: int) -> None:
        self.drawn: list[tuple[Ticks, Floats, str, int]] = []
        self._ticks = np.array(ticks, dtype=np.int64)

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        self.drawn.append((values, scales, member, round))
        return values + self._ticks


def gate(
    agreement: Agreement,
    problem: Problem,
    noise: Any,
    ledger: Ledger | None = None,
    member: str = "ada",
) -> Gate:
    return Gate(
        agreement,
        member,
        subproblem=cast(Subproblem, problem),
        noise=noise,
        ledger=ledger or in_memory(agreement, member),
        pack=signer(member),
    )
