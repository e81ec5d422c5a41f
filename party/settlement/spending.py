"""How much privacy a company's data have spent, in figures and in sentences.

For the company's own files. Never here: the data themselves.
"""

import math

from msgspec import Struct

from party.ledger.budget import Limit, in_words, statement
from protocol.privacy.accountant import PrivacyCost


class Spending(Struct, frozen=True, kw_only=True):
    """What a data set has spent in a session and in all sessions, and its lifetime limit."""

    data_set: str
    delta: float
    session: PrivacyCost
    lifetime: PrivacyCost
    limit: Limit | None = None
    #: How many colluders the sessions of the data set with masked releases allow for.
    colluders: tuple[int, ...] = ()

    @property
    def sentences(self) -> tuple[str, str, str]:
        """The session, all sessions together, and the guarantee for all of them."""
        session = f"In this session your data spent {in_words(self.session, self.delta)}."
        if math.isinf(self.session.epsilon(self.delta)):
            session = (
                "This session spends any budget completely: no number bounds what it revealed."
            )
        lifetime = in_words(self.lifetime, self.delta)
        return (
            session,
            f"In all sessions together the data set {self.data_set!r} has spent {lifetime}.",
            statement(
                self.data_set,
                self.limit,
                everything=math.isinf(self.lifetime.mu_squared),
                colluders=self.colluders,
            ),
        )
