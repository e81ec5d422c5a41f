"""Sockets of one party: the relay link, the mesh link, the inbox and the event loop.

Everything here moves bytes and bounds what may wait.
Never here: a decision about the session, or a private number.
"""
