"""Sessions for tests of reports, and a reader for their pages.

Each session is played once and kept for all tests of a process.
"""

import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.company_model import CompanyModel, dense
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.settlement.private_report import private_document, private_parts
from party.settlement.settle import Settlement, settle
from party.settlement.spending import Spending
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.schema import TICKS
from protocol.outcome.outcome import Outcome, outcome
from protocol.privacy.accountant import PrivacyCost
from protocol.report.public import public_page
from protocol.wire.transcript import Transcript
from scripts.lab.common.agreements import agreement_table, drawn
from scripts.lab.common.instances import Instance
from tests.support import ROOT
from tests.support.local_sessions import options
from tests.support.wait import LIMIT

SCRIPT = "<script>alert(1)</script>"


HOSTILE = "a\"b'</td></table><img src=x onerror=alert(1)>&amp;,"


SPENDING = Spending(
    data_set="main", delta=1e-3, session=PrivacyCost(0.0625), lifetime=PrivacyCost(math.inf)
)


class Played(Struct, frozen=True):
    """A session that was played to its end, and what its first member has."""

    outcome: Outcome
    data: CompanyModel
    settlement: Settlement

    @property
    def agreement(self) -> Agreement:
        return self.outcome.agreement

    @property
    def member(self) -> str:
        return self.agreement.members[0].name

    def private(self, settlement: Settlement | None = None, **more: Any) -> str:
        """The private page of the first member; `more` replaces what it is made of."""
        fields: dict[str, Any] = {
            "outcome": self.outcome,
            "data": self.data,
            "settlement": settlement or self.settlement,
            "spending": SPENDING,
        }
        fields |= more
        parts = private_parts(member=self.member, **fields)
        return private_document(fields["outcome"], self.member, parts)

    def public(self) -> str:
        return public_page(self.outcome)

    def short(self) -> Settlement:
        """The settlement if the quota were too small."""
        extra = np.array([0, TICKS // 8, 0, 0, TICKS // 4], dtype=np.int64)
        return replace(self.settlement, within_quota=None, extra_ticks=extra)


@cache
def played() -> Played:
    """A session with noise over the longest and the most hostile names that there can be."""
    chosen = options("--epsilon", "64", "--share-total", "2", "--no-demands", parties=4, rounds=40)
    instance = drawn(chosen)
    terms = agreement_table(instance, chosen)
    for member in terms["member"]:
        share = member["share"]
        share["W" * 64] = share.pop("resource3")
    for resource, unit in zip(terms["resource"], ("h", SCRIPT, "m" * 80, "", "°C"), strict=True):
        resource["unit"] = unit
    terms["resource"][2]["name"] = "W" * 64
    agreement = from_table(terms)
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        transcript = members[0].ledger.transcript()
    names = (HOSTILE, "V" * 255, *instance.data[0].names[2:])
    data = replace(instance.data[0], names=names)
    known = outcome(agreement, transcript)
    return Played(known, data, settle(data, known, "party1"))


class Page(HTMLParser):
    """What a page is made of, read as a browser would."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"a stray end of {tag}"

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.tags}

    def quotas(self) -> Iterator[list[list[str]]]:
        """The rows of every table of quotas."""
        for rows in self.tables:
            if rows and rows[-1][0] == "total = capacity":
                yield rows


def value(text: str) -> Decimal:
    return Decimal(re.sub(r"[, %]", "", text).replace("\u2212", "-"))


def protocol(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "protocol", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


SEEN = """(() => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.width, r.height]; };
  const seen = e => e.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const banner = document.querySelector('.banner');
  const style = banner && getComputedStyle(banner);
  return {
    viewport: document.documentElement.clientWidth,
    scroll: document.documentElement.scrollWidth,
    headings: [...document.querySelectorAll('h1, h2')].filter(seen).map(e => e.textContent),
    charts: [...document.querySelectorAll('svg.chart')].map(box),
    lines: [...document.querySelectorAll('polyline')].map(box),
    bars: [...document.querySelectorAll('svg.bar')].map(box),
    size: parseFloat(getComputedStyle(document.querySelector('td')).fontSize),
    banner: banner && seen(banner) && {
      text: banner.textContent, top: banner.getBoundingClientRect().top,
      colours: [style.color, style.backgroundColor], border: parseFloat(style.borderTopWidth),
    },
  };
})()"""


@cache
def certain_session() -> tuple[Agreement, Instance, Transcript]:
    """A session without noise that ended by itself, in a currency, with endowments of its own."""
    chosen = options("--mode", "exact", "--no-demands", parties=3, rounds=150)
    instance = drawn(chosen)
    terms = agreement_table(instance, chosen) | {"currency": "EUR"}
    for member, part in zip(terms["member"], (0.5, 0.25, 0.25), strict=True):
        member["endowment"] = part
    for resource in terms["resource"]:
        resource["unit"] = "h"
    agreement = from_table(terms)
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        return agreement, instance, members[0].ledger.transcript()


@cache
def certain() -> Played:
    """The outcome of that session, for its first member."""
    agreement, instance, transcript = certain_session()
    known = outcome(agreement, transcript)
    return Played(known, instance.data[0], settle(instance.data[0], known, "party1"))


def amount(text: str, before: str) -> Decimal:
    """The amount of money that stands behind these words."""
    found = re.search(rf"{re.escape(before)}\s*([\u2212\d.,]+)(?: EUR)?", text)
    assert found is not None, before
    return value(found[1])


@cache
def brought() -> Played:
    """4 hours are there, the first company makes 4 more at 2 each, two others take 4 each."""

    def company(takes: float, earns: float, most: float = 4.0) -> CompanyModel:
        none = np.zeros(0)
        made = dense(
            A=np.array([[takes]]), B=np.zeros((0, 1)), u=np.array([earns]), row_lower=none,
            row_upper=none, lower=np.zeros(1), upper=np.array([most]),
        )  # fmt: skip
        return replace(made, names=("hours_made",) if takes < 0.0 else ("things",))

    data = (company(-1.0, -2.0), company(1.0, 5.0), company(1.0, 4.0, most=9.0))
    floor = np.array([[-4.0], [0.0], [0.0]])
    share = np.array([[0.5], [1.0], [1.0]])
    instance = Instance(np.array([4.0]), share, data, ("hours",), floor)
    chosen = options("--mode", "exact", parties=3, rounds=150)
    agreement = from_table(agreement_table(instance, chosen) | {"currency": "EUR"})
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
    return Played(known, data[0], settle(data[0], known, "party1"))


@cache
def noisy() -> Played:
    """Twelve companies, only whose noisy totals can be read, with the step `ball`."""
    chosen = options(
        *("--epsilon", "16", "--share-total", "2", "--no-demands", "--reveal", "totals"),
        *("--start", "worth", "--seed", "7"),
        parties=12,
        rounds=20,
    )
    instance = drawn(chosen)
    agreement = from_table(agreement_table(instance, chosen) | {"currency": "EUR"})
    with players(agreement, instance.subproblems(), chosen.seed) as members:
        run(members)
        ledger = members[0].ledger
        known = outcome(agreement, ledger.transcript())
        allocation = own_allocation(known, "party1", ledger)
    return Played(known, instance.data[0], settle(instance.data[0], known, "party1", allocation))
