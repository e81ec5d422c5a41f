"""The only IO in `protocol`: command line, files, sockets, limits, the page server.

Shared by party, coordinator and the `protocol` command.
Never here: rules of the session or of prices.
"""
