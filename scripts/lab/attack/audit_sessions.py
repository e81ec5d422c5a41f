"""The sessions of an audit of ε: with the gate itself, and with a simulation of it, the twin.

Two extreme models: one always asks for nothing, one for everything that it may. With the step
`ball` their clipped answers are opposite points of the ball. The adversary knows both, all that is
public, and what all other members do. Where only totals are read it is also a member, and
subtracts its own release. It computes the likelihood ratio of all releases of a session, which is
the most powerful test.

The gate runs with its ledger, its noise and a solver, one session after the other. The twin is the
same arithmetic with repeatable noise, for many sessions at once.
"""

from contextlib import ExitStack, closing
from itertools import product
from typing import Any

import numpy as np
from msgspec import Struct

from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem, subproblem
from party.model.company_model import dense
from party.release.gate import Gate, truncated, within_ball
from party.release.noise import DiscreteGaussian, Noise
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import ACCOUNTANTS, SHAPES
from protocol.numeric import Floats, Ticks
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import adaptive_caps, first_caps
from protocol.rounds import RoundEngine, mask_keys, numbers
from protocol.wire.codec import SIGNATURE_BYTES, pack
from protocol.wire.messages import Message, Signed
from scripts.lab.common.agreements import players, table

EPSILONS = (1.0, 4.0)
DELTA = 0.01
"""Large, so that the most telling sessions are frequent enough to be counted."""

KINDS = (("private", "each"), ("clipped", "each"), ("private", "totals"))
"""Modes with a guarantee, and what others can read in them."""

ROUNDS = {"private": 1, "clipped": 2}
"""As few as possible: caps follow releases from the second round on."""

BALL_ROUNDS = 2
"""With the step `ball` noise differs from round to round."""

_CAPACITY = np.array([10.0, 40.0])
_SHARE = np.array([[1.0, 0.4]] * 3)
_BALL_SHARE = np.full((3, 2), 2.0 / 3.0)  # twice the endowment: the ball reaches both ends alike
_VICTIM, _COLLUDER = 0, 2


class Case(Struct, frozen=True):
    """What is audited."""

    epsilon: float
    mode: str
    reveal: str
    noise: str
    accountant: str

    def agreement(self) -> Agreement:
        """Three members with different shares of two resources, and few rounds."""
        if self.noise == "ball":
            return self._ball_agreement()
        clipped = {"alpha": 1.5, "tau": 0.1} if self.mode == "clipped" else {}
        return from_table(
            table(
                session="audit",
                mode=self.mode,
                reveal=self.reveal,
                rounds=ROUNDS[self.mode],
                capacity=_CAPACITY,
                share=_SHARE,
                members=players(len(_SHARE)),
                privacy={
                    "epsilon": self.epsilon,
                    "delta": DELTA,
                    "noise": self.noise,
                    "accountant": self.accountant,
                    **clipped,
                },
                prices={"step": "constant", "step_size": 0.1},
            )
        )

    def _ball_agreement(self) -> Agreement:
        """So much spare capacity and risk that three members trade with each of these budgets."""
        terms = table(
            session="audit",
            mode=self.mode,
            reveal=self.reveal,
            rounds=BALL_ROUNDS,
            capacity=_CAPACITY,
            share=_BALL_SHARE,
            members=players(len(_BALL_SHARE)),
            worth=1.0,
            privacy={
                "epsilon": self.epsilon,
                "delta": DELTA,
                "accountant": self.accountant,
                "overrun": 0.1,
            },
            prices={"step": "ball"},
        )
        for resource in terms["resource"]:
            resource["spare"] = 0.5
        return from_table(terms)


def cases() -> list[Case]:
    """All cases, in the order of the table."""
    return [
        Case(epsilon, *kind, noise, accountant)
        for accountant, epsilon, kind in product(ACCOUNTANTS, EPSILONS, KINDS)
        for noise in (*SHAPES, *(("ball",) if kind == ("private", "totals") else ()))
    ]


