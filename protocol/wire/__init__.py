"""Messages, their bytes, their signatures, and the transcript file.

`codec` is the only module that turns bytes from others into messages; it raises nothing but
`BadMessage`. Never here: sockets, prices, or what a message means for a session. Importing this
package does not load libsodium; a `Reader` loads it when it is built.
"""

from protocol.wire.codec import Reader, max_message_bytes, pack, release_bytes
from protocol.wire.framing import Batches
from protocol.wire.messages import Halt, Hello, MaskKey, Message, Reason, Release, Seal, Signed
from protocol.wire.transcript import Transcript, load

__all__ = [
    "Batches", "Halt", "Hello", "MaskKey", "Message", "Reader", "Reason", "Release", "Seal",
    "Signed", "Transcript", "load", "max_message_bytes", "pack", "release_bytes",
]  # fmt: skip
