"""The durable memory of one session: what the party released, what rounds are closed, the end.

A release is on the disk before anybody else can see it, and what is there is never changed
or taken away. One file holds all sessions of a party.

Un-noised numbers never come here but where releases are masked: then it holds the secret mask
key and what the party asked for, until the one is needed no more and the other has become its
quota, and they are destroyed. It also holds whether the solver answered in each round. None of
this is ever told outside of this party.
"""

import os
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from party.ledger import accounts
from party.ledger.budget import Account, Limit, opened
from party.ledger.database import ANSWER, NO_ANSWER, Database
from protocol.agreement.model import Agreement
from protocol.errors import Abandoned, BadLedger, BadMessage, InternalError, PeerError
from protocol.numeric import Ticks
from protocol.outcome.private_quota import Allocation
from protocol.runtime.wait_times import WaitTime
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import Signed
from protocol.wire.transcript import Transcript, frame


class Ledger:
    """A party's ledger, opened for one session. Only one process can have it open.

    `path` is a file, or `":memory:"` for a simulation that need not survive. `data_set` says
    on whose budget the session goes, where the company tells its data sets apart.
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
            self._file.close()  # so that a ledger that was refused is not locked as well
            raise

    def _find(self, member: str, data_set: str | None) -> None:
        """Find the session, or enter it."""
        agreement, file = self._agreement, self._file
        accounts.enter(file, opened(agreement, data_set), member)
        self._session, owner, self.data_set, self._released, self._rounds_closed = file.rows(
            "SELECT id, member, data_set, "
            "(SELECT count(*) FROM releases WHERE session = sessions.id), "
            "(SELECT count(*) FROM rounds WHERE session = sessions.id) "
            "FROM sessions WHERE agreement = ?",
            agreement.digest,
        )[0]
        if owner != member:
            raise BadLedger(
                f"the ledger {file.path!r} belongs to {owner!r} in this session, not to {member!r}"
            )
        accounts.require_same(agreement.session, self.data_set, data_set)
        self._given_up = self.abandoned is not None  # asked for with every release

    @property
    def id(self) -> bytes:
        """What tells this ledger from all others, and not from its copies."""
        return self._file.id

    def accounts(self) -> tuple[Account, ...]:
        """What every session in this ledger has spent, this one included."""
        return accounts.accounts_in(self._file)

    def fix_limit(self, asked: Limit | None = None) -> Limit | None:
        """Fix how much this session's data set may ever spend, before it releases anything."""
        return accounts.fix_limit(self._file, self.data_set, self._agreement.digest, asked)

    def limit(self) -> Limit | None:
        """The limit of this session's data set."""
        return accounts.limits_in(self._file).get(self.data_set)

    def mask_key(self) -> Signed | None:
        """The own mask key as it was announced, or None."""
        found = self._file.kept("masks", self._session)
        if found:
            return self._open(found[0][1])
        said = self.mask_keys()
        return said[self._agreement.place(self._member)] if said else None

    def record_mask_key(self, secret: bytes, said: Signed) -> None:
        """Make a mask key durable. Guarantee: a session that has one cannot get another."""
        self._require_open()
        if self.mask_key() is not None:
            raise InternalError("a session has one mask key")
        self._file.keep("masks", self._session, {0: (secret, said.data)})
        self.commit()

    def mask_secret(self) -> bytes:
        """The secret mask key, for as long as the session may need it. Secret."""
        found = self._file.kept("masks", self._session)
        if not found:
            raise self._file.damaged("it lacks the mask key of a session that goes on")
        return found[0][0]

    def mask_keys(self) -> tuple[Signed, ...]:
        """The mask keys of all members, once they are known."""
        return self._all("keys")

    def record_mask_keys(self, keys: tuple[Signed, ...]) -> None:
        """Keep the mask keys of all members. Durable with the next `record_release` or `commit`."""
        self._file.keep("keys", self._session, {i: (s.data,) for i, s in enumerate(keys)})

    def demands(self) -> tuple[Ticks, Ticks]:
        """Rounds by numbers: what the party asked for, and what it said before the mask. Secret."""
        rows = self._file.kept("demands", self._session)
        return self._ticks(row[0] for row in rows), self._ticks(row[1] for row in rows)

    def _ticks(self, rows: Iterable[bytes]) -> Ticks:
        data = b"".join(rows)
        return np.frombuffer(data, dtype=">i8").astype(np.int64).reshape(-1, self._agreement.width)

    def part(self) -> Allocation | None:
        """The own quota and payment, once they are known, where nobody else knows them. Secret."""
        found = self._file.kept("parts", self._session)
        if not found:
            return None
        quota = np.frombuffer(found[0][0], dtype=">i8").astype(np.int64)
        return Allocation(quota, struct.unpack(">d", found[0][1])[0])

    def record_part(self, part: Allocation) -> None:
        """Keep the own quota and payment, and destroy what the party asked for."""
        content = part.quota.astype(">i8").tobytes(), struct.pack(">d", part.payment)
        with self._file.whole():
            self._file.keep("parts", self._session, {0: content})
            self._file.forget(self._session, "demands")
        self._file.scrub()

    def release(self, round: int) -> Signed | None:  # noqa: A002
        """What was released in this round, or None."""
        if round >= self._released and not self._file.failed:
            return None
        found = self._file.kept("releases", self._session, round)
        return self._open(*found[0]) if found else None

    def record_release(
        self,
        release: Signed,
        demand: tuple[Ticks, Ticks] | None = None,
        *,
        answered: bool = True,
    ) -> None:
        """Make a release durable, with whatever was recorded before it.

        `demand` goes with a masked one: what the party asked for, and what it says beneath the
        mask. `answered` is whether the solver had an answer: one byte is written in either case.

        Guarantee: when this returns, the release survives any crash; a round that has one
        cannot get another.
        """
        self._require_open()
        if release.message.round != self._released:
            raise InternalError(
                f"release {release.message.round} would follow {self._released} recorded ones"
            )
        with self._file.whole():
            self._file.keep("releases", self._session, {release.message.round: (release.data,)})
            noted = ANSWER if answered else NO_ANSWER
            self._file.keep("answers", self._session, {release.message.round: (noted,)})
            if demand is not None:
                content = [ticks.astype(">i8").tobytes() for ticks in demand]
                self._file.keep("demands", self._session, {release.message.round: content})
        self._released += 1

    def unanswered(self) -> int:
        """In how many rounds the solver had no answer when it was due. Secret."""
        return sum(noted == NO_ANSWER for (noted,) in self._file.kept("answers", self._session))

    def record_round(self, round: int, releases: tuple[Signed, ...], chain_hash: bytes) -> None:  # noqa: A002
        """Keep a closed round and its head. Durable with the next `record_release` or `commit`."""
        if round != self._rounds_closed:
            raise InternalError(f"round {round} would follow {self._rounds_closed} closed ones")
        data = b"".join(r.data for r in releases)  # all have the same length
        self._file.keep("rounds", self._session, {round: (data, chain_hash)})
        self._rounds_closed += 1

    def record_seals(self, seals: tuple[Signed, ...]) -> None:
        """Keep the seals of all members: the session is over, and its mask key is destroyed."""
        with self._file.whole():
            self._replace("seals", seals)
            self._file.forget(self._session, "masks")
        if self._agreement.masked:
            self._file.scrub()

    def record_heard(self, said: tuple[Signed, ...]) -> None:
        """Keep what peers have released in rounds that are not closed, or have sealed, and no more.

        It makes this party a witness: a peer whose ledger has lost such a release is shown it,
        and who lacks a seal gets it, also after this party was started again.
        """
        if self._file.failed:
            return  # the disk that failed before is why this party ends
        with self._file.whole():
            self._replace("heard", said)

    def _replace(self, table: str, said: tuple[Signed, ...]) -> None:
        self._file.forget(self._session, table)
        self._file.keep(table, self._session, {i: (s.data,) for i, s in enumerate(said)})

    def record_fault(self, error: PeerError, *, over: bool = False) -> None:
        """Remember why this session is over for good, and the messages that prove it.

        Its mask key is destroyed, and what the party asked for as well, unless all rounds are
        closed (`over`): then its quota follows from that, and destroys it.
        """
        proof = tuple(self._open(data) for data in error.evidence)
        with self._file.whole():
            self._file.write(
                "UPDATE sessions SET fault_code = ?, fault = ? WHERE id = ?",
                [(error.exit_code, str(error), self._session)],
            )
            self._replace("heard", proof)
            self._file.forget(self._session, "masks", *([] if over else ["demands"]))
        if self._agreement.masked:
            self._file.scrub()

    def record_abandoned(self) -> None:
        """End this session for good because its operator wants it, whatever peers do.

        Its mask key and what the party asked for are destroyed; what it released stays counted.
        Guarantee: it never releases anything again. To record it twice changes nothing.
        """
        if self._all("seals") or self.fault is not None:
            raise InternalError("a session that has ended was abandoned")
        self._given_up = True
        text = f"abandoned after {self._rounds_closed} closed rounds"
        with self._file.whole():
            self._file.write(
                "UPDATE sessions SET fault_code = ?, fault = ? WHERE id = ?",
                [(Abandoned.exit_code, text, self._session)],
            )
            self._file.forget(self._session, "masks", "demands", "heard")
        self._file.scrub()

    @property
    def abandoned(self) -> Abandoned | None:
        """That the operator has given the session up, or None."""
        code, _ = self._fault()
        if code != Abandoned.exit_code:
            return None
        agreement = self._agreement
        return Abandoned(
            f"the session {agreement.session!r} was abandoned here after {self._rounds_closed} of "
            f"{agreement.rounds} rounds: this party never goes on with it, and has told nobody. "
            "Agree on a new session; `coordinator new --from` begins it at the prices reached"
        )

    def _require_open(self) -> None:
        if self._given_up:
            raise InternalError("a session that was abandoned would release something")

    def _fault(self) -> tuple[int | None, str | None]:
        code, text = self._rows("SELECT fault_code, fault FROM sessions WHERE id = ?")[0]
        return code, text

    @property
    def fault(self) -> PeerError | None:
        """Why the session was stopped for good, with the proof; or None."""
        code, text = self._fault()
        if code is None or code == Abandoned.exit_code:
            return None
        proof = self._all("heard")
        error = PeerError(
            f"this session is over: {text}",
            sender=proof[0].message.sender if proof else "",
            evidence=tuple(signed.data for signed in proof),
        )
        error.exit_code = code
        return error

    def proof(self) -> tuple[Signed, ...]:
        """The messages that prove why the session is over for good, where it is."""
        return () if self.fault is None else self._all("heard")

    def own(self) -> tuple[Signed, ...]:
        """All that the party has released in this session, its mask key first if it has one."""
        key = self.mask_key() if self._agreement.masked else None
        return self._all("releases") if key is None else (key, *self._all("releases"))

    def heard(self) -> tuple[Signed, ...]:
        """What peers had said that was in no closed round when this party last ended."""
        return self._all("heard") if self.fault is None else ()

    def transcript(self) -> Transcript:
        """All closed rounds, and the seals where the session is over."""
        return Transcript(
            rounds=tuple(tuple(map(self._open, messages)) for messages in self._rounds()),
            seals=self._all("seals"),
            keys=self.mask_keys(),
        )

    def require_replayed(self, rounds: int, chain_hash: bytes) -> None:
        """Refuse a ledger whose rounds lead to another head now than when they were closed."""
        if rounds > self._released:
            raise self._file.damaged(f"{rounds} rounds, but {self._released} own releases")
        kept = self._file.kept("rounds", self._session, rounds - 1) if rounds else []
        if kept and kept[0][1] not in (b"", chain_hash):
            raise self._file.damaged(
                f"its {rounds} rounds lead to another head than they did when they were closed, or "
                "another version of this program computes other prices"
            )

    def transcript_file(self) -> bytes:
        """The same, as the file that anybody can audit."""
        seals = [message for (message,) in self._file.kept("seals", self._session)]
        keys = [message for (message,) in self._file.kept("keys", self._session)]
        return frame(self._agreement, self._rounds(), seals, keys)

    def _rounds(self) -> list[list[bytes]]:
        size = release_bytes(self._agreement)
        return [
            [messages[i : i + size] for i in range(0, len(messages), size)]
            for messages, _ in self._file.kept("rounds", self._session)
        ]

    def _all(self, table: str) -> tuple[Signed, ...]:
        return tuple(self._open(message) for (message,) in self._file.kept(table, self._session))

    def record_waits(self, waited: Iterable[WaitTime]) -> None:
        """Remember how long this party has waited for others, when the process ends in order."""
        if self._file.failed:
            return
        rows = [(one.name, one.seconds, one.longest, one.last) for one in waited]
        self._write("INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?, ?)", rows)
        self.commit()

    def waits(self) -> tuple[WaitTime, ...]:
        """How long this party has waited for others, as far as it was remembered."""
        rows = self._rows(
            "SELECT member, seconds, longest, last FROM waits WHERE session = ? ORDER BY member"
        )
        return tuple(
            WaitTime(name=name, seconds=seconds, longest=longest, last=last)
            for name, seconds, longest, last in rows
        )

    def record_addresses(self, addresses: dict[str, str]) -> None:
        """Remember where the members of a mesh listen, so that a restart finds them."""
        self._write("INSERT OR REPLACE INTO addresses VALUES (?, ?, ?)", addresses.items())
        self.commit()

    def addresses(self) -> dict[str, str]:
        """Where the members were last known to listen."""
        return dict(self._rows("SELECT member, address FROM addresses WHERE session = ?"))

    def commit(self) -> None:
        """Make everything recorded so far durable."""
        self._file.commit()

    def close(self) -> None:
        if not self._file.failed:
            self.commit()
        self._file.close()

    def _open(self, data: bytes) -> Signed:
        try:
            return self._reader.unpack(data, verified=True)
        except (BadMessage, TypeError) as error:
            raise self._file.damaged(str(error)) from None

    def _rows(self, query: str, *more: Any) -> list[Any]:
        return self._file.rows(query, self._session, *more)

    def _write(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._file.write(statement, [(self._session, *row) for row in rows])