class Audit:
    """Real sessions: the gate with its noise, its ledger (in memory) and a solver."""

    def __init__(self, agreement: Agreement, noise: Noise | None = None) -> None:
        self._agreement = agreement
        self._course = RoundEngine(agreement)
        self._calibration = Calibration(agreement)
        self._noise = noise or DiscreteGaussian()
        self._names = [member.name for member in agreement.members]
        self._nothing, self._everything = (
            subproblem(
                dense(
                    A=np.eye(2),
                    B=np.zeros((0, 2)),
                    u=np.full(2, worth),
                    row_lower=np.zeros(0),
                    row_upper=np.zeros(0),
                    lower=np.zeros(2),
                    upper=np.full(2, np.inf),
                ),
                agreement,
                self._names[_VICTIM],
            )
            for worth in (-1e3, 1e6)
        )

    def ratio(self, *, everything: bool) -> float:
        """Run a session; return the log likelihood ratio of its releases, `everything` over
        `nothing`."""
        agreement, state = self._agreement, self._course.opening
        honest = _honest(agreement)
        with ExitStack() as stack:
            gated = self._names if agreement.masked else self._names[: _VICTIM + 1]
            ledgers = [
                stack.enter_context(closing(Ledger(":memory:", agreement, name))) for name in gated
            ]
            wanted = self._everything if everything else self._nothing
            problems = [wanted, *(self._nothing for _ in gated[1:])]
            gates = [
                self._gate(name, problem, ledger)
                for name, problem, ledger in zip(gated, problems, ledgers, strict=True)
            ]
            if state.unpaired:
                keys = tuple(gate.release(state) for gate in gates)
                for ledger in ledgers:
                    ledger.record_mask_keys(keys)
                state = self._course.pair(state, mask_keys(keys))
            total = 0.0
            while not state.over:
                gates[_VICTIM].prepare(state.round)
                values = np.zeros((len(self._names), agreement.width), dtype=np.int64)
                values[: len(gates)] = numbers(tuple(gate.release(state) for gate in gates))
                read = values[_VICTIM]
                if agreement.masked:  # the sum of all, less the colluder's own release
                    read = values.sum(axis=0) - ledgers[_COLLUDER].demands()[1][-1]
                scales = self._calibration.scales(state.caps, state.round)
                least, most = _extremes(agreement, state.caps)
                total += float(
                    _log_ratio(
                        read - least[honest].sum(axis=0),
                        (most - least)[_VICTIM],
                        (scales[honest] ** 2).sum(axis=0),
                    )
                )
                state = self._course.advance(state, values)
        return total

    def _gate(self, name: str, problem: Subproblem, ledger: Ledger) -> Gate:
        key = self._agreement.members[self._agreement.place(name)].signing_key

        def unsigned(message: Message) -> Signed:
            return pack(message, key=key, sign=lambda _: bytes(SIGNATURE_BYTES))

        return Gate(
            self._agreement,
            name,
            subproblem=problem,
            noise=self._noise,
            ledger=ledger,
            pack=unsigned,
        )


def twin_ratios(
    agreement: Agreement,
    rng: np.random.Generator,
    sessions: int,
    *,
    everything: bool,
    scale: float = 1.0,
) -> Floats:
    """The ratios of `Audit.ratio` for many sessions at once, with repeatable noise.

    A `scale` below 1 is a gate that draws less noise than it should: the audit must detect it.
    """
    calibration, m = Calibration(agreement), len(agreement.resources)
    honest = _honest(agreement)
    caps = np.broadcast_to(first_caps(agreement), (sessions, *quantities(agreement).share.shape))
    total = np.zeros(sessions)
    for number in range(agreement.rounds):
        # The noise shares are equal in every session.
        scales = calibration.scales(caps[0] if agreement.masked else caps, number)
        noise = rng.standard_normal(caps.shape) * (scales * scale)
        least, most = _extremes(agreement, caps)
        asked = least.copy()
        if everything:
            asked[:, _VICTIM] = most[:, _VICTIM]
        released = truncated(agreement, asked + np.rint(noise).astype(np.int64))
        if not agreement.masked:
            released[:, _VICTIM + 1 :] = 0
        variance = np.broadcast_to(scales**2, caps.shape)[:, honest].sum(axis=1)
        read = (released - least)[:, honest].sum(axis=1)
        total += _log_ratio(read, (most - least)[:, _VICTIM], variance)
        if agreement.mode == "clipped":
            # Every session is a resource of its own, because caps are computed for each resource.
            side = np.moveaxis(released, 0, 1).reshape(len(_SHARE), -1)
            following = adaptive_caps(agreement, side).reshape(len(_SHARE), sessions, m)
            caps = np.minimum(np.moveaxis(following, 1, 0), quantities(agreement).share_ticks)
    return total


def _extremes(agreement: Agreement, caps: Ticks) -> tuple[Ticks, Ticks]:
    """The demands behind the releases of members that ask for nothing, and for everything.

    `caps` may have sessions along its first axis.
    """
    if not agreement.ball:
        return np.zeros_like(caps), caps
    whole = quantities(agreement).share * quantities(agreement).capacity
    rows = range(len(agreement.members))
    ends = [
        np.array([within_ball(agreement, row, fraction * whole[row]) for row in rows])
        for fraction in (0.0, 1.0)
    ]
    return np.broadcast_to(ends[0], caps.shape), np.broadcast_to(ends[1], caps.shape)


def _honest(agreement: Agreement) -> list[int]:
    """The members whose noise hides the victim: itself, or all but the colluder."""
    return [k for k in range(len(_SHARE)) if k != _COLLUDER] if agreement.masked else [_VICTIM]


def _log_ratio(read: Ticks, cap: Ticks, variance: Floats) -> Any:
    """ln of the likelihood of what was read with `cap` beneath the noise, over that with 0.

    Both are counted from the demand of the model that asks for nothing.
    """
    return (cap * (read - cap / 2.0) / variance).sum(axis=-1)
