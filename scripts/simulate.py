"""A whole session in one process: the real session, gate and ledger of every party.

Everything a party would say goes through its real `Session`; only the sockets and the
signatures are left out. Noise is seeded, so that a run can be repeated.
"""

import argparse
import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party.executor import Executor
from party.gate import Gate
from party.ledger import Ledger
from party.noise import SeededTwin
from party.settle import settle
from party.subproblem import Subproblem
from protocol import agreement as agreements
from protocol.agreement import TICKS, Agreement
from protocol.arrays import Floats
from protocol.caps import first_caps
from protocol.forecast import forecast
from protocol.messages import Message, Signed
from protocol.outcome import Outcome, outcome
from protocol.privacy import Calibration
from protocol.toml import from_table
from protocol.wire import pack
from scripts.instances import Instance, Optimum, central, draw, dual_value


def party_name(index: int) -> str:
    return f"party{index + 1}"


def agreement_table(instance: Instance, options: argparse.Namespace) -> dict[str, Any]:
    """The public agreement of a simulated or demonstrated session, as a table."""
    noisy = options.mode != "hidden"
    privacy: dict[str, Any] = {"share_objective": options.share_objective}
    if noisy:
        privacy |= {
            "epsilon": options.epsilon,
            "delta": options.delta,
            "accountant": options.accountant,
            "noise": options.noise,
            "truncate": options.truncate,
            "alpha": min(options.alpha, float(options.parties)),
            "tau": options.tau,
        }
    prices: dict[str, Any] = {
        "momentum": options.momentum,
        "nonnegative": options.nonnegative,
        "start": options.start,
    }
    if options.step:
        prices["step"] = options.step
    if options.step in ("constant", "sqrt"):
        prices["step_size"] = options.step_size
    return {
        "session": f"simulation-{options.seed}",
        "mode": options.mode,
        "rounds": options.rounds,
        "rehearsal": options.rehearsal,
        "privacy": privacy,
        "prices": prices,
        "resource": [
            {"name": f"resource{j + 1}", "capacity": c, "worth": options.worth}
            for j, c in enumerate(instance.capacity.tolist())
        ],
        "member": [
            {
                "name": party_name(k),
                "share": {f"resource{j + 1}": s for j, s in enumerate(row)},
                "signing_key": hashlib.sha256(party_name(k).encode()).hexdigest(),
            }
            for k, row in enumerate(instance.share.tolist())
        ],
    }


def drawn(options: argparse.Namespace) -> Instance:
    """The instance that the options describe."""
    return draw(
        options.seed,
        parties=options.parties,
        share_first=options.share_first,
        share_total=options.share_total,
        demands=options.demands,
    )


class Player(Executor):
    """One party of the simulation, unsigned and with seeded noise."""

    def __init__(
        self,
        agreement: Agreement,
        index: int,
        problem: Subproblem,
        seed: int,
        on_round: Callable[[int], None],
    ) -> None:
        member = agreement.members[index]

        def unsigned(message: Message) -> Signed:
            return pack(message, key=member.signing_key, sign=lambda _: bytes(64))

        self.ledger = Ledger(":memory:", agreement, member.name)
        gate = Gate(
            agreement,
            member.name,
            subproblem=problem,
            noise=SeededTwin(seed),
            ledger=self.ledger,
            pack=unsigned,
        )
        super().__init__(
            agreement,
            member.name,
            nonce=hashlib.sha256(member.name.encode()).digest()[:16],
            pack=unsigned,
            gate=gate,
            ledger=self.ledger,
            on_round=lambda position, _: on_round(position.round),
        )


@contextmanager
def players(
    agreement: Agreement,
    problems: list[Subproblem],
    seed: int,
    on_round: Callable[[int], None] = lambda _: None,
) -> Iterator[list[Player]]:
    """All members of a session. Their ledgers are closed at the end, whatever happens."""
    seated: list[Player] = []
    try:
        for k, problem in enumerate(problems):
            tell = on_round if k == 0 else lambda _: None
            seated.append(Player(agreement, k, problem, seed, tell))
        yield seated
    finally:
        for player in seated:
            player.ledger.close()


