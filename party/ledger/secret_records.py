"""The secrets of one session in its ledger, and when each of them is destroyed.

Only the fingerprint of the model exists where releases are not masked. The mask key is destroyed
when the seals are stored. The demands are destroyed once the own quota and payment are computed.
The openings and the fingerprint are destroyed when the operator says so. A session that ends in
another way destroys all of them, with two exceptions. Openings stay after all members have
committed: others may have all seals. The fingerprint stays after all rounds are closed: a plan can
still be written. None of them ever leaves the party, except an opening in a claim.
"""

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from party.ledger.database import Database
from protocol.agreement.model import Agreement
from protocol.errors import BadMessage, InternalError
from protocol.numeric import Ticks
from protocol.records import Opaque
from protocol.wire.codec import Reader
from protocol.wire.messages import Signed

if TYPE_CHECKING:  # computed when a session is over
    from protocol.outcome.private_quota import Allocation

_BYTES = 32  # of a number or a blinding


class Opening(Opaque, frozen=True):
    """The openings of the own commitments: each number and its blinding. Secret."""

    numbers: tuple[int, ...]
    blindings: tuple[int, ...]

    def __repr__(self) -> str:
        return "<secret opening>"


class SecretRecords:
    """The part of a ledger that holds secrets, and what it shares with the rest of the ledger."""

    _agreement: Agreement
    _member: str
    _reader: Reader
    _file: Database
    _session: int
    #: Kept here because every release asks for it.
    _is_abandoned: bool

    def mask_keys(self) -> tuple[Signed, ...]:
        """The mask keys of all members, or none before all are there."""
        return self._messages("keys")

    def commitments(self) -> tuple[Signed, ...]:
        """The commitments of all members, or none before all are there."""
        return self._messages("commitments")

    def commit(self) -> None:
        """Make everything recorded so far durable."""
        self._file.commit()

    def _require_open(self) -> None:
        if self._is_abandoned:
            raise InternalError("an abandoned session would release something")

    def _messages(self, table: str) -> tuple[Signed, ...]:
        return tuple(self._unpack(row[0]) for row in self._file.select(table, self._session))

    def _unpack(self, data: bytes) -> Signed:
        try:
            return self._reader.unpack(data, verified=True)
        except (BadMessage, TypeError) as error:
            raise self._file.damaged(str(error)) from None

    def mask_key(self) -> Signed | None:
        """The message with the own mask key, or None."""
        found = self._file.select("masks", self._session)
        if found:
            return self._unpack(found[0][1])
        keys = self.mask_keys()
        return keys[self._agreement.place(self._member)] if keys else None

    def record_mask_key(self, secret: bytes, message: Signed) -> None:
        """Make a mask key durable. Guarantee: a session that has one cannot get another."""
        self._require_open()
        if self.mask_key() is not None:
            raise InternalError("a session has one mask key")
        self._file.insert("masks", self._session, {0: (secret, message.data)})
        self.commit()

    def mask_secret(self) -> bytes:
        """The secret mask key, while the session may need it. Secret."""
        found = self._file.select("masks", self._session)
        if not found:
            raise self._file.damaged("the mask key of an unfinished session is missing")
        return found[0][0]

    def demands(self) -> tuple[Ticks, Ticks]:
        """For each round: the demand, and the release before it was masked. Secret."""
        rows = self._file.select("demands", self._session)
        return self._ticks(row[0] for row in rows), self._ticks(row[1] for row in rows)

    def _ticks(self, rows: Iterable[bytes]) -> Ticks:
        data = b"".join(rows)
        return np.frombuffer(data, dtype=">i8").astype(np.int64).reshape(-1, self._agreement.width)

    def allocation(self) -> "Allocation | None":
        """The own quota and payment of a session with totals, once they are computed. Secret."""
        found = self._file.select("parts", self._session)
        if not found:
            return None
        quota, uncut = (np.frombuffer(found[0][i], dtype=">i8").astype(np.int64) for i in (0, 2))
        from protocol.outcome.private_quota import Allocation

        return Allocation(quota, struct.unpack(">d", found[0][1])[0], uncut)

    def record_allocation(self, allocation: "Allocation") -> None:
        """Store the own quota and payment, and destroy the demands."""
        quota, uncut = (
            ticks.astype(">i8").tobytes()
            for ticks in (allocation.quota, allocation.committed_ticks)
        )
        content = quota, struct.pack(">d", allocation.payment), uncut
        with self._file.transaction():
            self._file.insert("parts", self._session, {0: content})
            self._file.delete(self._session, "demands")
        self._file.wipe()

    def commitment(self) -> Signed | None:
        """The message with the own commitments, or None."""
        found = self._file.select("openings", self._session)
        if found:
            return self._unpack(found[0][2])
        all_members = self.commitments()
        return all_members[self._agreement.place(self._member)] if all_members else None

    def record_opening(self, opening: Opening, message: Signed) -> None:
        """Make the own commitments durable, with their openings.

        Guarantee: a session that has commitments cannot get others.
        """
        self._require_open()
        if self.commitment() is not None:
            raise InternalError("a session has one message with commitments")
        numbers, blindings = (
            b"".join(value.to_bytes(_BYTES, "little") for value in values)
            for values in (opening.numbers, opening.blindings)
        )
        with self._file.transaction():
            self._file.insert("openings", self._session, {0: (numbers, blindings, message.data)})

    def opening(self) -> Opening | None:
        """The openings of the own commitments, until they are destroyed. Secret."""
        found = self._file.select("openings", self._session)
        if not found:
            return None
        numbers, blindings = (
            tuple(
                int.from_bytes(data[at : at + _BYTES], "little")
                for at in range(0, len(data), _BYTES)
            )
            for data in found[0][:2]
        )
        return Opening(numbers, blindings)

    def model(self) -> bytes | None:
        """The fingerprint of the model with which the session was last joined, or None. Secret."""
        kinds = (bytes | None,)
        query = "SELECT model FROM sessions WHERE id = ?"
        found: bytes | None = self._file.typed_rows(query, kinds, self._session)[0][0]
        return found

    def record_model(self, fingerprint: bytes) -> None:
        """Store the fingerprint of the model with which this process joins."""
        self._set_model(fingerprint)
        self.commit()

    def _set_model(self, fingerprint: bytes | None) -> None:
        self._file.write(
            "UPDATE sessions SET model = ? WHERE id = ?", [(fingerprint, self._session)]
        )

    def forget(self) -> None:
        """Destroy the openings of the own commitments, and the fingerprint of the model.

        No claim can be made any more, and no other model is noticed.
        """
        with self._file.transaction():
            self._file.delete(self._session, "openings")
            self._set_model(None)
        self._file.wipe()
