"""Messages, their bytes, their signatures, and the transcript file.

`codec` is the only place where foreign bytes become messages; it raises nothing but `BadMessage`.
Never here: sockets, prices, or what a message means for a session.
"""
