"""Noise and what it costs: from (ε, δ) to the noise of every number, and back.

PRIVACY.md proves each guarantee that a docstring states.
Never here: randomness (that is `party.release`), messages, or a private number.
"""
