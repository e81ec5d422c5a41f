"""Sessions with commitments in one process: real gates, ledgers and signatures, random answers."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, Subproblem
from party.release.gate import Gate
from protocol.agreement.model import Agreement
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome, outcome
from protocol.rounds import RoundEngine, RoundState, commitments_in, mask_keys, numbers
from protocol.wire.messages import Seal, Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import sign, signer
from tests.support.gates import Shift
from tests.support.ledgers import in_memory


class RandomProblem:
    """A company that answers with random demands."""

    def __init__(self, chance: random.Random, agreement: Agreement) -> None:
        self._chance, self._agreement = chance, agreement

    def answer(self, prices: Floats) -> Answer:
        demand = [self._chance.uniform(0.0, r.capacity) for r in self._agreement.resources]
        return Answer(0.0, np.array(demand), prices)


@dataclass
class CommittedSession:
    """A session up to its commitments, and all that its members know."""

    agreement: Agreement
    ledgers: list[Ledger]
    gates: list[Gate]
    #: The state after the last round.
    over: RoundState
    transcript: Transcript

    def sealed(self) -> Outcome:
        """Commit and seal as agreed; the ledgers hold everything."""
        commitments = tuple(gate.release(self.over) for gate in self.gates)
        return self.sealed_with(commitments)

    def sealed_with(self, commitments: tuple[Signed, ...]) -> Outcome:
        """Seal these commitments."""
        engine, names = RoundEngine(self.agreement), [m.name for m in self.agreement.members]
        state = engine.commit(self.over, commitments_in(commitments))
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
        for ledger in self.ledgers:
            ledger.record_commitments(commitments)
            ledger.record_seals(seals)
        past = self.transcript
        self.transcript = Transcript(past.rounds, seals, past.keys, commitments)
        return outcome(self.agreement, self.transcript)


def play_until_over(
    agreement: Agreement, seed: int, folder: Path | None = None
) -> CommittedSession:
    """All rounds of a session. With a folder its ledgers are files there."""
    chance, engine = random.Random(seed), RoundEngine(agreement)
    names = [m.name for m in agreement.members]
    ledgers = [
        Ledger(folder / f"{name}.ledger", agreement, name) if folder else in_memory(agreement, name)
        for name in names
    ]
    noise = Shift(*[0] * agreement.width)
    gates = [
        Gate(
            agreement,
            name,
            subproblem=cast(Subproblem, RandomProblem(chance, agreement)),
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
        releases = tuple(gate.release(state) for gate in gates)
        at, state = state.round, engine.advance(state, numbers(releases))
        for ledger in ledgers:
            ledger.record_round(at, releases, state.chain_hash)
        rounds.append(releases)
    for ledger in ledgers:
        ledger.commit()
    return CommittedSession(agreement, ledgers, gates, state, Transcript(tuple(rounds), (), keys))
