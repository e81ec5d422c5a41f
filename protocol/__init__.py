"""What all parties agree on. Layers, from the bottom: each imports only what stands before it.

`errors`, `numeric`; `agreement` (the terms); `wire` (messages); `privacy` and `pricing`; `rounds`
(the one step function); `session` (live) and `outcome` (from a transcript); `planning`; `report`.
All of these are pure: the same input gives the same output, bit for bit, on every machine.
`runtime` is the only package here with sockets, files, clocks or signals.
"""

__version__ = "0.2.0.dev0"
