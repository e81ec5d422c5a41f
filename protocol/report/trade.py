"""Why a session ended without trade, and which answers contradict each other.

As figures for machines and as sentences for people. Every page and command takes both from here.
Public numbers only. A contradiction is told as a fact about answers, never as an accusation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.outcome.trade import Obstacle
from protocol.report.format import coins, percent

NO_TRADE = "There is no trade: every company keeps what it brings, and no company pays."

_SHOWN = 4  # resources named in a sentence


def trade_figures(outcome: Outcome) -> dict[str, Any] | None:
    """Whether there is a trade, and what stands against it; None without a certificate."""
    if outcome.trade is None:
        return None
    names = [resource.name for resource in outcome.agreement.resources]
    return {
        "held": not outcome.no_trade,
        "obstacles": [str(obstacle) for obstacle in outcome.trade.obstacles],
        "limit": outcome.agreement.pricing.trade_limit,
        "excess": list(outcome.trade.excess),
        "at_limit": [names[j] for j in outcome.trade.at_limit],
    }


def contradiction_figures(outcome: Outcome) -> list[dict[str, Any]]:
    """Answers that contradict each other by more than is allowed. Rounds are counted from 0."""
    worth = outcome.worth
    return [
        {
            "member": found.member or None,
            "rounds": [number + 1 for number in found.rounds],  # people count from 1
            "money": found.amount,
            "part": found.amount / worth if worth > 0.0 else None,
            "allowed": found.allowed,
        }
        for found in outcome.inconsistencies
    ]


def why_no_trade(agreement: Agreement, public: Mapping[str, Any]) -> list[str]:
    """What stands against a trade and what would help, from figures; empty if there is one."""
    trade = public["trade"]
    if trade is None or trade["held"]:
        return []
    obstacles = trade["obstacles"]
    texts = [NO_TRADE]
    if Obstacle.CERTIFICATE in obstacles:
        part = (public["certificate"] or {}).get("part")
        proved = "nothing" if part is None else f"a loss of at most {percent(part)}"
        texts.append(
            f"The rounds prove {proved} of what all capacities are worth, and the agreement asks "
            f"for {percent(trade['limit'])}. More rounds would help{_or_a_worth(agreement)}."
        )
    if Obstacle.EXCESS in obstacles or Obstacle.PRICES in obstacles:
        texts.append(_short(agreement, trade))
    if Obstacle.ANSWERS in obstacles:
        texts.append(
            "Answers contradict each other by more than the agreement allows for a trade. A "
            "session without such answers would help."
        )
    return texts


def _or_a_worth(agreement: Agreement) -> str:
    stated = all(resource.worth for resource in agreement.resources)
    return "" if stated else ", or a public estimate of what the capacities are worth"


def _short(agreement: Agreement, trade: Mapping[str, Any]) -> str:
    """Which resources are short, by how much, and what would help."""
    short = sorted(
        ((e, r.name) for e, r in zip(trade["excess"], agreement.resources, strict=True) if e > 0.0),
        reverse=True,
    )
    listed = ", ".join(f"{name} by {percent(excess)}" for excess, name in short[:_SHOWN])
    rest = f" and {len(short) - _SHOWN} others" if len(short) > _SHOWN else ""
    asked = f"On average the companies asked for more than there is: {listed}{rest}. "
    if not trade["at_limit"]:
        return asked + "More rounds would help."
    dear = ", ".join(trade["at_limit"][:_SHOWN])
    told = f"{asked if short else ''}Prices rose to their limit ({dear})."
    if Obstacle.ANSWERS in trade["obstacles"]:
        return f"{told} This shows no shortage, because the answers contradict each other."
    return (
        f"{told} As far as public numbers show, the needs of the companies cannot be met together. "
        "More capacity or smaller needs would help."
    )


def _of_all(part: float) -> str:
    """A fraction of all worth at the prices of the outcome. Earlier prices can be far higher."""
    return f"{percent(part)} of all worth" if part <= 1.0 else "more than all capacities are worth"


def contradictions(agreement: Agreement, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """One text for each contradiction, and what it means; empty if there is none."""
    texts = []
    for one in found:
        whose = f"of {one['member']}" if one["member"] else "of all companies together"
        rounds = ", ".join(map(str, one["rounds"]))
        part = "" if one["part"] is None else f", {_of_all(one['part'])}"
        texts.append(
            f"The answers {whose} in the rounds {rounds} contradict each other. On average each is "
            f"worse than the best one by {coins(agreement, one['money'])}{part}, after "
            f"{coins(agreement, one['allowed'])} that the agreement allows."
        )
    if texts:
        masked = " Masks hide whose answers they are." if agreement.masked else ""
        paced = agreement.pace_seconds is not None
        late = ", or an answer may have been later than the agreed pace" if paced else ""
        texts.append(
            "No company gives such answers if they are best plans of its own. Why they were given "
            "cannot be seen: a solver may have failed, or a search for whole numbers may have "
            f"ended early{late}.{masked} What the session proves is about other answers than these."
        )
    return texts
