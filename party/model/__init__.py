"""The private linear program: reading it, and the best response to prices.

`solver_process` runs the solver in a process of its own.
Never here: noise, messages, or anything that leaves the party.
"""
