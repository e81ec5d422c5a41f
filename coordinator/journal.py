"""Keeps the public transcript of a session that is passed on, for the convener.

Only verified messages come in, and only those of the rounds that members can be in: so no member
can fill the disk. What an earlier process has left in the journal is verified before it is used. A
disk that fails never stops the session.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgpack

from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadMessage
from protocol.wire.codec import Reader
from protocol.wire.messages import MaskKey, Release, Seal, Signed

Say = Callable[[str], None]
Frame = Callable[[Agreement, list[list[bytes]], list[bytes], list[bytes]], bytes]
"""Makes the file of a transcript."""


KEYS = -1
"""The round that mask keys are kept under."""


class Journal:
    """One release for each member and round, before the first one its mask key, where there are
    such, and the seals: a journal of them beside the file.

    A coordinator that is started again goes on with the journal, which is removed when the
    session is over.
    """

    def __init__(self, agreement: Agreement, path: Path, *, frame: Frame, say: Say) -> None:
        self._agreement = agreement
        self._path = path
        self._frame = frame
        self._say = say
        self._reader = Reader(agreement)
        self._places = {m.name: k for k, m in enumerate(agreement.members)}
        self._rounds: dict[int, dict[int, bytes]] = {}
        self._seals: dict[int, dict[int, bytes]] = {}
        self._next = 0  # rounds from the first on that are whole
        self._part = path.with_name(f"{path.name}.part")
        if path.exists() and not self._part.exists():
            raise BadCommand(f"{str(path)!r} exists already and is not overwritten")
        try:
            self._recall()
            self._journal = self._part.open("ab")
        except OSError as error:
            raise BadCommand(f"{str(path)!r} cannot be kept: {error.strerror}") from None

    def keep(self, signed: Signed) -> None:
        """Keep a release, a mask key, or a seal that is not complete: what a transcript has.

        Not if it is more than one round past the first that is not closed here. Honest members
        are there only where a killed process has not kept the last round. Nor a second one for the
        same place.
        """
        if self._take(signed):
            number = KEYS if isinstance(signed.message, MaskKey) else signed.message.round
            place = self._places[signed.message.sender]
            self._write(bytes(msgpack.packb([number, place, signed.data])))

    def recalled(self) -> list[bytes]:
        """What is known already, in the order in which a session says it."""
        places = (*sorted(self._rounds.items()), *sorted(self._seals.items()))
        return [data for _, said in places for data in said.values()]

    def _take(self, signed: Signed) -> bool:
        """Remember a verified message; False if it is not wanted."""
        message = signed.message
        most = self._agreement.rounds
        if message.agreement != self._agreement.digest or message.round > self._next + 1:
            return False
        if isinstance(message, MaskKey):
            known = self._rounds.setdefault(KEYS, {})
        elif isinstance(message, Release) and message.round < most:
            known = self._rounds.setdefault(message.round, {})
        elif isinstance(message, Seal) and not message.has_all_seals and message.round <= most:
            known = self._seals.setdefault(message.round, {})
        else:
            return False
        place = self._places[message.sender]
        if place in known:
            return False
        known[place] = signed.data
        while len(self._rounds.get(self._next, ())) == len(self._places):
            self._next += 1
        return True

    def flush(self) -> None:
        """Let what was kept so far survive the end of the process."""
        self._write(b"", flush=True)

    def close(self) -> None:
        """Write the transcript: sealed, if the seals of all members have come by."""
        self.flush()
        end, seals = self._sealed()
        masked = self._agreement.masked
        keys = self._whole(self._rounds.get(KEYS, {})) or []
        closed = range(self._next if end is None else min(end, self._next))
        whole = [self._whole(self._rounds[number]) or [] for number in closed]
        rounds = whole if keys or not masked else []
        if end is not None and len(rounds) < end:
            self._say(f"the transcript lacks rounds from {len(rounds)} on: they were not heard")
            seals = []
        try:
            draft = self._path.with_name(f"{self._path.name}.new")
            draft.write_bytes(self._frame(self._agreement, rounds, seals, keys))
            draft.replace(self._path)
            self._journal.close()
            if seals:
                self._part.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"the transcript cannot be written to {self._path}: {error.strerror}")
        else:
            self._say(f"{self._path}: the transcript of {len(rounds)} rounds, which is public")

    def _whole(self, found: dict[int, bytes]) -> list[bytes] | None:
        """What all members have said in a round, if all of it is there."""
        if len(found) < len(self._places):
            return None
        return [found[place] for place in range(len(found))]

    def _sealed(self) -> tuple[int | None, list[bytes]]:
        """The round that all members have sealed on one head, and their seals."""
        for end, found in self._seals.items():
            seals = self._whole(found) or []
            heads = {self._reader.unpack(data, verified=True).message.chain_hash for data in seals}
            if len(heads) == 1:
                return end, seals
        return None, []

    def _recall(self) -> None:
        """Read the journal of an earlier process, which may end in the middle of an entry."""
        if not self._part.exists():
            return
        entries = msgpack.Unpacker(max_buffer_size=0)
        entries.feed(self._part.read_bytes())
        whole = 0
        try:
            for _, _, data in entries:
                with suppress(BadMessage):
                    self._take(self._reader.unpack(data))
                whole = entries.tell()
        except Exception:  # msgpack raises many kinds; from here on the journal is damaged
            self._say("the end of the journal is damaged and is left out")
        with self._part.open("r+b") as journal:
            journal.truncate(whole)

    def _write(self, entry: bytes, *, flush: bool = False) -> None:
        try:
            self._journal.write(entry)
            if flush:
                self._journal.flush()
        except (OSError, ValueError) as error:
            if not self._journal.closed:
                self._say(f"the journal {self._part} cannot be written: {error}")
                self._journal.close()
