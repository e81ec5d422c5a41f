"""The smallest coin of a currency. Never here: an amount."""

import re

_WHOLE = frozenset(["CLP", "ISK", "JPY", "KRW", "PYG", "VND", "XAF", "XOF", "XPF", "¥"])
_THOUSANDTHS = frozenset(["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"])


def money_places(currency: str) -> int | None:
    """The decimals of a coin of a currency: two for EUR, none for JPY.

    None if people do not pay in it, such as kEUR, or if none is agreed.
    """
    if currency in _WHOLE:
        return 0
    if currency in _THOUSANDTHS:
        return 3
    return 2 if re.fullmatch("[A-Z]{3}|[€$£]", currency) else None
