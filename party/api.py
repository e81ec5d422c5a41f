"""Sessions from Python: check a model, rehearse, join, use the result, and claim.

    import party

    party.check("agreement.toml", model, key="acme.key")
    result = party.join("agreement.toml", model, key="acme.key", progress=True)
    result.plan, result.quota, result.payment, result.certificate, result.alone
    result.write_back(model)
    party.claim("agreement.toml", key="acme.key", payment=True)

`model` is a file, or a model in memory of HiGHS, linopy, Pyomo or PuLP. A `Result` is un-noised and
secret: only notebooks show it, and it has no other printable form. Nothing happens on import.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from party import keys
from party.claim_file import write_claim
from party.ledger.budget import Limit
from party.model import company_model, modelling_tools
from party.model.best_response import USUAL, MipLimits
from party.model.company_model import Model
from party.model.shared_rows import row_map
from party.model_check import check as check_lines
from party.rehearsal.rehearse import rehearse as rehearsed
from party.run import PartyConfig, run_session
from party.settlement.settle import Settlement
from party.ui.console import ProgressView, View
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.agreement.schema import WAIT_SECONDS
from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome
from protocol.records import Opaque
from protocol.report.format import coins
from protocol.rounds import RoundState
from protocol.runtime.files import read_agreement
from protocol.wire.messages import Signed

File = str | os.PathLike[str]
Rows = Mapping[str, str | None] | None
"""The row of each resource that has another name in the model; None if it is not used."""

Progress = bool | Callable[[int, int], None]
"""True to show rounds on standard error, or a function to call with each round and their number."""


class Result(Opaque, frozen=True, kw_only=True):
    """What a session means for one company. Secret, except `outcome`, `prices`, `certificate`.

    `outcome` is public, `settlement` is the company's own. The properties give their numbers by
    the names of resources and variables. A notebook shows a `Result` as a table: do not save it
    where others can read it.
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
        within = self.settlement.within_quota
        if within is None:
            return None
        return dict(zip(self.names, within.values.tolist(), strict=True))

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
    def alone(self) -> float | None:
        """The objective of the best plan without the others; None if there is none."""
        alone = self.settlement.alone
        return None if alone is None else alone.utility

    @property
    def certificate(self) -> float | None:
        """The most that other plans of all companies could earn in addition; None if not proved."""
        certificate = self.outcome.certificate
        return None if certificate is None else float(certificate.bound)

    @property
    def gain(self) -> float | None:
        """Gain over acting alone, after payment; None if there is no plan in either case."""
        return self.settlement.gain

    def to_frame(self) -> Any:
        """A pandas table with a row for each resource: quota, use, price. Needs pandas."""
        import pandas as pd

        uses = self.settlement.within_quota
        return pd.DataFrame(
            {
                "quota": self.quota,
                "use": None if uses is None else self._by_resource(uses.uses.tolist()),
                "price": self.prices,
            }
        )

    def plan_frame(self) -> Any:
        """A pandas table with a row for each variable of the plan. Needs pandas."""
        import pandas as pd

        return pd.Series(self.plan or {}, name="value", dtype=float).to_frame()

    def write_back(self, model: Any) -> None:
        """Put the plan into the variables of the model in memory with which you joined."""
        if self.settlement.within_quota is None:
            raise BadCommand("there is no plan within the quota to write back")
        modelling_tools.write_back(model, self.names, self.settlement.within_quota.values)

    def _repr_html_(self) -> str:
        def money(value: float | None) -> str:
            return "none" if value is None else escape(coins(self.outcome.agreement, value))

        facts = [
            ("the plan earns", money(self.utility)),
            ("alone", money(self.alone)),
            ("to receive" if self.payment < 0.0 else "to pay", money(abs(self.payment))),
            ("gain", money(self.gain)),
        ]
        quota, prices = self.quota, self.prices
        rows = [
            f"<tr><td>{escape(name)}</td><td>{quota[name]:,.6g}</td><td>{prices[name]:,.6g}</td></tr>"
            for name in quota
        ]
        return (
            f"<p><b>{escape(self.member)}</b>, private: "
            + ", ".join(f"{name} {value}" for name, value in facts)
            + "</p><table><tr><th>resource</th><th>quota</th><th>price</th></tr>"
            + "".join(rows)
            + "</table>"
        )

    def _by_resource(self, values: list[float]) -> dict[str, float]:
        resources = self.outcome.agreement.resources
        return {r.name: value for r, value in zip(resources, values, strict=True)}


class _CallbackView(View):
    """Calls a function of the program after every round."""

    def __init__(self, agreement: Agreement, on_round: Callable[[int, int], None]) -> None:
        self._rounds, self._on_round = agreement.rounds, on_round

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:  # noqa: ARG002
        self._on_round(state.round, self._rounds)


