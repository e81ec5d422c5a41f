"""What an agreement means before anyone joins: noise, expected gain, privacy statement.

`forecast` has the figures, `verdict` and `privacy_statement` the sentences. `incentives` says what
lies brought in trials. `synthetic_market` runs sessions of companies that are invented from the
digest of the agreement.
Never here: released or private numbers.
"""
