"""Who has been heard since this start of a party, and who has heard this start.

Nonces and names only: what a Hello says about rounds is the session's business. Whoever says
the digest of all nonces knows each of them, and so does not have to repeat them.
"""

import hashlib

from protocol.wire.messages import NO_NONCE, Hello

CONTEXT = b"sotto nonces\n"


class Handshake:
    """The newest nonce of every member, the own one among them."""

    def __init__(self, names: tuple[str, ...], me: str, nonce: bytes) -> None:
        self._nonces = dict.fromkeys(names, NO_NONCE) | {me: nonce}
        self._me = me
        self._asked: dict[str, bytes] = {}
        self._unheard = len(names) - 1
        self._met = b""

    @property
    def met(self) -> bytes:
        """The digest of all nonces in roster order; zeros stand for who has not been heard."""
        if not self._met:
            self._met = hashlib.sha256(b"".join((CONTEXT, *self._nonces.values()))).digest()
        return self._met

    @property
    def complete(self) -> bool:
        """Whether everybody has been heard. Until then nobody can go on."""
        return not self._unheard

    def heard(self, hello: Hello) -> bool:
        """Remember the nonce of a peer; whether that is new. Zeros are nobody's."""
        before = self._nonces[hello.sender]
        if hello.nonce in (before, NO_NONCE):
            return False
        self._unheard -= before == NO_NONCE
        self._nonces[hello.sender] = hello.nonce
        self._met = b""
        return True

    def first(self, name: str) -> bool:
        """Whether a member has not been heard before."""
        return self._nonces[name] == NO_NONCE

    def asked(self, hello: Hello, *, comparable: bool) -> None:
        """A peer wants to know that it was heard. Of another agreement no digest will tell it."""
        self._asked.pop(hello.sender, None)
        self._asked[hello.sender] = hello.met if comparable else b""

    def known_by(self, hello: Hello) -> bool:
        """Whether whoever made this Hello had heard this start.

        *Guarantee:* then it was made after this start. It answers our nonce, or its digest rests
        on it; nobody can have known either before the nonce was drawn.
        """
        return hello.answer == self._nonces[self._me] or hello.met == self.met

    def answer(self) -> bytes:
        """The nonce of the one that has waited longest among those whose digest is not ours."""
        apart = [name for name, met in self._asked.items() if met != self.met]
        self._asked = {name: self._asked[name] for name in apart[1:]}
        return self._nonces[apart[0]] if apart else NO_NONCE
