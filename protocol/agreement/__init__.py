"""The signed terms of a session: what the members agree on before anybody joins.

`model` has the record, `schema` every limit and default, `parse` and `render` the TOML file.
Never here: anything that is known only after the session has begun, or only to one member.
"""
