"""Runs one party's session, from its configuration to its conclusion.

The command, `party.join` and `party result` all end a session in `conclude`.
Never here: argument parsing, or a decision about the session.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from party import keys
from party.ledger import accounts, budget_marker
from party.ledger.budget import Limit, colluding, require_room, statement, unprotected
from party.ledger.session_ledger import Ledger
from party.model import company_model
from party.model.best_response import USUAL, MipLimits, Responder, responder
from party.model.company_model import CompanyModel, Model
from party.model.fingerprint import fingerprint
from party.model.shared_rows import OWN_NAMES, RowMap
from party.network.loop import PartyLoop
from party.release.gate import Gate
from party.release.noise import DiscreteGaussian, SeededGaussian
from party.release.pacing import solving_seconds
from party.settlement import result_files
from party.settlement.result_files import Company
from party.ui.console import TextView, View
from party.ui.long_step import long_step
from protocol import errors
from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.records import Opaque
from protocol.runtime.sockets import require_network

if TYPE_CHECKING:  # needed when a session is over: it would slow its start
    from party.model.child_process import Child
    from party.settlement.settle import Settlement
    from protocol.outcome.outcome import Outcome
    from protocol.outcome.private_quota import Allocation

LOSES = (
    "warning: with its whole numbers your plan leaves you worse off than alone. Read report.html "
    "before you act. Only you see this line"
)
ANOTHER_MODEL = (
    "warning: you joined this session before with another model. The answers of this one may "
    "contradict earlier answers. Only you see this line"
)


class PartyConfig(Opaque, frozen=True, kw_only=True):
    """Everything that one party needs for a session."""

    agreement: Agreement
    model: Model
    key: Path
    #: NAME.ledger beside the key, if None.
    ledger: Path | None = None
    #: Where the result files go; without it none are written.
    out: Path | None = None
    #: The data set whose privacy budget is spent; "main" if None.
    data_set: str | None = None
    #: A lifetime limit for that data set.
    limit: Limit | None = None
    mip_limits: MipLimits = USUAL
    #: Which rows of the model are which resources.
    rows: RowMap = OWN_NAMES
    #: Where to listen in a mesh, if the agreement has no address for this member.
    listen: str | None = None
    #: How long to wait for people before the first round, in seconds.
    wait: float = WAIT_SECONDS
    #: Repeatable noise, for rehearsals only.
    seed: int | None = None

    @property
    def ledger_path(self) -> Path:
        return self.ledger or self.key.with_suffix(".ledger")


class Conclusion(Opaque, frozen=True, dict=True):
    """The outcome of a session for one company. Secret."""

    company: Company
    outcome: "Outcome"
    #: The company's own quota and payment, if only totals are public.
    allocation: "Allocation | None"

    @cached_property
    def settlement(self) -> "Settlement":
        """The company's plan and gain, computed when it is first used."""
        from party.settlement.settle import settle

        company = self.company
        return settle(
            company.data,
            self.outcome,
            company.member,
            self.allocation,
            mip_limits=company.mip_limits,
        )

    def require_bound(self) -> None:
        """Raise if the commitments of all members do not add up."""
        committed = self.outcome.state.committed
        if committed is not None and not committed.adds_up:
            raise errors.Unbound(
                "the session is sealed and the outcome stands, but the commitments of all members "
                "do not add up: at least one of them is false, and masks hide which one. No claim "
                "can be made. Compare versions with the others, and settle by agreement"
            )

    def require_trade(self) -> None:
        """Raise if the session ended without trade."""
        if self.outcome.no_trade:
            raise errors.NoTrade(
                "the session ended without trade: every member keeps what it brings, and none "
                "pays. The lines above and report.html say why and what would help"
            )

    def require_plan(self) -> None:
        """Raise if the company has no plan within its quota."""
        if self.settlement.unsolved:
            raise errors.Unsolved(
                "the solver finds no plan within your quota, and cannot prove that there is none. "
                "The session is sealed all the same. Scale the model's coefficients closer to 1, "
                "or allow more time with --mip-time-limit, and run `party result`. Only you see "
                "this line and the exit code"
            )
        if self.settlement.within_quota is None:
            raise errors.QuotaTooSmall(
                "your quota is too small for any plan of your model; report.html says what is "
                "missing. The session is sealed all the same. Only you see this line and the exit "
                "code"
            )


