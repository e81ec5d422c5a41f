"""What a party must never forget: releases, closed rounds, and the privacy budget.

`database` is the SQLite file, `session_ledger` one session in it, `accounts` and `budget` all
sessions together. Never here: a socket, or the private model.
"""
