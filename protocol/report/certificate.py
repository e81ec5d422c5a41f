"""What a session proves about its outcome: as figures for machines, as a sentence for people.

Every page and command takes both from here, so that none claims more than CERTIFICATE.md proves.
Public numbers only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.report.format import coins, percent


def certificate_figures(outcome: Outcome) -> dict[str, Any] | None:
    """The bound in money, its part of all worth, and by how much demand does not fit, if so."""
    if outcome.certificate is None:
        return None
    return {
        "money": outcome.certificate.bound,
        "part": outcome.certificate_part,
        "fits": outcome.certificate.fits,
        "excess": max(outcome.trade.excess) if outcome.trade else 0.0,
    }


def certified(
    agreement: Agreement,
    certificate: Mapping[str, Any] | None,
    *,
    write: Callable[[float], str] = "{:.4g}".format,
) -> str:
    """One or two sentences about the figures of a certificate, or why there is none."""
    if certificate is None:
        return f"Nothing is certified: {_why_not(agreement)}."
    amount, fraction = coins(agreement, certificate["money"], most=True), ""
    if certificate["part"] is not None:
        fraction = f" ({write(100.0 * certificate['part'])} % of what all capacities are worth)"
    if not certificate["fits"]:
        # CERTIFICATE.md, Theorem 8 (b).
        cut = percent(largest_cut(agreement, certificate["excess"]))
        return (
            f"Averaged over the rounds, the companies asked for up to {cut} more "
            "than there is, and the quotas were cut by that. Before the cut, any other plan would "
            f"earn at most {amount} more{fraction}. A company that also has a plan with nothing "
            "loses by the cut at most the same percentage of what it earns above that plan. About "
            "other companies nothing is proved after the cut."
        )
    return f"Any other plan for all companies together would earn at most {amount} more{fraction}."


MIXTURES = (
    "For companies that need whole numbers this is about mixtures of their plans, each used for a "
    "part of the time. Only the company itself can know what its own plan loses against that."
)
"""What a certificate is about if some models have integers, which is not public."""


def largest_cut(agreement: Agreement, excess: float) -> float:
    """δ of CERTIFICATE.md §8: the excess, and half a tick of each member for rounding."""
    return excess + len(agreement.members) / (2.0 * agreement.ticks)


def _why_not(agreement: Agreement) -> str:
    if agreement.privacy is not None:
        return "with noise, the released numbers cannot show how good an outcome is"
    if agreement.pricing.step != "center":
        return f"the step {agreement.pricing.step!r} proves nothing, only 'center' does"
    return "no round is closed yet"