def run_session(
    config: PartyConfig,
    view: View,
    *,
    on_left: Callable[[], None] = lambda: None,
    child: "Child | None" = None,
) -> Conclusion:
    """Take part in a session until it ends, or resume it, and conclude it.

    Raises what ends the session, after the outcome is concluded if all rounds are closed.
    `on_left` is called between: after the party has left, before its plan is made. `child` is the
    process of `solver_process.early`, for a session with a pace.
    """
    agreement, path = config.agreement, config.ledger_path
    identity = keys.load(config.key)
    identity.belongs_to(agreement)
    _require_ready(config)
    with long_step(view.privately, "reading your model"):
        data = company_model.read(config.model, agreement, config.rows)
    conclusions: list[Conclusion] = []
    with ExitStack() as stack:
        # Before the ledger: a solver process must not inherit it.
        with long_step(view.privately, "solving your model for the first time"):
            problem = _responder(config, data, identity.name, stack, child)
        opened = Ledger(path, agreement, identity.name, data_set=config.data_set)
        ledger = stack.enter_context(closing(opened))
        notices = _admit(config, ledger)
        _note_model(data, agreement, ledger, view)
        stack.callback(_mark_end, config, ledger)
        company = Company(identity.name, data, ledger, config.mip_limits)
        gate = _gate(config, identity, problem, ledger)

        def on_outcome(outcome: "Outcome") -> None:
            on_left()
            conclusions.append(conclude(outcome, company, config.out, view))

        try:
            with view:
                for text in notices:
                    view.warn(text)
                PartyLoop(
                    agreement,
                    identity,
                    gate=gate,
                    ledger=ledger,
                    view=view,
                    on_outcome=on_outcome,
                    listen=config.listen,
                    wait=config.wait,
                ).run()
        except errors.PeerError as error:
            result_files.keep_evidence(error, config.out or Path())
            raise
    if not conclusions:
        raise errors.InternalError("a session ended without an outcome and without an error")
    return conclusions[0]


def _require_ready(config: PartyConfig) -> None:
    """Raise what would keep this party from a session, before the model is read."""
    agreement, path = config.agreement, config.ledger_path
    require_network(agreement)
    if agreement.rehearsal and config.seed is None:
        raise errors.BadCommand(
            f"{agreement.session!r} is a rehearsal, which gives no privacy: join it with --seed "
            "and invented data, or ask for an agreement without rehearsal = true"
        )
    if config.out is not None:
        result_files.ensure_dir(config.out)
    if not agreement.rehearsal and not (path.exists() and path.stat().st_size):
        budget_marker.require_marked(config.key, path, None)  # before it is made


def play(
    config: PartyConfig,
    view: View,
    *,
    on_left: Callable[[], None] = lambda: None,
    child: "Child | None" = None,
) -> None:
    """Take part in one session, and raise if it ended without a trade or a plan."""
    conclusion = run_session(config, view, on_left=on_left, child=child)
    conclusion.require_bound()
    conclusion.require_trade()
    if config.out:  # without files no plan was computed
        conclusion.require_plan()


def _responder(
    config: PartyConfig,
    data: CompanyModel,
    member: str,
    stack: ExitStack,
    child: "Child | None",
) -> Responder:
    """The company's problem: in a process of its own where its time must be limited."""
    agreement = config.agreement
    if agreement.pace_seconds is None:
        return responder(data, agreement, member, config.mip_limits)
    from party.model.solver_process import Solver

    seconds = solving_seconds(agreement.pace_seconds)
    solver = Solver(data, agreement, member, limits=config.mip_limits, seconds=seconds, child=child)
    return stack.enter_context(closing(solver))


def _gate(config: PartyConfig, identity: keys.Identity, problem: Responder, ledger: Ledger) -> Gate:
    """The only way out for what the company's problem answers."""
    return Gate(
        config.agreement,
        identity.name,
        subproblem=problem,
        noise=DiscreteGaussian() if config.seed is None else SeededGaussian(config.seed),
        ledger=ledger,
        pack=identity.pack,
    )