def run(members: list[Player]) -> None:
    """Let the members talk until all have left."""
    now = 0.0
    mail = deque(signed for member in members for signed in member.begin(now))
    while not all(member.left for member in members):
        while mail:
            signed = mail.popleft()
            for member in members:
                mail.extend(member.receive(signed, now))
                member.afterwards()
        staying = [member for member in members if not member.left]
        now = min((member.session.deadline for member in staying), default=now)
        for member in staying:
            mail.extend(member.tick(now))
            if member.error is not None:
                raise member.error


def summary(known: Outcome, instance: Instance, optimum: Optimum) -> dict[str, Any]:
    """The figures of one session. Gaps are fractions of the optimum: 0.01 is 1 %."""
    agreement = known.agreement
    problems = instance.subproblems()

    def gap(prices: Floats) -> float:
        return dual_value(instance, problems, prices) / optimum.utility - 1.0

    digest = hashlib.sha256()
    for values, prices in zip(known.released, known.prices[1:], strict=True):
        digest.update(values.astype(">i8").tobytes() + prices.astype(">f8").tobytes())
    calibration = Calibration(agreement)
    return {
        "parties": len(agreement.members),
        "rounds": agreement.rounds,
        "mode": agreement.mode,
        "step": agreement.pricing.step,
        "optimum": optimum.utility,
        "dual_gap_last": gap(known.last_prices),
        "dual_gap_average": gap(known.position.average_prices),
        "dual_gap_weighted": gap(known.prices),
        "dual_gap_best": min(gap(prices) for prices in known.prices),
        "dual_gap_best_note": "an oracle: nobody can know which round was best",
        "prices": known.prices.tolist(),
        "head": known.position.head.hex(),
        "releases_digest": digest.hexdigest(),
        "releases_per_party": known.rounds,
        "noise_std_over_capacity": (
            calibration.scales(first_caps(agreement))[:, : len(agreement.resources)].max() / TICKS
        ),
        **settled(known, instance),
        "verdict": forecast(agreement)["verdict"],
    }


def settled(known: Outcome, instance: Instance) -> dict[str, Any]:
    """What the companies together get out of the quota, of a split by shares, and of the prices.

    Utilities are sums over the companies that have a plan at all; `shortfall` is what the others
    need above their quotas, and `price_plan_overrun` what the plans at the final prices take
    above the capacity: each a part of the capacity, the largest of all resources.
    """
    parts = [
        settle(data, known, member.name)
        for data, member in zip(instance.data, known.agreement.members, strict=True)
    ]
    quota = [p.within_quota.utility for p in parts if p.within_quota is not None]
    prorata = [p.within_prorata.utility for p in parts if p.within_prorata is not None]
    uses = np.sum([p.at_prices.uses for p in parts if p.at_prices is not None], axis=0)
    extra = np.sum([p.extra_ticks for p in parts if p.extra_ticks is not None], axis=0)
    return {
        "quota_utility": math.fsum(quota),
        "quota_plans": len(quota),
        "prorata_utility": math.fsum(prorata),
        "prorata_plans": len(prorata),
        "price_plan_overrun": max(0.0, float((uses / known.agreement.capacity).max()) - 1.0),
        "shortfall": float(np.max(extra)) / TICKS,
    }


