"""Messages, their bytes, their signatures, and the transcript file.

`codec` is the only module that turns bytes from others into messages; it raises nothing but
`BadMessage`. Never here: sockets, prices, or what a message means for a session. Importing this
package does not load libsodium; a `Reader` loads it when it is built.
"""
