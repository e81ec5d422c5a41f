"""What people read of a session: pages for a browser and for paper, and text for a terminal.

An edge of the package: it says what the protocol has decided and decides nothing. The rest of
`protocol` never imports it.
"""
