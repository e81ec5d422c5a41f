"""The only IO in `protocol`: command line, files, sockets, limits, the page server.

Party, coordinator and the `protocol` command share it. Every limit against a hostile peer that
does not depend on the state of a session is here too: `admission`, `backlog_guard`, `backoff`.
Never here: rules of the session or of prices.
"""
