"""What a party must never lose: its releases, its closed rounds, and its privacy budget.

`database` is the SQLite file and `session_ledger` one session in it. `accounts`, `budget` and
`budget_marker` cover all sessions together. Never here: a socket, or the private model.
"""
