"""One company's private side of a session. From Python: `check`, `rehearse`, `join`, `claim`.

`run` connects everything, from configuration to conclusion. `model` answers prices, `release`
makes releases, `ledger` stores them, `network` sends them, `driver` carries out the session's
effects, `settlement` makes plan and report, `ui` shows progress. `follow` takes part in a series
of sessions, `claim_file` writes claims, `backup` copies a ledger and puts it back.
Never here: an import of `coordinator`, or a second way for numbers to leave the party.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from party.api import Result, check, claim, join, join_async, rehearse
    from party.ledger.budget import Limit
    from party.model.best_response import MipLimits

__all__ = ["Limit", "MipLimits", "Result", "check", "claim", "join", "join_async", "rehearse"]


def __getattr__(name: str) -> Any:
    """Load the interface when it is first used: commands start faster without it."""
    if name in __all__:
        from party import api

        return getattr(api, name)
    raise AttributeError(f"module 'party' has no attribute {name!r}")
