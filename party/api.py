"""Taking part in a session: what `party join` does, and `join` for programs that hold a model.

    from party.api import join

    result = join("agreement.toml", model, key="acme.key")
    result.plan, result.quota, result.payment

`model` is a file, or a model in memory of HiGHS, linopy, Pyomo or PuLP. What a `Result` says is
un-noised and secret: it has no printable form. Nothing happens on import.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path

from party import keys
from party.ledger import budget_marker
from party.ledger.budget import Limit, colluding, require_room, statement
from party.ledger.session_ledger import Ledger
from party.model import company_model
from party.model.best_response import USUAL, MipLimits, Responder, subproblem
from party.model.company_model import CompanyModel, Model
from party.model.solver_process import Solver
from party.network.loop import PartyLoop
from party.release.noise import DiscreteGaussian, SeededGaussian
from party.release.pacing import solving_seconds
from party.settlement.result_files import keep_evidence, write_result
from party.settlement.settle import Plan, Settlement, own_part, settle
from party.ui.console import QuietView, TextView, View
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.errors import BadCommand, InternalError, PeerError
from protocol.outcome.outcome import Outcome
from protocol.runtime.files import read_agreement
from protocol.runtime.sockets import require_network

File = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Result:
    """What a session came to for one company. Secret, but for `outcome` and `prices`.

    `outcome` is what everybody knows, `settlement` all that it means for this company; the
    rest says the same by the names of resources and variables.
    """

    member: str
    outcome: Outcome
    settlement: Settlement
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<private result of {self.member!r}>"

    @property
    def prices(self) -> dict[str, float]:
        """What a unit of each resource is worth."""
        return self._by_resource(self.outcome.prices.tolist())

    @property
    def quota(self) -> dict[str, float]:
        """How much of each resource the company may use."""
        agreement = self.outcome.agreement
        own = amounts(agreement, self.settlement.quota_ticks, agreement.place(self.member))
        return self._by_resource(own.tolist())

    @property
    def plan(self) -> dict[str, float] | None:
        """The best plan within the quota, by variable; None if the quota is too small for any."""
        return self._by_variable(self.settlement.within_quota)

    @property
    def plan_at_prices(self) -> dict[str, float] | None:
        """The plan that answers the prices, which is not guaranteed to be possible."""
        return self._by_variable(self.settlement.at_prices)

    @property
    def utility(self) -> float | None:
        """What the plan earns by the model's own objective; a cost has a minus."""
        within = self.settlement.within_quota
        return None if within is None else within.utility

    @property
    def payment(self) -> float:
        """What the company pays for its quota above what it brought; what it gets is negative."""
        return self.settlement.payment

    @property
    def gain(self) -> float | None:
        """How much better off it is than alone, after payment, where both have a plan."""
        return self.settlement.gain

    def _by_resource(self, values: list[float]) -> dict[str, float]:
        resources = self.outcome.agreement.resources
        return {r.name: value for r, value in zip(resources, values, strict=True)}

    def _by_variable(self, plan: Plan | None) -> dict[str, float] | None:
        if plan is None:
            return None
        return dict(zip(self.names, plan.values.tolist(), strict=True))


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
    """Take part in a session with a model, to its end or on from where it stopped.

    As `party join`: `ledger` is NAME.ledger beside the key unless it is said, with `out` the files
    of RESULT.md are written there, `limit` is a lifetime budget for the data set (without one the
    first session sets it to what that session may spend), `effort` is for models with whole
    numbers, `seed` for rehearsals only. `progress` shows the rounds on standard error. Raises a
    `SottoError` whose `exit_code` is that of `party join`; a quota that is too small is no error
    here: `plan` is None then.
    """
    if not isinstance(agreement, Agreement):
        agreement = read_agreement(Path(agreement))
    folder = None if out is None else Path(out)
    results: list[Result] = []

    def finish(known: Outcome, company: Company) -> None:
        own = own_part(known, company.member, company.ledger)
        settlement = settle(company.data, known, company.member, own, effort=effort)
        if folder is not None:
            write_result(
                known,
                company.member,
                company.data,
                ledger=company.ledger,
                folder=folder,
                settlement=settlement,
            )
        results.append(
            Result(
                member=company.member,
                outcome=known,
                settlement=settlement,
                names=company.data.names,
            )
        )

    run_session(
        agreement,
        model,
        key=Path(key),
        ledger=None if ledger is None else Path(ledger),
        out=folder,
        data_set=data_set,
        limit=limit,
        effort=effort,
        listen=listen,
        seed=seed,
        view=TextView(agreement) if progress else QuietView(agreement),
        on_outcome=finish,
    )
    if not results:
        raise InternalError("a session ended without an outcome and without an error")
    return results[0]


