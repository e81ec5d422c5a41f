"""Sockets of one party: it receives and sends bytes, and limits how many may wait.

`loop` is the event loop, `relay_link` and `mesh_link` are the two topologies, `inbox` gives each
sender its turn. `name_lookup` and `connection_monitor` find hosts and report failures.
Never here: a decision about the session, or a private number.
"""
