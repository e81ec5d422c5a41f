"""What an agreement means before anyone joins: noise, expected gain, privacy statement.

From the agreement and invented companies alone.
Never here: released or private numbers.
"""