def _read(agreement: File | Agreement) -> Agreement:
    return agreement if isinstance(agreement, Agreement) else read_agreement(Path(agreement))


def _member(agreement: Agreement, member: str | None, key: File | None) -> str:
    """The name of the member, which a key has too."""
    if member is None and key is None:
        raise BadCommand("say which member you are: member=NAME, or key=FILE")
    name = keys.load(Path(key)).name if member is None and key is not None else str(member)
    agreement.place(name)
    return name


def check(
    agreement: File | Agreement,
    model: Model,
    *,
    member: str | None = None,
    key: File | None = None,
    ledger: File | None = None,
    rows: Rows = None,
    mip_limits: MipLimits = USUAL,
) -> list[str]:
    """What `party check` says about a model, line by line. Sends nothing. Secret.

    Give your name or your key. Raises what `join` would raise. A line that begins with `!` is a
    doubt.
    """
    agreed = _read(agreement)
    path = None if key is None else Path(key)
    if ledger is None and path is not None:
        ledger = path.with_suffix(".ledger")
    return list(
        check_lines(
            agreed,
            _member(agreed, member, key),
            model=model,
            key=path,
            ledger=None if ledger is None else Path(ledger),
            data_set=None,
            mip_limits=mip_limits,
            rows=row_map(rows),
        )
    )


def rehearse(
    agreement: File | Agreement,
    model: Model,
    *,
    member: str | None = None,
    key: File | None = None,
    sessions: int = 20,
    worth: float | None = None,
    rows: Rows = None,
    mip_limits: MipLimits = USUAL,
) -> dict[str, Any]:
    """The figures of `party rehearse --json`: sessions with invented partners. Sends nothing."""
    agreed = _read(agreement)
    name = _member(agreed, member, key)
    data = company_model.read(model, agreed, row_map(rows))
    return rehearsed(agreed, name, data, sessions=sessions, worth=worth, limits=mip_limits)


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
    mip_limits: MipLimits = USUAL,
    rows: Rows = None,
    listen: str | None = None,
    wait: float = WAIT_SECONDS,
    seed: int | None = None,
    progress: Progress = False,
) -> Result:
    """Take part in a session with a model until it ends, or resume it.

    The options are those of `party join`. `ledger` is NAME.ledger beside the key by default. With
    `out`, the files of docs/RESULT.md are written there. `limit` is a lifetime budget for the data
    set; without one, the first session's budget becomes the limit. `mip_limits` is for models with
    integers. `rows` names the row of each resource that has another name in the model. `wait` is
    how long to wait for the first round, in seconds (a day). `seed` is for rehearsals only.
    `progress` shows rounds on standard error, or is a function that is called with each round and
    their number.

    Raises a `SottoError` whose `exit_code` is that of `party join`. A quota that is too small is no
    error here: `plan` is None then.
    """
    agreement = _read(agreement)
    config = PartyConfig(
        agreement=agreement,
        model=model,
        key=Path(key),
        ledger=None if ledger is None else Path(ledger),
        out=None if out is None else Path(out),
        data_set=data_set,
        limit=limit,
        mip_limits=mip_limits,
        rows=row_map(rows),
        listen=listen,
        wait=wait,
        seed=seed,
    )
    view = View()
    if callable(progress):
        view = _CallbackView(agreement, progress)
    elif progress:
        view = ProgressView(agreement)
    conclusion = run_session(config, view)
    return Result(
        member=conclusion.company.member,
        outcome=conclusion.outcome,
        settlement=conclusion.settlement,
        names=conclusion.company.data.names,
    )


async def join_async(agreement: File | Agreement, model: Model, **options: Any) -> Result:
    """`join` in a thread of its own, for asyncio and notebooks. The options are those of `join`.

    A cancelled task does not end the session: it goes on in its thread, as a member should.
    """
    return await asyncio.to_thread(join, agreement, model, **options)


def claim(
    agreement: File | Agreement,
    *,
    key: File,
    resource: str | None = None,
    payment: bool = False,
    ledger: File | None = None,
    out: File | None = None,
    transcript: File | None = None,
) -> Path:
    """Write a claim to your quota of a resource, or to your payment, and return its file.

    Like `party claim`, it opens this one number for its recipient. `out` is a file or a folder.
    """
    if (resource is None) is not payment:
        raise BadCommand("say what you claim: resource=NAME for a quota, or payment=True")
    path = Path(key)
    written, _ = write_claim(
        _read(agreement),
        key=path,
        ledger=path.with_suffix(".ledger") if ledger is None else Path(ledger),
        resource=resource,
        out=None if out is None else Path(out),
        transcript=None if transcript is None else Path(transcript),
    )
    return written
