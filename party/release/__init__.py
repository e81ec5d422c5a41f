"""How a release is made: the gate, its noise, its mask and its pace.

Only `gate` lets anything out of the private data: it records a release, then returns it.
Only `noise` draws noise. Never here: a second answer to a round that was answered.
"""
