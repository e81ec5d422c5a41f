"""The terms of a session: what all members agree on before anyone joins.

`model` has the record, `schema` every limit and default, `parse`, `rules` and `render` the TOML
file, `quantities` the arrays. Never here: anything that is known only during a session, or only
to one member. Importing this package loads no numpy; only `quantities` does. The function `parse`
is not exported, because it has the name of its module.
"""

from protocol.agreement.model import Agreement, Member, Pricing, Privacy, Resource, Transport
from protocol.agreement.parse import from_table
from protocol.agreement.render import written

__all__ = [
    "Agreement", "Member", "Pricing", "Privacy", "Resource", "Transport", "from_table", "written",
]  # fmt: skip
