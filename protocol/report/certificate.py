"""What a session proves about its outcome: as figures for machines, in words for people.

Every page, command and terminal takes both from here, so that nowhere more is said than
CERTIFICATE.md proves. Public numbers only.
"""

from collections.abc import Callable, Mapping
from typing import Any

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome

Written = Callable[[float], str]


def plain(value: float) -> str:
    """A number for a terminal."""
    return f"{value:.4g}"


def money(agreement: Agreement, amount: str) -> str:
    """An amount with the currency behind it, where the agreement names one."""
    return f"{amount} {agreement.currency}" if agreement.currency else amount


def certificate_figures(known: Outcome) -> dict[str, Any] | None:
    """The certificate for machines, or None: its money, its part of all worth, whether it fits."""
    if known.certificate is None:
        return None
    return {
        "money": known.certificate.bound,
        "part": known.certificate_part,
        "fits": known.certificate.fits,
    }


def certified(
    agreement: Agreement, certificate: Mapping[str, Any] | None, *, write: Written = plain
) -> str:
    """One sentence about the figures of a certificate, or why there is none."""
    if certificate is None:
        return f"Nothing is certified: {_why_not(agreement)}."
    if not certificate["fits"]:
        return (
            "Nothing is certified about the quotas: averaged over the rounds, more was asked for "
            "than there is, and the quotas are cut to fit. More rounds would have helped."
        )
    amount = money(agreement, write(certificate["money"]))
    part = ""
    if certificate["part"] is not None:
        percent = write(100.0 * certificate["part"])
        part = f" ({percent} % of what all capacities are worth)"
    return f"No other plan for all companies together would earn more than {amount} more{part}."


def _why_not(agreement: Agreement) -> str:
    if agreement.privacy is not None:
        return "with noise nobody can know from the released numbers how good an outcome is"
    if agreement.pricing.step != "center":
        return f"the step {agreement.pricing.step!r} proves nothing, only 'center' does"
    return "no round has been closed yet"
