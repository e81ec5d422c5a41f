"""Joining a session from Python.

    from party import join

    result = join("agreement.toml", model, key="acme.key")
    result.plan, result.quota, result.payment

`model` is a file, or a model in memory of HiGHS, linopy, Pyomo or PuLP. A `Result` is un-noised and
secret: it has no printable form. Nothing happens on import.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from party.ledger.budget import Limit
from party.model.best_response import USUAL, MipLimits
from party.model.company_model import Model
from party.run import PartyConfig, run_session
from party.settlement.settle import Plan, Settlement
from party.ui.console import ProgressView, View
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.outcome.outcome import Outcome
from protocol.runtime.files import read_agreement

File = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Result:
    """What a session means for one company. Secret, except `outcome` and `prices`.

    `outcome` is public, `settlement` is the company's own. The properties give their numbers by
    the names of resources and variables.
    """

    member: str
    outcome: Outcome
    settlement: Settlement
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<private result of {self.member!r}>"

    @property
    def prices(self) -> dict[str, float]:
        """The price of one unit of each resource."""
        return self._by_resource(self.outcome.prices.tolist())

    @property
    def quota(self) -> dict[str, float]:
        """How much of each resource the company may use."""
        agreement = self.outcome.agreement
        own = amounts(agreement, self.settlement.quota_ticks, agreement.place(self.member))
        return self._by_resource(own.tolist())

    @property
    def plan(self) -> dict[str, float] | None:
        """The best plan within the quota, by variable; None if there is none."""
        return self._by_variable(self.settlement.within_quota)

    @property
    def plan_at_prices(self) -> dict[str, float] | None:
        """The best plan at the prices; it may need more than the quota."""
        return self._by_variable(self.settlement.at_prices)

    @property
    def utility(self) -> float | None:
        """The objective of the plan; a cost is negative."""
        within = self.settlement.within_quota
        return None if within is None else within.utility

    @property
    def payment(self) -> float:
        """What the company pays for its quota above what it brings; negative if it is paid."""
        return self.settlement.payment

    @property
    def gain(self) -> float | None:
        """Gain over acting alone, after payment; None if there is no plan in either case."""
        return self.settlement.gain

    def _by_resource(self, values: list[float]) -> dict[str, float]:
        resources = self.outcome.agreement.resources
        return {r.name: value for r, value in zip(resources, values, strict=True)}

    def _by_variable(self, plan: Plan | None) -> dict[str, float] | None:
        if plan is None:
            return None
        return dict(zip(self.names, plan.values.tolist(), strict=True))


# More than 8 parameters: each is a plain option of `party join`.
def join(
    agreement: File | Agreement,
    model: Model,
    *,
    key: File,
    ledger: File | None = None,
    out: File | None = None,
    data_set: str | None = None,
    limit: Limit | None = None,
    effort: MipLimits = USUAL,
    listen: str | None = None,
    seed: int | None = None,
    progress: bool = False,
) -> Result:
    """Take part in a session with a model until it ends, or resume it.

    The options are those of `party join`. `ledger` is NAME.ledger beside the key by default. With
    `out`, the files of docs/RESULT.md are written there. `limit` is a lifetime budget for the data
    set; without one, the first session's budget becomes the limit. `effort` limits the search of
    models with integers. `seed` is for rehearsals only. `progress` shows rounds on standard error.

    Raises a `SottoError` whose `exit_code` is that of `party join`. A quota that is too small is no
    error here: `plan` is None then.
    """
    if not isinstance(agreement, Agreement):
        agreement = read_agreement(Path(agreement))
    config = PartyConfig(
        agreement=agreement,
        model=model,
        key=Path(key),
        ledger=None if ledger is None else Path(ledger),
        out=None if out is None else Path(out),
        data_set=data_set,
        limit=limit,
        mip_limits=effort,
        listen=listen,
        seed=seed,
    )
    view = ProgressView(agreement) if progress else View()
    conclusion = run_session(config, view)
    return Result(
        member=conclusion.company.member,
        outcome=conclusion.outcome,
        settlement=conclusion.settlement,
        names=conclusion.company.data.names,
    )
