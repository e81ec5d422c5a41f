"""What all parties agree on: agreement, prices, privacy, messages, session, transcript, outcome.

Everything but the edge (`__main__`, `command`, `outputs`, `pages`) is pure. No sockets, clock,
disk or randomness, and no solver: the same input gives the same output, bit for bit, on every
machine.
"""

__version__ = "0.2.0.dev0"
