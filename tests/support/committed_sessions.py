"""Sessions with claims in one process: real gates, ledgers and signatures, random answers.

Without noise they end with commitments.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Subproblem
from party.release.gate import Gate
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome, outcome
from protocol.rounds import RoundEngine, RoundState, commitments_in, mask_keys, numbers
from protocol.wire.messages import Release, Seal, Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import sign, signer
from tests.support.gates import Shift
from tests.support.ledgers import in_memory

Fraction = Callable[[], float]


class Problem:
    """A company that answers with these fractions of each capacity, whatever the prices are."""

    def __init__(self, fraction: Fraction, agreement: Agreement) -> None:
        self._fraction, self._agreement = fraction, agreement

    def answer(self, prices: Floats) -> Answer:
        demand = [self._fraction() * r.capacity for r in self._agreement.resources]
        return Answer(0.0, np.array(demand), prices)


class CommittedSession(Struct):
    """A session up to its commitments, and all that its members know."""

    agreement: Agreement
    ledgers: list[Ledger]
    gates: list[Gate]
    #: The state after the last round.
    over: RoundState
    transcript: Transcript

    def sealed(self) -> Outcome:
        """Commit if that is agreed, and seal; the ledgers hold everything."""
        if not self.agreement.commits:
            return self._sealed(self.over, ())
        return self.sealed_with(tuple(gate.release(self.over) for gate in self.gates))

    def sealed_with(
        self, commitments: tuple[Signed, ...], besides: Sequence[Ledger] = ()
    ) -> Outcome:
        """Seal these commitments. All ledgers hold the seals, `besides` these."""
        state = RoundEngine(self.agreement).commit(self.over, commitments_in(commitments))
        return self._sealed(state, commitments, besides)

    def _sealed(
        self, state: RoundState, commitments: tuple[Signed, ...], besides: Sequence[Ledger] = ()
    ) -> Outcome:
        names = [m.name for m in self.agreement.members]
        seals = tuple(
            sign(
                Seal(
                    sender=name,
                    agreement=self.agreement.digest,
                    round=state.step,
                    chain_hash=state.chain_hash,
                    has_all_seals=False,
                )
            )
            for name in names
        )
        for ledger in (one for one in self.ledgers if one not in besides):
            if commitments:
                ledger.record_commitments(commitments)
            ledger.record_seals(seals)
        past = self.transcript
        self.transcript = Transcript(past.rounds, seals, past.keys, commitments)
        return outcome(self.agreement, self.transcript)


def play_until_over(
    agreement: Agreement,
    seed: int,
    folder: Path | None = None,
    *,
    wanted: Fraction | None = None,
    lies: dict[str, int] | None = None,
    noise: Noise | None = None,
) -> CommittedSession:
    """All rounds of a session. With a folder its ledgers are files there.

    Members want random amounts, or what `wanted` says. Each entry of `lies` is added, in
    ticks, to the masked releases of a member.
    """
    wanted, engine = wanted or random.Random(seed).random, RoundEngine(agreement)
    names = [m.name for m in agreement.members]
    ledgers = [
        Ledger(folder / f"{name}.ledger", agreement, name) if folder else in_memory(agreement, name)
        for name in names
    ]
    noise = noise or Shift(*[0] * agreement.width)
    gates = [
        Gate(
            agreement,
            name,
            subproblem=cast(Subproblem, Problem(wanted, agreement)),
            noise=noise,
            ledger=ledger,
            pack=signer(name),
        )
        for name, ledger in zip(names, ledgers, strict=True)
    ]
    keys = tuple(gate.release(engine.opening) for gate in gates)
    for ledger in ledgers:
        ledger.record_mask_keys(keys)
    state, rounds = engine.pair(engine.opening, mask_keys(keys)), []
    while not state.over:
        releases = tuple(_with(gate.release(state), lies or {}) for gate in gates)
        at, state = state.round, engine.advance(state, numbers(releases))
        for ledger in ledgers:
            ledger.record_round(at, releases, state.chain_hash)
        rounds.append(releases)
    for ledger in ledgers:
        ledger.commit()
    return CommittedSession(agreement, ledgers, gates, state, Transcript(tuple(rounds), (), keys))


def _with(release: Signed, lies: dict[str, int]) -> Signed:
    """A release, with what its sender adds to every number, modulo 2^64."""
    message = release.message
    if message.sender not in lies or not isinstance(message, Release):
        return release
    numbers = np.array(message.values) + np.int64(lies[message.sender])
    return sign(replace(message, values=tuple(numbers.tolist())))
