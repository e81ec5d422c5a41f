"""How a release is made: the gate, its noise, its mask and its pace.

`gate` is the only way out of the private data; it persists, then returns.
Never here: a second answer to a round that was answered.
"""
