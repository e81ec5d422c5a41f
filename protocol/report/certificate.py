"""What a session proves about its outcome: as figures for machines, as a sentence for people.

Every page and command takes both from here, so that none claims more than CERTIFICATE.md proves.
Public numbers only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.report.format import money


def certificate_figures(outcome: Outcome) -> dict[str, Any] | None:
    """The bound in money, its part of all worth, and whether demand fits; None without one."""
    if outcome.certificate is None:
        return None
    return {
        "money": outcome.certificate.bound,
        "part": outcome.certificate_part,
        "fits": outcome.certificate.fits,
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
    if not certificate["fits"]:
        return (
            "Nothing is certified about the quotas: averaged over the rounds, the companies asked "
            "for more than there is, so the quotas were cut to fit. More rounds would have helped."
        )
    amount, fraction = money(agreement, write(certificate["money"])), ""
    if certificate["part"] is not None:
        fraction = f" ({write(100.0 * certificate['part'])} % of what all capacities are worth)"
    return f"Any other plan for all companies together would earn at most {amount} more{fraction}."


def _why_not(agreement: Agreement) -> str:
    if agreement.privacy is not None:
        return "with noise, the released numbers cannot show how good an outcome is"
    if agreement.pricing.step != "center":
        return f"the step {agreement.pricing.step!r} proves nothing, only 'center' does"
    return "no round is closed yet"
