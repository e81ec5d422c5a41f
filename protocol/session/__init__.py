"""The session between machines, as a state machine without IO: events in, effects out.

`phases` has the table of transitions, `machine` takes them, `view` holds the state. Its parts are
`handshake`, `exchange`, `sealing`, `faults`, `outbox` and `timers`; `explain` writes the errors.
Never here: a socket, a clock, a disk, or a private number.
"""
