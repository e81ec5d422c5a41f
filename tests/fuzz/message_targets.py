"""Targets for what members sign: messages, transcripts and claims.

Bytes with a wrong signature go no further than the signature. So an input may ask for valid
signatures: then it is what a dishonest member of the session can send.
"""

import hashlib
import struct
from typing import Any

import msgpack
from msgspec.structs import replace
from nacl.public import PrivateKey

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.clearing.claims import (
    ENCRYPTED,
    NO_RECIPIENT,
    Claim,
    decrypted,
    packed,
    recipient_of,
    verified,
)
from protocol.clearing.settle import from_claims
from protocol.clearing.use import compare, read_use
from protocol.errors import BadClaim, BadMessage
from protocol.outcome.outcome import Outcome, outcome
from protocol.report.terminal import audit_figures, audit_text
from protocol.wire.codec import CONTEXT, SIGNATURE_BYTES, Reader, claimed_key, peek_header
from protocol.wire.framing import Batches
from protocol.wire.messages import Halt, Hello, Reason, Seal, Signed
from protocol.wire.transcript import MAGIC, Transcript, load
from tests.fuzz.target import Target, edit, edited, signature
from tests.support.builders import dump, make_agreement, play, sign, signing_key
from tests.support.committed_sessions import play_until_over

_SIGNED, _TOTALS, _PROVED = 1, 2, 4  # what the first byte of an input asks for


def _each() -> Agreement:
    return make_agreement(rounds=3)


def _totals() -> Agreement:
    return make_agreement(rounds=2, resources=1, reveal="totals")


def _messages(transcript: Transcript) -> list[Signed]:
    return [signed for exchange in (*transcript.exchanges, transcript.seals) for signed in exchange]


