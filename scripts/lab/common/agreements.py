"""Builds the agreement of a session on this machine from options and an instance.

The only builder of agreements besides `coordinator new`. It reads only the public numbers of an
instance: capacities, shares and the number of companies.
"""

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protocol.agreement.schema import ACCOUNTANTS, MODES, REVEALS, SHAPES, STEPS
from protocol.numeric import Floats
from scripts.lab.common.instances import KINDS, RESOURCES, Instance, curved, draw, knapsacks

WORTH = 100.0
"""The public estimate of a capacity's total value in a drawn problem."""


def party_name(index: int) -> str:
    return f"party{index + 1}"


def public_key(name: str) -> str:
    """A signing key without an owner, for members that never sign."""
    return hashlib.sha256(name.encode()).hexdigest()


def table(
    *,
    session: str,
    mode: str,
    reveal: str = "each",
    rounds: int,
    capacity: Floats,
    share: Floats | None = None,
    members: Sequence[Mapping[str, Any]],
    names: Sequence[str] = (),
    worth: float | Floats | None = None,
    privacy: Mapping[str, Any] | None = None,
    prices: Mapping[str, Any] | None = None,
    rehearsal: bool = False,
    pace: float | None = None,
    floor: Floats | None = None,
    opposites: Sequence[str] = (),
) -> dict[str, Any]:
    """An agreement as a table. `share` has a row for each member; by default all may claim all.

    `worth` is one public estimate for each resource, or one for all; `names` are the names of the
    resources, by default numbers. With `floor` (members by resources, in units) shares are of what
    is above all floors.
    """
    names = names or [f"resource{j + 1}" for j in range(len(capacity))]
    resources: list[dict[str, Any]] = [
        {"name": name, "capacity": c} for name, c in zip(names, capacity.tolist(), strict=True)
    ]
    for resource, opposite in zip(resources, opposites, strict=False):
        if opposite:
            resource["opposite"] = opposite
    if worth is not None:
        for resource, guess in zip(resources, np.broadcast_to(worth, len(capacity)), strict=True):
            resource["worth"] = float(guess)
    claims: list[dict[str, Any]] = [{} for _ in members]
    if share is not None and floor is not None:
        above = capacity - floor.sum(axis=0)
        most = floor + share * above
        # No share is above 1, and no floor below -1.
        span = np.maximum(above, np.maximum(np.abs(most), np.abs(floor)).max(axis=0))
        for resource, amount in zip(resources, span.tolist(), strict=True):
            resource["span"] = amount
        claims = [
            {
                "floor": dict(zip(names, low, strict=True)),
                "share": dict(zip(names, up, strict=True)),
            }
            for low, up in zip((floor / span).tolist(), (most / span).tolist(), strict=True)
        ]
    elif share is not None:
        claims = [{"share": dict(zip(names, row, strict=True))} for row in share.tolist()]
    return {
        "session": session,
        "mode": mode,
        "reveal": reveal,
        "rounds": rounds,
        "rehearsal": rehearsal,
        **({} if pace is None else {"pace_seconds": pace}),
        "privacy": dict(privacy or {}),
        "prices": dict(prices or {}),
        "resource": resources,
        "member": [{**member, **claim} for member, claim in zip(members, claims, strict=True)],
    }


def players(count: int) -> list[dict[str, Any]]:
    """Members without keys, for sessions in which nothing is signed."""
    names = [party_name(k) for k in range(count)]
    return [{"name": name, "signing_key": public_key(name)} for name in names]


def agreement_table(instance: Instance, options: argparse.Namespace) -> dict[str, Any]:
    """The agreement that the options describe, as a table."""
    privacy: dict[str, Any] = {"share_objective": options.share_objective}
    if options.mode != "exact":
        privacy |= {
            "epsilon": options.epsilon,
            "delta": options.delta,
            "accountant": options.accountant,
            "noise": options.noise,
            "truncate": options.truncate,
        }
    if options.mode == "private" and options.reveal == "totals":
        given = {"colluders": options.colluders, "overrun": options.overrun}
        privacy |= {key: value for key, value in given.items() if value is not None}
    if options.mode == "clipped":
        privacy["alpha"] = min(options.alpha, float(len(instance.data)))
    if options.mode == "clipped" or privacy.get("truncate"):
        privacy["tau"] = options.tau
    usual = "ball" if options.mode == "private" and options.reveal == "totals" else "worth"
    step = options.step or ("center" if options.mode == "exact" else usual)
    prices: dict[str, Any] = {"step": step, "start": "worth" if step == "ball" else options.start}
    if step == "center":
        reserve = 0.0 if any(instance.opposites) else options.reserve
        given = {"tolerance": options.tolerance, "reserve": reserve}
        prices |= {key: value for key, value in given.items() if value is not None}
    elif step != "ball":
        prices |= {"momentum": options.momentum, "nonnegative": options.nonnegative}
    if step in ("constant", "sqrt"):
        prices["step_size"] = options.step_size
    made = table(
        session=f"simulation-{options.seed}",
        mode=options.mode,
        reveal=options.reveal,
        rounds=options.rounds,
        capacity=instance.capacity,
        share=instance.share,
        floor=instance.floor,
        opposites=instance.opposites,
        names=instance.names,
        members=players(len(instance.data)),
        worth=options.worth or None,
        privacy=privacy,
        prices=prices,
        rehearsal=options.rehearsal,
        pace=options.pace,
    )
    if options.spare is not None:
        for resource in made["resource"]:
            resource["spare"] = options.spare
    return made


