"""Keeps the public transcript of a relayed session for the convener.

It writes exchanges that every member has contributed to, so that no member can fill the disk.
Entries of an earlier process are verified before they are used. A disk that fails never stops
the session.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgpack

from coordinator.collector import KEYS, SEALS, Exchange, RoundCollector
from coordinator.progress import Say
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.wire.codec import Reader
from protocol.wire.transcript import frame


class Journal:
    """Closed exchanges, in a file beside the transcript: mask keys if any, rounds, seals.

    The file has one list of signed messages per exchange, in roster order. A coordinator that is
    restarted continues with it. It is removed once a sealed transcript is written.
    """

    def __init__(
        self, agreement: Agreement, path: Path, collector: RoundCollector, *, say: Say
    ) -> None:
        self._agreement = agreement
        self._path = path
        self._collector = collector
        self._say = say
        #: The signed messages of all exchanges so far without a gap, except seals.
        self.exchanges: list[list[bytes]] = []
        #: Whether the last of them are commitments.
        self._committed = False
        #: When an earlier process wrote the last of them, as `time.time` counts, if one did.
        self.resumed_at: float | None = None
        self._part = path.with_name(f"{path.name}.part")
        if path.exists() and not self._part.exists():
            raise BadCommand(
                f"--transcript {str(path)!r}: the file exists and is not overwritten; choose "
                "another name"
            )
        try:
            self._recover()
            self._file = self._part.open("ab")
        except OSError as error:
            raise BadCommand(
                f"--transcript {str(path)!r} cannot be written: {error.strerror}"
            ) from None

    def append(self, closed: Iterable[Exchange]) -> None:
        """Write exchanges that were closed, unless exchanges before them are missing.

        They survive the end of the process. Members send only their newest two messages again,
        so this comes before the messages are passed on.
        """
        for exchange in closed:
            if messages := self._keep(exchange):
                self._write(bytes(msgpack.packb(messages)))

    def close(self) -> None:
        """Write the transcript: sealed if the seals of all members were received."""
        masked = self._agreement.masked
        keys, rounds = self.exchanges[:masked], self.exchanges[masked:]
        commitments = rounds[-1:] if self._committed else []
        rounds = rounds[: len(rounds) - len(commitments)]
        lists = [messages[0] if messages else [] for messages in (keys, commitments)]
        seals = [signed.data for signed in self._collector.seals]
        collector = self._collector
        if seals and (len(rounds), self._committed) != (collector.closed, collector.committed):
            self._say(
                f"the transcript lacks rounds from {len(rounds)} on: this coordinator was not "
                "running then; every member has the whole transcript"
            )
            seals = []
        try:
            draft = self._path.with_name(f"{self._path.name}.new")
            draft.write_bytes(frame(self._agreement, rounds, seals, *lists))
            draft.replace(self._path)
            self._file.close()
            if seals:
                self._part.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"the transcript cannot be written to {self._path}: {error.strerror}")
        else:
            self._say(f"{self._path}: the public transcript of {len(rounds)} rounds")

    def _keep(self, exchange: Exchange) -> list[bytes]:
        """Return the messages of an exchange if it follows the ones before it."""
        messages = [signed.data for signed in self._collector.in_roster_order(exchange)]
        if exchange.number == SEALS:
            return messages
        first = KEYS if self._agreement.masked else 0
        if exchange.number != first + len(self.exchanges):
            return []
        self.exchanges.append(messages)
        self._committed = exchange.committed
        return messages

    def _recover(self) -> None:
        """Read the journal of an earlier process, up to the first entry that is damaged."""
        if not self._part.exists():
            return
        reader = Reader(self._agreement)
        entries = msgpack.Unpacker(max_buffer_size=0)
        entries.feed(self._part.read_bytes())
        valid_bytes, written_at = 0, self._part.stat().st_mtime
        try:
            for entry in entries:
                messages = [reader.unpack(data) for data in entry]  # all of an entry, or none
                for signed in messages:
                    for exchange in self._collector.collect(signed, 0.0).closed:
                        self._keep(exchange)
                valid_bytes = entries.tell()
        except Exception:  # msgpack raises many kinds; from here on it is damaged
            if not valid_bytes:
                raise BadCommand(
                    f"{str(self._part)!r} is not the journal of this session; move it away, or "
                    "choose another name with --transcript"
                ) from None
            self._say(f"the end of the journal {self._part} is damaged and is left out")
        if self.exchanges:
            self.resumed_at = written_at
        with self._part.open("r+b") as journal:
            journal.truncate(valid_bytes)

    def _write(self, entry: bytes) -> None:
        try:
            self._file.write(entry)
            self._file.flush()
        except (OSError, ValueError) as error:
            if not self._file.closed:
                self._say(f"the journal {self._part} cannot be written: {error}")
                with suppress(OSError):  # it tries to write once more
                    self._file.close()
