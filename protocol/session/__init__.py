"""The session between machines, as a state machine without IO: events in, effects out.

`machine` has the transition table; `handshake`, `faults` and `timers` are its parts.
Never here: a socket, a clock, a disk, or a private number.
"""