def drawn(options: argparse.Namespace) -> Instance:
    """The instance that the options describe."""
    if options.kind == "whole":
        return knapsacks(options.seed, parties=options.parties, resources=options.resources)
    if options.kind == "curved":
        return curved(options.seed, parties=options.parties, resources=options.resources)
    return draw(
        options.seed,
        parties=options.parties,
        resources=options.resources,
        share_first=options.share_first,
        share_total=options.share_total,
        demands=options.demands,
    )


def session_options(parser: argparse.ArgumentParser) -> None:
    """The options that describe a session and its instance."""
    add = parser.add_argument
    add("--parties", type=int, default=5, metavar="K", help="number of companies (%(default)s)")
    add("--resources", type=int, default=RESOURCES, metavar="m",
        help="number of resources (%(default)s)")  # fmt: skip
    add("--kind", choices=KINDS, default="linear",
        help="linear: as in the paper; whole: knapsacks; curved: concave objectives")  # fmt: skip
    add(
        "--rounds",
        type=int,
        default=150,
        metavar="T",
        help="rounds at most (%(default)s)",
    )
    add("--pace", type=float, metavar="SECONDS",
        help="time from the opening of a round to a release; simulations do not wait")  # fmt: skip
    add("--mode", choices=MODES, default="private", help="mode of the agreement (private)")
    add("--reveal", choices=REVEALS, default="each", help="what others can read (%(default)s)")
    add("--colluders", type=int, help="private totals: members that may collude (1)")
    add("--overrun", type=float, help="private totals: risk that quotas exceed a capacity (0.05)")
    add("--spare", type=float, help="private totals: capacity available in addition, a fraction")
    add("--epsilon", type=float, default=1.0, help="privacy budget ε (%(default)s)")
    add("--delta", type=float, default=1e-3, help="privacy budget δ (%(default)s)")
    add("--accountant", choices=ACCOUNTANTS, default="exact")
    add("--noise", choices=SHAPES, default="component", help="shape of the noise (%(default)s)")
    add("--truncate", action="store_true", help="truncate releases to [τ·c, c] after the noise")
    add("--alpha", type=float, default=1.5, help="clipped: sum of the caps over c (%(default)s)")
    add("--tau", type=float, default=0.01, help="smallest weight and cut-off (%(default)s)")
    add("--step", choices=STEPS, help="default: center (exact), ball (private totals), else worth")
    add("--tolerance", type=float, help="center: stop at a certificate of this fraction (0.0001)")
    add("--reserve", type=float, help="center: fraction of each capacity that rounds leave (1e-10)")
    add("--step-size", type=float, default=0.1, help="for constant and sqrt (%(default)s)")
    add("--momentum", type=float, default=0.0, metavar="γ", help="momentum of prices (%(default)s)")
    add("--negative", dest="nonnegative", action="store_false", help="let prices fall below 0")
    add(
        "--worth",
        type=float,
        default=WORTH,
        help=f"worth of each capacity; 0: none is stated ({WORTH:g})",
    )
    add("--start", choices=("zero", "worth"), default="zero", help="first prices (%(default)s)")
    add("--share-first", type=float, help="largest fraction that the first party may claim")
    add("--share-total", type=float, help="sum of all shares; they are equal without --share-first")
    add("--no-demands", dest="demands", action="store_false", help="no minimum demands")
    add("--share-objective", action="store_true", help="release noisy objectives as well")
    add("--seed", type=int, help="seed of instance and noise (default: instance 1, random noise)")
    add("--json", type=Path, metavar="FILE", help="write the figures to this file")
