"""Noise and what it costs: from (ε, δ) to the noise of every number, and back.

`accountant` knows noise only, `calibration` reads the agreement. PRIVACY.md proves each guarantee
that a docstring states. Never here: randomness (`party.release`), messages, private numbers.
"""
