"""The sessions of the study: experiments, their settings and variants, and the agreements.

Data, not code: every parameter of every session is here and is public. No variant may read a model,
an optimum or an answer.
"""

import hashlib
import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.numeric import Floats
from protocol.pricing.rule import PriceRule
from scripts.lab.common.agreements import players, table
from scripts.lab.common.instances import RESOURCES, Instance, draw

WORTH = 100.0
"""The public estimate of a capacity's total value: one for every resource and cell."""

DELTA = 0.001
PAPER_EPSILONS = (0.1, 0.5, 2.0, 4.0)
EPSILONS = (*PAPER_EPSILONS, 8.0, 16.0, 32.0, 64.0)
TOTALS_EPSILONS = (1.0, 4.0, 16.0)
BALL_EPSILONS = (4.0, 8.0, 16.0)
HIDDEN = float("inf")
"""The ε of a session without noise."""

MOMENTUM_HIDDEN = 0.9
"""The paper does not state the momentum of its figure without noise; this is usual."""

MOMENTUM_PRIVATE = 0.1
TAU = 0.01


class Variant(Struct, frozen=True):
    """One way to run a session: the terms of its agreement besides the resources."""

    label: str
    mode: str
    reveal: str = "each"
    privacy: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    worth: bool = True
    caps: bool = False
    """Whether the shares are agreed, and so bound the sensitivity, or are only kept in private."""

    divided: int = 0
    """How often the step 1/√t is divided by ‖c‖. Twice is the paper's code: it divides consumption
    and capacities by ‖c‖, so its prices are ‖c‖ times ours."""

    tuned: bool = False
    """Whether the theorem's step is made K^1.5 times as long, as in the paper's code."""


_PAPER = {"accountant": "paper", "noise": "component"}
_THEOREM = {"step": "theorem"}
_RESERVE = {"reserve": 1e-6}  # of the committed tables; the default of an agreement is smaller

VARIANTS: Mapping[str, Variant] = {
    "standard": Variant("standard", "private", privacy=_PAPER, prices=_THEOREM),
    "momentum": Variant(
        "momentum",
        "private",
        privacy=_PAPER,
        prices={**_THEOREM, "momentum": MOMENTUM_PRIVATE},
    ),
    "clipped": Variant(
        "momentum, clipped",
        "clipped",
        privacy={**_PAPER, "truncate": True, "tau": TAU},
        prices={**_THEOREM, "momentum": MOMENTUM_PRIVATE},
    ),
    "tuned": Variant(
        "standard, tuned step", "private", privacy=_PAPER, prices=_THEOREM, tuned=True
    ),
    "recommended": Variant("recommended", "private", prices={"start": "worth"}, caps=True),
    "totals": Variant(
        "only totals",
        "private",
        reveal="totals",
        prices={"step": "worth", "start": "worth"},
        caps=True,
    ),
    "ball": Variant("only totals, in a ball", "private", reveal="totals", caps=True),
    "exact": Variant("without noise", "exact", prices=_RESERVE, caps=True),
    "paper": Variant("paper, 1/√t", "exact", worth=False, divided=2),
    "paper-momentum": Variant(
        "paper, with momentum",
        "exact",
        prices={"momentum": MOMENTUM_HIDDEN},
        worth=False,
        divided=2,
    ),
    "paper-long": Variant("paper, steps ‖c‖ times as long", "exact", worth=False, divided=1),
    "paper-long-momentum": Variant(
        "paper, long steps, with momentum",
        "exact",
        prices={"momentum": MOMENTUM_HIDDEN},
        worth=False,
        divided=1,
    ),
    "default": Variant("centre rule (default)", "exact", prices=_RESERVE),
    "default-blind": Variant("centre rule, no worth given", "exact", prices=_RESERVE, worth=False),
}

PAPER_VARIANTS = ("standard", "momentum", "clipped")
CONVERGENCE_VARIANTS = (
    "paper", "paper-momentum", "paper-long", "paper-long-momentum",
    "default", "default-blind",
)  # fmt: skip


