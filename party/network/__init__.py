"""Sockets of a party: relay or mesh, what comes in, and the event loop.

Never here: a decision about the session, or a private number.
"""
