"""Plays all orders of events of small sessions with the real code of their parties.

`party` plays one party, `explorer` goes through all states one by one, `families` goes through all
sets of them, and `promises` says what must hold. Never here: a model of the protocol.
"""