class Setting(Struct, frozen=True):
    """Number of companies, market shares, and whether there are minimum demands."""

    parties: int
    share_first: float | None = None
    buffer: float | None = None
    demands: bool = True

    def instance(self, seed: int) -> Instance:
        return draw(
            seed,
            parties=self.parties,
            share_first=self.share_first,
            share_total=self.buffer,
            demands=self.demands,
        )

    def draws(self, seed: int, rounds: int) -> Floats:
        """Noise in units of σ, rounds by parties by resources: one array for all variants and ε.

        Own data and placebo use the same draws, so that they can be compared in pairs.
        """
        text = f"sotto study\n{seed}\n{self}"
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        generator = np.random.Generator(np.random.Philox(key=key))
        return generator.standard_normal((rounds, self.parties, RESOURCES))


class Experiment(Struct, frozen=True):
    """A question of the study: every setting is run with every variant."""

    name: str
    rounds: int
    settings: tuple[Setting, ...]
    variants: tuple[str, ...]
    epsilons: tuple[float, ...] = EPSILONS
    quota: bool = False
    """Whether the parties also plan within the quota of each session."""

    hindsight: bool = True
    """Whether the placebo is also judged at its best round, which takes as long as a session."""

    fates: bool = False
    """Whether it is also judged who ends worse off than alone, and what an oracle would earn."""

    most_replications: int | None = None
    """A limit for sessions that take long."""

    @property
    def sessions(self) -> tuple[tuple[float, str], ...]:
        """(ε, variant) of every session with one instance; those with noise at every ε."""
        noisy = [v for v in self.variants if VARIANTS[v].mode != "exact"]
        quiet = [v for v in self.variants if VARIANTS[v].mode == "exact"]
        return (*product(self.epsilons, noisy), *((HIDDEN, v) for v in quiet))


EXPERIMENTS = (
    Experiment("convergence", 1000, (Setting(5), Setting(10)), CONVERGENCE_VARIANTS),
    Experiment(
        "privacy",
        150,
        tuple(Setting(*market) for market in product((5, 10), (0.5, 0.15), (1.5, 2.0))),
        (*PAPER_VARIANTS, "tuned", "recommended", "exact"),
        quota=True,
    ),
    Experiment(
        "parties",
        150,
        tuple(Setting(parties, None, 2.0) for parties in (5, 10, 20, 50, 100)),
        ("standard", "recommended", "totals", "exact"),
        hindsight=False,
    ),
    Experiment(
        "quota",
        150,
        (Setting(10, None, 2.0, demands=False),),
        ("recommended", "totals", "exact"),
        quota=True,
    ),
    Experiment(
        "totals",
        150,
        tuple(Setting(parties, None, 2.0, demands=False) for parties in (10, 20, 50, 100)),
        ("recommended", "totals"),
        epsilons=TOTALS_EPSILONS,
        quota=True,
        hindsight=False,
    ),
    Experiment(
        "ball",
        60,
        tuple(Setting(parties, None, 2.0, demands=False) for parties in (10, 20)),
        ("totals", "ball"),
        epsilons=BALL_EPSILONS,
        quota=True,
        hindsight=False,
        fates=True,
        most_replications=20,
    ),
)


def agree(
    variant: Variant, instance: Instance, *, rounds: int, epsilon: float, buffer: float | None
) -> Agreement:
    """The agreement of one session. It reads only the public numbers of the instance."""
    capacity, privacy, prices = instance.capacity, dict(variant.privacy), dict(variant.prices)
    if variant.mode != "exact":
        privacy |= {"epsilon": epsilon, "delta": DELTA}
    if variant.mode == "clipped":
        privacy["alpha"] = buffer
    if variant.divided:
        norm = math.sqrt(float(capacity @ capacity))
        prices |= {"step": "sqrt", "step_size": norm**-variant.divided}
    if variant.tuned:
        plain = replace(variant, tuned=False)
        untuned = agree(plain, instance, rounds=rounds, epsilon=epsilon, buffer=buffer)
        longer = float(len(instance.data)) ** 1.5
        prices |= {"step": "constant", "step_size": longer * PriceRule(untuned).step_size(0)}
    return from_table(
        table(
            session="study",
            mode=variant.mode,
            reveal=variant.reveal,
            rounds=rounds,
            capacity=capacity,
            share=instance.share if variant.caps else None,
            members=players(len(instance.data)),
            worth=WORTH if variant.worth else None,
            privacy=privacy,
            prices=prices,
            rehearsal=True,
        )
    )
