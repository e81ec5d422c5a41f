"""The durable record of one session: its own releases, closed rounds, and how it ended.

A release is on the disk before any other process can see it, and is never changed or deleted.
One file holds all sessions of a party.

Un-noised numbers come here only where releases are masked (`secret_records`). The file also
holds whether the solver answered in each round. None of this ever leaves the party.
"""

import os
from collections.abc import Iterable
from typing import Any

from msgspec.structs import astuple

from party.ledger import accounts
from party.ledger.budget import Account, Limit, opened
from party.ledger.database import Database, Extent
from party.ledger.secret_records import SecretRecords
from protocol.agreement.model import Agreement
from protocol.errors import Abandoned, BadLedger, InternalError, PeerError
from protocol.numeric import Ticks
from protocol.runtime.wait_times import WaitTime
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import Signed
from protocol.wire.transcript import Transcript, frame

_ANSWERED, _UNANSWERED = b"\1", b"\0"


class Ledger(SecretRecords):
    """A party's ledger, opened for one session. Only one process can have it open.

    `path` is a file, or `":memory:"` for a simulation. `data_set` names the data set whose budget
    pays for the session. More than 25 methods: each kind of record has one that writes it and one
    that reads it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        agreement: Agreement,
        member: str,
        *,
        data_set: str | None = None,
    ) -> None:
        self._agreement = agreement
        self._member = member
        self._reader = Reader(agreement)
        self._file = Database(path)
        try:
            self._find(member, data_set)
        except BaseException:
            self._file.close()  # a refused ledger must not stay locked
            raise

    def _find(self, member: str, data_set: str | None) -> None:
        """Find the session in the file, or add it."""
        agreement, file = self._agreement, self._file
        accounts.open_account(file, opened(agreement, data_set), member)
        found = file.typed_rows(
            "SELECT id, member, data_set, "
            "(SELECT count(*) FROM releases WHERE session = sessions.id), "
            "(SELECT count(*) FROM rounds WHERE session = sessions.id) "
            "FROM sessions WHERE agreement = ?",
            (int, str, str, int, int),
            agreement.digest,
        )
        self._session, owner, self.data_set, self._released, self._rounds_closed = found[0]
        if owner != member:
            raise BadLedger(
                f"in this session the ledger {file.path!r} belongs to {owner!r}, not to "
                f"{member!r}; name the ledger of {member!r} with --ledger"
            )
        accounts.require_same_data_set(agreement.session, self.data_set, data_set)
        self._is_abandoned = self.abandoned is not None

    @property
    def extent(self) -> Extent:
        """Which ledger this is, and how many releases it holds."""
        return self._file.extent

    def accounts(self) -> tuple[Account, ...]:
        """The accounts of all sessions in this ledger, this one included."""
        return accounts.accounts_in(self._file)

    def fix_limit(self, asked: Limit | None = None) -> Limit | None:
        """Fix how much this session's data set may ever spend, before it releases anything."""
        return accounts.fix_limit(self._file, self.data_set, self._agreement.digest, asked)

    def limit(self) -> Limit | None:
        """The limit of this session's data set."""
        return accounts.limits_in(self._file).get(self.data_set)

    def record_mask_keys(self, keys: tuple[Signed, ...]) -> None:
        """Store all members' mask keys. Durable with the next `record_release` or `commit`."""
        self._file.insert("keys", self._session, {i: (s.data,) for i, s in enumerate(keys)})

    def record_commitments(self, commitments: tuple[Signed, ...]) -> None:
        """Store all members' commitments. Durable with the next `commit`."""
        self._replace("commitments", commitments)

    def release(self, round: int) -> Signed | None:  # noqa: A002
        """The own release of this round, or None."""
        if round >= self._released and not self._file.failed:
            return None
        found = self._file.select("releases", self._session, round)
        return self._unpack(found[0][0]) if found else None

    def record_release(
        self,
        release: Signed,
        demand: tuple[Ticks, Ticks] | None = None,
        *,
        answered: bool = True,
    ) -> None:
        """Make a release durable, with everything that was recorded before it.

        A masked release comes with `demand`: the demand, and the release before it was masked.
        `answered` is whether the solver had an answer: one byte is written in either case.

        Guarantee: when this returns, the release survives any crash; a round that has one
        cannot get another.
        """
        self._require_open()
        if release.message.round != self._released:
            raise InternalError(
                f"release {release.message.round} would follow {self._released} recorded ones"
            )
        row = release.data, _ANSWERED if answered else _UNANSWERED
        with self._file.transaction():
            self._file.insert("releases", self._session, {release.message.round: row})
            if demand is not None:
                content = [ticks.astype(">i8").tobytes() for ticks in demand]
                self._file.insert("demands", self._session, {release.message.round: content})
        self._released += 1

    def unanswered(self) -> int:
        """In how many rounds the solver had no answer in time. Secret."""
        rows = self._file.select("releases", self._session)
        return sum(answered == _UNANSWERED for _, answered in rows)

    def record_round(self, round: int, releases: tuple[Signed, ...], chain_hash: bytes) -> None:  # noqa: A002
        """Store a closed round. Durable with the next `record_release` or `commit`."""
        if round != self._rounds_closed:
            raise InternalError(f"round {round} would follow {self._rounds_closed} closed ones")
        data = b"".join(r.data for r in releases)  # all have the same length
        self._file.insert("rounds", self._session, {round: (data, chain_hash)})
        self._rounds_closed += 1

    @property
    def sealed(self) -> bool:
        """Whether the seals of all members are stored: the session is over."""
        return bool(self._file.select("seals", self._session))

    def record_seals(self, seals: tuple[Signed, ...]) -> None:
        """Store the seals of all members: the session is over, and its mask key is destroyed."""
        with self._file.transaction():
            self._replace("seals", seals)
            self._file.delete(self._session, "masks")
        if self._agreement.masked:
            self._file.wipe()

    def record_witnessed(self, messages: tuple[Signed, ...]) -> None:
        """Replace the stored peer messages that are in no closed round: releases and seals.

        After a restart this party can still show a peer a release that its ledger has lost, or
        send it a missing seal.
        """
        if self._file.failed:
            return  # the failed disk is why this party ends
        with self._file.transaction():
            self._replace("heard", messages)

    def _replace(self, table: str, messages: tuple[Signed, ...]) -> None:
        self._file.delete(self._session, table)
        self._file.insert(table, self._session, {i: (m.data,) for i, m in enumerate(messages)})

    def record_fault(self, error: PeerError, *, over: bool) -> None:
        """Store why this session can never go on, and the messages that prove it.

        Its mask key is destroyed. Its demands are destroyed too, unless all rounds are closed
        (`over`): then `record_allocation` still needs them, and destroys them.
        """
        evidence = tuple(self._unpack(data) for data in error.evidence)
        secrets = ["masks"] if over else ["masks", "demands"]
        self._record_end(error.exit_code, str(error), evidence, secrets, over=over)

    def record_abandoned(self, *, over: bool) -> None:
        """End this session for good because its operator asked for it.

        Its mask key and demands are destroyed; its releases stay counted. The fingerprint of its
        model is destroyed unless all rounds are closed (`over`).
        Guarantee: it never releases anything again. Recording it twice changes nothing.
        """
        if self._messages("seals") or self.fault is not None:
            raise InternalError("a session that has ended was abandoned")
        self._is_abandoned = True
        text = f"abandoned after {self._rounds_closed} closed rounds"
        self._record_end(Abandoned.exit_code, text, (), ["masks", "demands"], over=over)

    def _record_end(
        self, code: int, text: str, evidence: tuple[Signed, ...], secrets: list[str], *, over: bool
    ) -> None:
        """Openings are destroyed too, unless all members have committed.

        This party may have sealed then, so others may have all seals, and the company may need a
        claim.
        """
        if not self.commitments():
            secrets = [*secrets, "openings"]
        with self._file.transaction():
            self._file.write(
                "UPDATE sessions SET fault_code = ?, fault = ? WHERE id = ?",
                [(code, text, self._session)],
            )
            self._replace("heard", evidence)
            self._file.delete(self._session, *secrets)
            if not over:  # there is never a plan to write
                self._set_model(None)
        self._file.wipe()

    @property
    def abandoned(self) -> Abandoned | None:
        """The error to raise where the operator has abandoned the session, or None."""
        code, _ = self._fault()
        if code != Abandoned.exit_code:
            return None
        agreement = self._agreement
        return Abandoned(
            f"the session {agreement.session!r} was abandoned here after {self._rounds_closed} of "
            f"{agreement.rounds} rounds: this party never resumes it, and sent nothing about it to "
            "the others. Agree on a new session; `coordinator new --from` starts it at the last "
            "prices"
        )

    def _fault(self) -> tuple[int | None, str | None]:
        query = "SELECT fault_code, fault FROM sessions WHERE id = ?"
        kinds = int | None, str | None
        code, text = self._file.typed_rows(query, kinds, self._session)[0]
        return code, text

    @property
    def fault(self) -> PeerError | None:
        """Why the session can never go on, with the evidence; or None."""
        code, text = self._fault()
        if code is None or code == Abandoned.exit_code:
            return None
        evidence = self._messages("heard")
        error = PeerError(
            f"this session is over: {text}",
            sender=evidence[0].message.sender if evidence else "",
            evidence=tuple(signed.data for signed in evidence),
        )
        error.exit_code = code
        return error

    def proof(self) -> tuple[Signed, ...]:
        """The messages that prove the `fault`, if there is one."""
        return () if self.fault is None else self._messages("heard")

    def own(self) -> tuple[Signed, ...]:
        """All own messages of exchanges: the mask key if any, releases, the commitment if any."""
        key = self.mask_key() if self._agreement.masked else None
        last = self.commitment() if self._agreement.commits else None
        messages = (key, *self._messages("releases"), last)
        return tuple(message for message in messages if message is not None)

    def witnessed(self) -> tuple[Signed, ...]:
        """The peer messages that were in no closed round when this party last ended."""
        return self._messages("heard") if self.fault is None else ()

    def transcript(self) -> Transcript:
        """All closed exchanges, and the seals once the session is over."""
        return Transcript(
            rounds=tuple(tuple(map(self._unpack, messages)) for messages in self._rounds()),
            seals=self._messages("seals"),
            keys=self.mask_keys(),
            commitments=self.commitments(),
        )

    def require_replayed(self, rounds: int, chain_hash: bytes) -> None:
        """Refuse a ledger whose rounds now give another chain hash than when they were closed."""
        if rounds > self._released:
            raise self._file.damaged(f"{rounds} rounds, but {self._released} own releases")
        stored = self._file.select("rounds", self._session, rounds - 1) if rounds else []
        if stored and stored[0][1] != chain_hash:
            raise self._file.damaged(
                f"its {rounds} rounds give another chain hash than when they were closed, or "
                "another version of this program computes other prices"
            )

    def transcript_file(self) -> bytes:
        """The transcript as the file that `protocol audit` reads."""
        seals, keys, commitments = (
            [message for (message,) in self._file.select(table, self._session)]
            for table in ("seals", "keys", "commitments")
        )
        return frame(self._agreement, self._rounds(), seals, keys, commitments)

    def _rounds(self) -> list[list[bytes]]:
        size = release_bytes(self._agreement)
        return [
            [messages[i : i + size] for i in range(0, len(messages), size)]
            for messages, _ in self._file.select("rounds", self._session)
        ]

    def record_waits(self, waited: Iterable[WaitTime]) -> None:
        """Store how long this party has waited for each peer, at an orderly shutdown."""
        if self._file.failed:
            return
        self._write("INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?, ?)", map(astuple, waited))
        self.commit()

    def waits(self) -> tuple[WaitTime, ...]:
        """How long this party has waited for each peer, as of the last orderly shutdown."""
        rows = self._file.typed_rows(
            "SELECT member, seconds, longest, last FROM waits WHERE session = ? ORDER BY member",
            (str, float, float, int),
            self._session,
        )
        return tuple(WaitTime(*row) for row in rows)

    def record_addresses(self, addresses: dict[str, str]) -> None:
        """Store where the members of a mesh listen, so that a restart finds them."""
        self._write("INSERT OR REPLACE INTO addresses VALUES (?, ?, ?)", addresses.items())
        self.commit()

    def addresses(self) -> dict[str, str]:
        """Where the members last listened."""
        query = "SELECT member, address FROM addresses WHERE session = ?"
        return dict(self._file.typed_rows(query, (str, str), self._session))

    def close(self) -> None:
        if not self._file.failed:
            self.commit()
        self._file.close()

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._file.write(statement, [(self._session, *row) for row in rows])
