"""Complete sessions in one process, for `party rehearse`, simulations and tests.

The real session, gate and ledger run; only the network is left out.
Never here: a second implementation of any of them.
"""