@dataclass(frozen=True, repr=False, eq=False)
class Company:
    """Who takes part, with what data, and where that is remembered. Secret."""

    member: str
    data: CompanyModel
    ledger: Ledger


def run_session(
    agreement: Agreement,
    model: Model,
    *,
    key: Path,
    ledger: Path | None,
    out: Path | None,
    data_set: str | None,
    limit: Limit | None,
    effort: MipLimits,
    listen: str | None,
    seed: int | None,
    view: View,
    on_outcome: Callable[[Outcome, Company], None],
) -> None:
    """Play a session to its end, for a person or for a program.

    `on_outcome` is called once, when all rounds are closed, sealed or not, with the ledger still
    open; what it raises is raised when nobody needs this party any more.
    """
    who = keys.load(key)
    who.belongs_to(agreement)
    require_network(agreement)
    if agreement.rehearsal and seed is None:
        raise BadCommand(
            f"{agreement.session!r} is a rehearsal, which gives no privacy: join it with --seed "
            "and invented data, or ask for an agreement without rehearsal = true"
        )
    if out is not None:
        ensure_dir(out)
    data = company_model.read(model, agreement)
    path = ledger or key.with_suffix(".ledger")
    if not agreement.rehearsal and not path.exists():
        budget_marker.require_marked(key, path, None)  # before it is made
    with ExitStack() as stack:
        problem: Responder
        if agreement.pace_seconds is None:
            problem = subproblem(data, agreement, who.name, effort)
        else:  # beside, so that its time can be kept; before there is anything to inherit
            seconds = solving_seconds(agreement.pace_seconds)
            beside = Solver(data, agreement, who.name, limits=effort, seconds=seconds)
            problem = stack.enter_context(closing(beside))
        opened = Ledger(path, agreement, who.name, data_set=data_set)
        memory = stack.enter_context(closing(opened))
        if memory.abandoned is not None:
            raise memory.abandoned
        if not agreement.rehearsal:
            budget_marker.mark(key, path, memory.id)
        kept = memory.limit()
        fixed = memory.fix_limit(limit)
        require_room(memory.accounts(), agreement.digest, memory.data_set, fixed)
        if memory.fault is not None and not memory.proof():
            raise memory.fault  # with the proof it is shown to those who were not there
        company = Company(who.name, data, memory)
        try:
            with view if isinstance(view, AbstractContextManager) else nullcontext():
                if seen := company_model.seen_by_others(model):
                    view.warn(seen)
                if fixed is not None and fixed != kept:
                    colluders = colluding(memory.accounts(), memory.data_set)
                    view.warn(statement(memory.data_set, fixed, colluders=colluders))
                PartyLoop(
                    agreement,
                    who,
                    subproblem=problem,
                    noise=DiscreteGaussian() if seed is None else SeededGaussian(seed),
                    ledger=memory,
                    view=view,
                    on_finish=lambda known: on_outcome(known, company),
                    listen=listen,
                ).run()
        except PeerError as error:
            keep_evidence(error, out or Path())
            raise


def ensure_dir(folder: Path) -> None:
    """Make the folder for a result, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadCommand(f"--out {str(folder)!r} cannot be made: {error.strerror}") from None
