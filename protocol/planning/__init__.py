"""What an agreement means before anybody joins: noise, gain, and what is promised.

From the agreement and invented companies alone.
Never here: anything released or private.
"""
