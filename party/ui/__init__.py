"""What the operator sees of a session: terminal, JSON events, live page, budget table.

The live page shows the private report at the end, to the operator only.
Never here: un-noised numbers of a running session.
"""