class Wire(Target):
    """One frame from the network: a batch, and each message in it."""

    modules = ("protocol.wire.codec", "protocol.wire.framing", "protocol.wire.messages",
               "protocol.wire.signatures")  # fmt: skip

    def __init__(self) -> None:
        self._agreements = _each(), _totals()
        self._readers = tuple(map(Reader, self._agreements))
        self._batches = tuple(map(Batches, self._agreements))

    def seeds(self) -> list[bytes]:
        each, totals = self._agreements
        committed = play_until_over(totals, 1)
        committed.sealed()
        common: dict[str, Any] = {
            "sender": "ada", "agreement": each.digest, "round": 1, "chain_hash": bytes(32),
        }  # fmt: skip
        seal = Seal(**common, has_all_seals=True)
        hello = Hello(
            **common, nonce=bytes(16), wants_reply=True, recorded=0, nonce_digest=bytes(32),
            echo=bytes(16), known_ahead=b"\0\1\2",
        )  # fmt: skip
        two = sign(seal).data, sign(replace(seal, round=2)).data
        halt = Halt(**common, reason=Reason.EQUIVOCATION, evidence=two)
        known = [s.data for s in (*_messages(play(each)[0])[:1], *map(sign, (seal, hello, halt)))]
        secret = [signed.data for signed in _messages(committed.transcript)[:4]]
        proved = committed.transcript.commitments[0].data
        raw = [b"\0" + data for data in known] + [bytes([_TOTALS]) + data for data in secret]
        signed = [bytes([_SIGNED]) + data[:-SIGNATURE_BYTES] for data in known]
        signed += [bytes([_SIGNED | _TOTALS]) + data[:-SIGNATURE_BYTES] for data in secret]
        batch = self._batches[0].frames(known[:2])[0]
        return [*raw, *signed, b"\0" + batch, bytes([_TOTALS]) + proved]

    def read(self, data: bytes) -> None:
        asked, frame = data[:1], data[1:]
        flags = asked[0] if asked else 0
        at = bool(flags & _TOTALS)
        if flags & _SIGNED:
            frame = self._signed(frame, proved=bool(flags & _PROVED))
        for message in self._batches[at].messages(frame):
            self._read_message(self._readers[at], message)

    @staticmethod
    def _signed(payload: bytes, *, proved: bool) -> bytes:
        """The payload with the signature of the member that it claims to come from.

        With `proved` its second half is the proof of a commitment, and its hash is filled in.
        """
        proof = b""
        if proved:
            payload, proof = payload[: len(payload) // 2], payload[len(payload) // 2 :]
            payload = payload[:-32] + hashlib.sha256(proof).digest()
        return payload + signature(claimed_key(payload), CONTEXT + payload) + proof

    @staticmethod
    def _read_message(reader: Reader, message: bytes) -> None:
        header = peek_header(message)
        try:
            signed = reader.unpack(message)
        except BadMessage:
            return
        content = signed.message
        assert signed.data == message
        assert header is not None, "the relay would drop a valid message"
        assert header[2:] == (content.agreement, content.round)
        assert header.kind is type(content)
        assert reader.unpack(message, verified=True) == signed


class TranscriptFile(Target):
    """The file of a session: raw bytes, or a real one after edits that its members sign."""

    modules = ("protocol.wire.transcript", "protocol.outcome.replay", "protocol.rounds",
               "protocol.outcome.outcome", "protocol.report.terminal")  # fmt: skip

    def __init__(self) -> None:
        each, totals = _each(), _totals()
        committed = play_until_over(totals, 1)
        committed.sealed()
        self._sessions = ((each, play(each)[0]), (totals, committed.transcript))
        self._files = [dump(agreement, transcript) for agreement, transcript in self._sessions]

    def seeds(self) -> list[bytes]:
        place = len(MAGIC) + 34
        return [
            bytes([0]) + self._files[0],
            *(bytes([1, session]) for session in (0, 1)),
            *(bytes([2, session]) for session in (0, 1)),
            bytes([1, 0]) + edit(place, b"\x94"),
            bytes([2, 0, 2, 1, 0]) + edit(120, bytes(8)),
            bytes([2, 1, 3, 0, 1]) + edit(110, b"\1"),
        ]

    def read(self, data: bytes) -> None:
        mode, session = (*data[:2], 0, 0)[:2]
        agreement, transcript = self._sessions[session % 2]
        if mode % 3 == 0:
            agreement, file = self._sessions[0][0], data[1:]
        elif mode % 3 == 1:
            file = edited(self._files[session % 2], data[2:])
        else:
            file = _resigned(agreement, transcript, data[2:])
        found = outcome(agreement, _loaded(agreement, file))
        audit_text(found)
        audit_figures(found)


def _loaded(agreement: Agreement, file: bytes) -> Transcript:
    transcript = load(agreement, file)
    assert dump(agreement, transcript) == file, "a transcript that is read is written back"
    return transcript


def _resigned(agreement: Agreement, transcript: Transcript, script: bytes) -> bytes:
    """A transcript after edits of single messages, which their senders sign again.

    Each step of the script: what to do, which exchange and message, and the length of an edit.
    """
    exchanges = [[s.data for s in exchange] for exchange in transcript.exchanges]
    exchanges.append([s.data for s in transcript.seals])
    at = 0
    while at + 3 <= len(script):
        kind, which, member = script[at : at + 3]
        messages = exchanges[which % len(exchanges)]
        at += 3
        if kind == 0xFE:
            messages.reverse()
        elif kind == 0xFF:
            messages.append(messages[-1] if messages else b"")
        elif kind == 0xFD:
            del messages[member:]
        elif messages:
            place = member % len(messages)
            changed, at = edited(messages[place], script[at : at + 5 + kind]), at + 5 + kind
            payload = changed[:-SIGNATURE_BYTES]
            messages[place] = payload + signature(claimed_key(payload), CONTEXT + payload)
    keys = [exchanges.pop(0)] if agreement.masked else []
    seals = exchanges.pop()
    commitments = [exchanges.pop()] if agreement.commits else []
    return MAGIC + bytes(msgpack.packb([agreement.digest, exchanges, seals, *keys, *commitments]))


class Claims(Target):
    """What a clearing office reads: a claim, sealed or not, and the table of what was used.

    The claims of one session open commitments, and those to its capacity are encrypted for an
    operator. The other session has noise: a claim is what its member states.
    """

    modules = ("protocol.clearing.claims", "protocol.clearing.statements",
               "protocol.clearing.settle", "protocol.clearing.use")  # fmt: skip
    words = ("member,resource,amount", "ada", "ben", "r0", ",", '"', "nan", "inf", "-1", "1e999")

    _FIELDS = struct.Struct(">BBIIQ")
    _SECRET = bytes(31) + b"\1"

    def __init__(self) -> None:
        key = bytes(PrivateKey(self._SECRET).public_key).hex()
        capacity = {"name": "r0", "capacity": 10.0, "worth": 5.0}
        depot = {**capacity, "operator": {"name": "depot", "key": key}}
        committed = make_agreement(rounds=2, reveal="totals", resource=[depot])
        noisy = make_agreement(
            rounds=2, reveal="totals", mode="private", rehearsal=True, prices={},
            resource=[capacity], privacy={"epsilon": 40.0, "delta": 0.001},
        )  # fmt: skip
        sessions = [play_until_over(committed, 1), play_until_over(noisy, 1)]
        self._outcomes: list[Outcome] = [session.sealed() for session in sessions]
        opened = [ledger.opening() for ledger in sessions[0].ledgers]
        self._openings = [opening for opening in opened if opening is not None]
        assert len(self._openings) == 3

    def seeds(self) -> list[bytes]:
        right = self._FIELDS.pack(0x3F, 0, 0, 0, 0)
        return [
            *(b"\0" + self._FIELDS.pack(0x3F, who, who, index, 0)
              for who in range(3) for index in range(2)),
            b"\0" + self._FIELDS.pack(0xBF, 0, 0, 0, 0),
            b"\0" + self._FIELDS.pack(0x0F, 2, 2, 0, 5) + bytes(32),
            *(b"\4" + self._FIELDS.pack(0x0F, 1, 1, index, 2) for index in range(2)),
            b"\1" + self._claim(self._FIELDS.pack(0x3F, 1, 1, 1, 0)),
            b"\1" + self._claim(right),
            b"\2" + ENCRYPTED + bytes(200),
            b"\3member,resource,amount\nada,r0,3.5\nben,r0,1\nada,r0,1e3\n",
        ]  # fmt: skip

    def read(self, data: bytes) -> None:
        mode, rest = (data[0] % 5 if data else 0), data[1:]
        if mode == 3:
            for known in self._outcomes:
                used = read_use(known, rest.decode(errors="replace"))
                for row in compare(from_claims(known, [], {}), used):
                    assert row.coins >= 0, "what is above a quota costs something"
            return
        known = self._outcomes[mode == 4]
        claim = self._claim(rest, noisy=mode == 4) if mode in (0, 4) else rest
        try:
            found = verified(known, decrypted(claim, None if mode == 1 else self._SECRET))
        except BadClaim:
            return
        self._require_bound(known, found)

    def _require_bound(self, known: Outcome, found: Claim) -> None:
        """A claim that counts is the committed one, or within what the member could state."""
        if known is self._outcomes[0]:
            right = self._openings[found.place].numbers[found.index]
            assert found.number == right, "a false claim counts"
        cleared = from_claims(known, [found], {})
        assert len(cleared.payments) == found.index
        fixed = quantities(known.agreement)
        share = float(fixed.share[found.place, 0] * fixed.capacity[0])
        assert all(0.0 <= amount <= share for row in cleared.quotas.values()
                   for amount in row.values()), "a claim allows more than the share"  # fmt: skip

    def _claim(self, fields: bytes, *, noisy: bool = False) -> bytes:
        """A signed claim. Bits of the first byte say which fields are the right ones."""
        flags, who, place, index, number = self._FIELDS.unpack(
            fields[: self._FIELDS.size].ljust(self._FIELDS.size, b"\0")
        )
        free = fields[self._FIELDS.size :].ljust(96, b"\0")
        member, outcome = who % 3, self._outcomes[noisy]
        opening = self._openings[member]
        known = index % len(opening.numbers)
        claim = Claim(
            agreement=outcome.agreement.digest if flags & 1 else free[:32],
            chain_hash=outcome.state.chain_hash if flags & 2 else free[32:64],
            place=member if flags & 4 else place,
            index=known if flags & 8 else index,
            recipient=NO_RECIPIENT if flags & 128 else recipient_of(outcome.agreement, known),
            number=opening.numbers[known] if flags & 16 else number,
            blinding=opening.blindings[known] if flags & 32 else 0,
        )
        name = outcome.agreement.members[member].name
        if flags & 64:  # any blinding, which `Claim` itself would reduce
            text = claim.text[:-32] + free[64:96]
            return text + signing_key(name).sign(text).signature
        return packed(claim, lambda text: signing_key(name).sign(text).signature)
