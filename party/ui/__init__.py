"""What the operator sees while a session runs: terminal, live page, budget table.

Never here: un-noised numbers of the running session.
"""
