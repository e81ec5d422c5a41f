"""What all parties compute alike. Layers, from the bottom; each imports only those before it.

`errors`, `numeric`; `agreement` (the terms); `commitment`; `wire` (messages); `privacy` and
`pricing`; `rounds` (the one step function); `session` (live) and `outcome` (from a transcript);
`planning`, `clearing` (claims); `report`. All of these are pure: the same input gives the same
bits on every machine.
Only `runtime` has sockets, files, clocks or signals. Never here: a solver, or randomness.
"""

__version__ = "0.2.0.dev0"
