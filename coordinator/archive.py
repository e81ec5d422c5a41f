"""Keeps the public transcript of a session that is passed on, for the convener.

What is kept proves itself: whoever reads it verifies it. A signature is verified here only where
two messages claim the same place, and before the file is written. A disk that fails never stops
the session.
"""

from collections.abc import Callable
from pathlib import Path

import msgpack

from protocol.agreement import Agreement
from protocol.errors import BadCommand, BadMessage
from protocol.messages import MaskKey, Message, Release, Seal
from protocol.wire import MASK_KEY_BYTES, Glance, Reader, glance, release_bytes

Say = Callable[[str], None]
Frame = Callable[[Agreement, list[list[bytes]], list[bytes], list[bytes]], bytes]
"""Makes the file of a transcript."""


KEYS = -1
"""The round that mask keys are kept under."""


class Archive:
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
        self._places = {m.signing_key: k for k, m in enumerate(agreement.members)}
        self._length = release_bytes(agreement)
        self._rounds: dict[int, dict[int, bytes]] = {}
        self._seals: dict[int, dict[int, bytes]] = {}
        self._part = path.with_name(f"{path.name}.part")
        if path.exists() and not self._part.exists():
            raise BadCommand(f"{str(path)!r} exists already and is not overwritten")
        try:
            self._recall()
            self._journal = self._part.open("ab")
        except OSError as error:
            raise BadCommand(f"{str(path)!r} cannot be kept: {error.strerror}") from None

    def keep(self, seen: Glance, data: bytes) -> None:
        """Keep a release, or a seal that is not complete: the ones that a transcript has.

        Unless its place is taken by one whose signature fits.
        """
        place = self._places.get(seen.key)
        if place is None or not self._wanted(seen, data):
            return
        number = KEYS if seen.kind is MaskKey else seen.round
        known = self._place_of(seen.kind).setdefault(number, {})
        if known.get(place) == data or (place in known and self._fits(known[place])):
            return
        known[place] = data
        self._write(bytes(msgpack.packb([number, place, data])))

    def recalled(self) -> list[bytes]:
        """What is known already, in the order in which a session says it."""
        places = (*sorted(self._rounds.items()), *sorted(self._seals.items()))
        return [data for _, said in places for data in said.values()]

    def _wanted(self, seen: Glance, data: bytes) -> bool:
        if seen.kind is Release:
            return len(data) == self._length and seen.round < self._agreement.rounds
        if seen.kind is MaskKey:
            return self._agreement.masked and len(data) == MASK_KEY_BYTES
        if seen.kind is not Seal or seen.round > self._agreement.rounds:
            return False
        seal = self._opened(data)
        return isinstance(seal, Seal) and not seal.complete

    def _place_of(self, kind: type[Message]) -> dict[int, dict[int, bytes]]:
        return self._seals if kind is Seal else self._rounds

    def flush(self) -> None:
        """Let what was kept so far survive the end of the process."""
        self._write(b"", flush=True)

    def close(self) -> None:
        """Write the transcript: sealed, if the seals of all members have come by."""
        self.flush()
        end, seals = self._sealed()
        masked = self._agreement.masked
        keys = (self._whole(KEYS) or []) if masked else []
        rounds = self._closed(end) if keys or not masked else []
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

    def _closed(self, end: int | None) -> list[list[bytes]]:
        """The rounds from the first on in which every member's release is there and fits."""
        rounds: list[list[bytes]] = []
        while end is None or len(rounds) < end:
            whole = self._whole(len(rounds))
            if whole is None:
                break
            rounds.append(whole)
        return rounds

    def _whole(self, number: int) -> list[bytes] | None:
        """What all members have said in a round, if all of it is there and fits."""
        found = self._rounds.get(number, {})
        if len(found) < len(self._places) or not all(map(self._fits, found.values())):
            return None
        return [found[place] for place in range(len(found))]

    def _sealed(self) -> tuple[int | None, list[bytes]]:
        """The round that all members have sealed on one head, and their seals."""
        for end, found in self._seals.items():
            opened = list(map(self._opened, found.values()))
            heads = {message and message.head for message in opened}
            if len(found) == len(self._places) and len(heads) == 1 and None not in heads:
                return end, [found[place] for place in range(len(found))]
        return None, []

    def _fits(self, data: bytes) -> bool:
        return self._opened(data) is not None

    def _opened(self, data: bytes) -> Message | None:
        try:
            return self._reader.unpack(data).message
        except BadMessage:
            return None

    def _recall(self) -> None:
        """Read the journal of an earlier process, which may end in the middle of an entry."""
        if not self._part.exists():
            return
        entries = msgpack.Unpacker(max_buffer_size=0)
        entries.feed(self._part.read_bytes())
        whole = 0
        try:
            for number, place, data in entries:
                seen = glance(data)
                if seen is not None:
                    self._place_of(seen.kind).setdefault(number, {})[place] = data
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