def show(console: Console, figures: dict[str, Any]) -> None:
    table = Table(
        title=f"{figures['parties']} parties, {figures['rounds']} rounds", show_header=False
    )
    for label, text in (
        ("optimum (all data in one place)", f"{figures['optimum']:.6g}"),
        ("gap at the final prices", f"{figures['dual_gap_last']:.3%}"),
        ("gap at the average of the last half", f"{figures['dual_gap_average']:.3%}"),
        ("gap at the best round (an oracle)", f"{figures['dual_gap_best']:.3%}"),
        ("utility within the quotas", _plans(figures, "quota")),
        ("utility if split by shares", _plans(figures, "prorata")),
        ("too small quotas lack / capacity", f"{figures['shortfall']:.3%}"),
        ("plans at final prices over capacity", f"{figures['price_plan_overrun']:.3%}"),
        ("noise of one release / capacity", f"{figures['noise_std_over_capacity']:.4g}"),
        ("releases of each party", str(figures["releases_per_party"])),
        ("final prices", "  ".join(f"{p:.4g}" for p in figures["prices"])),
        ("head", figures["head"][:16] + "…"),
    ):
        table.add_row(label, text)
    console.print(table)
    console.print(figures["verdict"])


def _plans(figures: dict[str, Any], kind: str) -> str:
    part = figures[f"{kind}_utility"] / figures["optimum"]
    without = figures["parties"] - figures[f"{kind}_plans"]
    return f"{part:.2%} of the optimum" + (f", {without} without a plan" if without else "")


def session_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe a session and its instance."""
    add = parser.add_argument
    add("--parties", type=int, default=5, metavar="K", help="how many companies (%(default)s)")
    add("--rounds", type=int, default=150, metavar="T", help="releases of each (%(default)s)")
    add("--mode", choices=agreements.MODES, default="private", help="%(default)s by default")
    add("--epsilon", type=float, default=1.0, help="privacy budget ε (%(default)s)")
    add("--delta", type=float, default=1e-3, help="privacy budget δ (%(default)s)")
    add("--accountant", choices=agreements.ACCOUNTANTS, default="exact")
    add("--noise", choices=agreements.SHAPES, default="component", help="spread over resources")
    add("--truncate", action="store_true", help="cut releases to [τ·c, c] after the noise")
    add("--alpha", type=float, default=1.5, help="clipped: total of the caps over c (%(default)s)")
    add("--tau", type=float, default=0.01, help="smallest weight and cut-off (%(default)s)")
    add("--step", choices=agreements.STEPS, help="default: dog in hidden mode, else theorem")
    add("--step-size", type=float, default=0.1, help="for constant and sqrt (%(default)s)")
    add("--momentum", type=float, default=0.0, metavar="γ", help="(%(default)s)")
    add("--negative", dest="nonnegative", action="store_false", help="let prices fall below 0")
    add("--worth", type=float, default=100.0, help="public worth of each resource (%(default)s)")
    add("--start", choices=("zero", "worth"), default="zero", help="first prices (%(default)s)")
    add("--share-first", type=float, help="largest part that the first party may claim")
    add("--share-total", type=float, help="sum of all shares; equal ones without --share-first")
    add("--no-demands", dest="demands", action="store_false", help="no minimum demands")
    add("--share-objective", action="store_true", help="release noisy objectives as well")
    add("--seed", type=int, help="of the instance and of the noise (the instance of seed 1)")
    add("--json", type=Path, metavar="FILE", help="write the figures to this file")


def simulate(options: argparse.Namespace, on_round: Callable[[int], None]) -> dict[str, Any]:
    """Draw an instance, play a session, and measure it."""
    instance = drawn(options)
    agreement = from_table(agreement_table(instance, options))
    with players(agreement, instance.subproblems(), options.seed, on_round) as members:
        run(members)
        heads = {m.finished and m.finished.head for m in members}
        if len(heads) != 1:
            raise AssertionError("the parties ended at different heads")
        known = outcome(agreement, members[0].ledger.transcript())
    return summary(known, instance, central(instance))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Play a whole session in one process on a problem drawn as in the paper, and "
        "compare it with the optimum that only an owner of all data could find.",
    )
    session_options(parser)
    parser.set_defaults(rehearsal=True, seed=1)
    options = parser.parse_args()
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("rounds", total=options.rounds)
        figures = simulate(options, lambda done: progress.update(task, completed=done))
    show(console, figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