def _admit(config: PartyConfig, ledger: Ledger) -> list[str]:
    """Refuse a session that the ledger rules out. Return warnings for the operator."""
    if ledger.abandoned is not None:
        raise ledger.abandoned
    if not config.agreement.rehearsal:
        budget_marker.mark(config.key, config.ledger_path, ledger.extent)
    before = ledger.limit()
    limit = ledger.fix_limit(config.limit)
    require_room(ledger.accounts(), config.agreement.digest, limit)
    if ledger.fault is not None and not ledger.proof():
        raise ledger.fault  # with a proof, the session shows it to members that were absent
    warnings = [
        company_model.seen_by_others(config.model),
        unprotected(ledger.accounts(), config.agreement.digest),
    ]
    if limit is not None and limit != before:
        colluders = colluding(ledger.accounts(), ledger.data_set)
        warnings.append(statement(ledger.data_set, limit, colluders=colluders))
    return [text for text in warnings if text]


def _mark_end(config: PartyConfig, ledger: Ledger) -> None:
    """Note how far the ledger goes, so that a copy from before this session is refused later."""
    if not config.agreement.rehearsal:
        with suppress(errors.BadLedger):  # a failed disk is why this party ends
            budget_marker.mark(config.key, config.ledger_path, ledger.extent)


def _note_model(data: CompanyModel, agreement: Agreement, ledger: Ledger, view: View) -> None:
    """Record which model is used, and tell the operator if another one was used before."""
    if ledger.sealed or ledger.fault is not None:
        _require_model(data, agreement, ledger)
        return  # it answers no more prices: a destroyed fingerprint stays destroyed
    mark, before = fingerprint(data, ledger.extent.id), ledger.model()
    ledger.record_model(mark)
    if before not in (None, mark) and ledger.own():
        view.privately(ANOTHER_MODEL)


def _require_model(data: CompanyModel, agreement: Agreement, ledger: Ledger) -> None:
    """Refuse to write the plan of another model than the one that was used."""
    if ledger.model() not in (None, fingerprint(data, ledger.extent.id)):
        raise errors.BadData(
            f"you joined {agreement.session!r} with another model, so the plan of this one would "
            "be wrong. Give the model file with which you joined, with the same --row and --rows. "
            "Nothing was written"
        )


def conclude(outcome: "Outcome", company: Company, out: Path | None, view: View) -> Conclusion:
    """Settle, write the files and show the outcome: the one place that concludes a session.

    Without `out` no file is written, and the company's plan is not computed here.
    """
    from party.release.allocation import own_allocation

    # First, in any case: the ledger then destroys the company's demands.
    allocation = own_allocation(outcome, company.member, company.ledger)
    conclusion = Conclusion(company, outcome, allocation)
    if out is not None:  # files first: nothing that is shown may keep them from being written
        with long_step(view.privately, "computing your plan"):
            settled = conclusion.settlement
        result_files.write_result(outcome, company, settled, out)
    view.outcome(outcome)
    if out is not None:
        view.report(result_files.write_report(outcome, company, settled, out))
        if settled.loses:
            view.privately(LOSES)
    view.finished(result_files.public_result(outcome, company.member), out)
    return conclusion


def write_again(
    agreement: Agreement,
    model: Path,
    *,
    ledger: Path,
    out: Path,
    mip_limits: MipLimits,
    rows: RowMap = OWN_NAMES,
) -> None:
    """Write the files of a session again, from the ledger. Raises what the session ended with."""
    data = company_model.read(model, agreement, rows)
    member, data_set = accounts.find_session(ledger, agreement)
    with closing(Ledger(ledger, agreement, member, data_set=data_set)) as opened:
        _require_model(data, agreement, opened)
        result_files.ensure_dir(out)
        outcome, fault = result_files.read_outcome(opened, agreement, member), opened.fault
        company = Company(member, data, opened, mip_limits)
        conclusion = None
        if outcome.state.over:
            conclusion = conclude(outcome, company, out, TextView(agreement))
        if fault is not None:
            if not result_files.keep_evidence(fault, out):
                raise errors.BadCommand(f"the evidence cannot be written to {str(out)!r}")
            raise fault
        if opened.abandoned is not None:
            raise opened.abandoned
    if conclusion is None:
        raise errors.Unavailable(
            f"the session {agreement.session!r} has closed {outcome.rounds} of "
            f"{agreement.rounds} rounds: there is no outcome yet; resume it with `party join`"
        )
    if not outcome.sealed:
        raise errors.Unsealed(
            f"the seals of {', '.join(map(repr, outcome.unsealed))} are missing; run `party join` "
            "again when these members are back, or another member that has their seals"
        )
    conclusion.require_bound()
    conclusion.require_trade()
    conclusion.require_plan()
