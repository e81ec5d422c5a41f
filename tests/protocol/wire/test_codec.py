"""Messages survive the way through bytes, and all other bytes are refused."""

import json
import math
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace
from nacl.signing import VerifyKey

from protocol.agreement.model import canonical
from protocol.agreement.parse import from_table
from protocol.errors import BadMessage
from protocol.wire.codec import (
    CONTEXT,
    HARD_LIMIT,
    VERSION,
    Reader,
    max_message_bytes,
    pack,
    release_bytes,
)
from protocol.wire.messages import (
    FURTHEST,
    VALUE_LIMIT,
    Halt,
    Hello,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from tests.reference import codec as reading
from tests.support import ROOT
from tests.support.builders import NAMES, make_agreement, public_key, sign, signing_key

VECTORS = json.loads((ROOT / "tests" / "reference" / "vectors" / "messages.json").read_text())
KINDS = {"Hello": 1, "Release": 2, "Seal": 3, "Halt": 4, "MaskKey": 5}

AGREEMENT = make_agreement(members=3, rounds=4, resources=2)
READER = Reader(AGREEMENT)
SENDERS = NAMES[:3]


# Vectors


@pytest.fixture(scope="module")
def vector_reader() -> Reader:
    return Reader(from_table(VECTORS["agreement"]))


def _named(vectors: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"].replace(" ", "-")) for vector in vectors]


@pytest.mark.parametrize("vector", _named(VECTORS["valid"]))
def test_valid_vectors_are_read_and_written(vector: dict[str, Any], vector_reader: Reader) -> None:
    """Each valid vector is read as the message beside it, and written as the same bytes."""
    data = bytes.fromhex(vector["bytes"])
    message = vector_reader.unpack(data).message
    assert _plain(message) == vector["message"]
    signature = data[-64:]
    key = _vector_key(vector["message"]["sender"])
    assert pack(message, key=key, sign=lambda _: signature).data == data


@pytest.mark.parametrize("vector", _named(VECTORS["valid"]))
def test_the_reference_writes_the_same_valid_vectors(vector: dict[str, Any]) -> None:
    """The independent implementation of SPEC writes the same bytes, and the signature is valid."""
    data, message = bytes.fromhex(vector["bytes"]), vector["message"]
    key = _vector_key(message["sender"])
    payload = reading.payload(
        KINDS[message["kind"]],
        key,
        bytes.fromhex(message["agreement"]),
        message["round"],
        bytes.fromhex(message["chain_hash"]),
        _body(message),
    )
    assert data[:-64] == payload
    VerifyKey(key).verify(reading.signed_text(payload), data[-64:])


@pytest.mark.parametrize("vector", _named(VECTORS["invalid"]))
def test_invalid_vectors_are_refused(vector: dict[str, Any], vector_reader: Reader) -> None:
    """Each invalid vector is refused with the error beside it."""
    with pytest.raises(BadMessage) as refused:
        vector_reader.unpack(bytes.fromhex(vector["bytes"]))
    assert str(refused.value) == vector["error"]


def test_digest_and_lengths_are_those_of_the_vectors() -> None:
    """The digest is SHA-256 of the canonical text, and lengths follow the formula of SPEC."""
    agreement = from_table(VECTORS["agreement"])
    assert canonical(agreement) == VECTORS["canonical"]
    assert agreement.digest == reading.agreement_digest(VECTORS["canonical"])
    assert agreement.digest.hex() == VECTORS["digest"]
    assert release_bytes(agreement) == VECTORS["release_bytes"]
    assert max_message_bytes(agreement) == VECTORS["longest"]


def _vector_key(name: str) -> bytes:
    members = VECTORS["agreement"]["member"]
    return bytes.fromhex(next(m["signing_key"] for m in members if m["name"] == name))


def _plain(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": type(message).__name__, **asdict(message)}
    if isinstance(message, Hello):
        fields["known_ahead"] = list(message.known_ahead)
    elif isinstance(message, Release):
        fields.pop("masked")
        fields["values"] = list(message.values)
    elif isinstance(message, Halt):
        fields["evidence"] = [e.hex() for e in message.evidence]
        fields["reason"] = int(message.reason)
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in fields.items()}


def _body(message: dict[str, Any]) -> bytes:
    if message["kind"] == "Hello":
        keys = ("nonce", "nonce_digest", "echo")
        nonce, nonce_digest, echo = (bytes.fromhex(message[k]) for k in keys)
        keys = ("wants_reply", "recorded", "known_ahead")
        wants_reply, recorded, known_ahead = (message[k] for k in keys)
        return reading.hello_body(nonce, wants_reply, recorded, nonce_digest, echo, known_ahead)
    if message["kind"] == "Release":
        return reading.release_body(message["values"])
    if message["kind"] == "Seal":
        return bytes([message["has_all_seals"]])
    return reading.halt_body(message["reason"], [bytes.fromhex(e) for e in message["evidence"]])


# There and back


def _hello(**changes: Any) -> Hello:
    fields: dict[str, Any] = {
        "sender": "ada",
        "agreement": AGREEMENT.digest,
        "round": 0,
        "chain_hash": bytes(32),
        "nonce": bytes(16),
        "wants_reply": True,
        "recorded": 0,
        "nonce_digest": bytes(32),
    }
    return Hello(**{**fields, **changes})


digests = st.binary(min_size=32, max_size=32)
nonces = st.binary(min_size=16, max_size=16)
rounds = st.integers(0, 0xFFFFFFFF)


COMMON: dict[str, Any] = {
    "sender": st.sampled_from(SENDERS),
    "agreement": st.just(AGREEMENT.digest),
    "round": rounds,
    "chain_hash": digests,
}


def ahead(count: int) -> st.SearchStrategy[bytes]:
    """Counts of known releases, one for each of `count` members; empty if all are 0."""
    each = st.lists(st.integers(0, FURTHEST), min_size=count, max_size=count)
    return each.map(lambda counts: bytes(counts) if any(counts) else b"")


values = st.tuples(*[st.integers(-VALUE_LIMIT, VALUE_LIMIT)] * AGREEMENT.width)
GREETS: dict[str, Any] = {
    "nonce": nonces,
    "wants_reply": st.booleans(),
    "recorded": rounds,
    "nonce_digest": digests,
    "echo": nonces,
}
hellos = st.builds(Hello, **COMMON, **GREETS, known_ahead=ahead(3))
releases = st.builds(Release, **COMMON, values=values)
seals = st.builds(Seal, **COMMON, has_all_seals=st.booleans())
halts = st.builds(
    Halt,
    **COMMON,
    reason=st.sampled_from(Reason),
    evidence=st.lists(st.binary(max_size=200), max_size=4).map(tuple),
)
messages: st.SearchStrategy[Message] = st.one_of(hellos, releases, seals, halts)


EDGES: tuple[dict[str, Any], ...] = (
    {"sender": "ada", "agreement": AGREEMENT.digest, "round": 0, "chain_hash": bytes(32)},
    {
        "sender": "ada",
        "agreement": AGREEMENT.digest,
        "round": 0xFFFFFFFF,
        "chain_hash": b"\xff" * 32,
    },
)


@settings(max_examples=500)
@given(message=messages)
@example(Release(**EDGES[0], values=(-VALUE_LIMIT, 0)))
@example(Release(**EDGES[1], values=(-1, VALUE_LIMIT)))
@example(_hello(**EDGES[1], recorded=2**32 - 1, nonce_digest=b"\xff" * 32, known_ahead=b"\0\1\2"))
@example(Halt(**EDGES[1], reason=Reason.HEADS_DIFFER, evidence=()))
@example(Halt(**EDGES[0], reason=Reason.HEADS_DIFFER, evidence=(b"", bytes(256), bytes(300))))
@example(Seal(**EDGES[1], has_all_seals=True))
def test_every_message_comes_back(message: Message) -> None:
    """A message that was packed and unpacked is equal to itself."""
    signed = sign(message)
    assert READER.unpack(signed.data) == signed


@given(counts=st.integers(0, 20).flatmap(ahead), digest=digests, wants_reply=st.booleans())
def test_a_hello_of_another_agreement_comes_back(
    counts: bytes, digest: bytes, wants_reply: bool
) -> None:
    """A hello is read whatever its agreement and however many members that has."""
    hello = _hello(
        sender="ben", agreement=digest, round=3, wants_reply=wants_reply, known_ahead=counts
    )
    assert READER.unpack(sign(hello).data).message == hello


@settings(max_examples=300)
@given(sender=st.sampled_from(SENDERS), number=rounds, values=values, chain_hash=digests)
@example(sender="ada", number=0, values=(0, -1), chain_hash=bytes(32))
@example(
    sender="ben", number=0xFFFFFFFF, values=(VALUE_LIMIT, -VALUE_LIMIT), chain_hash=b"\xff" * 32
)
def test_all_releases_have_the_same_length(
    sender: str, number: int, values: tuple[int, ...], chain_hash: bytes
) -> None:
    """The length of a release does not depend on sender, round or numbers."""
    message = Release(
        sender=sender,
        agreement=AGREEMENT.digest,
        round=number,
        chain_hash=chain_hash,
        values=values,
    )
    assert len(sign(message).data) == release_bytes(AGREEMENT) == 64 + 3 + 34 * 3 + 6 + 2 + 16


@pytest.mark.parametrize(("members", "resources"), [(2, 1), (5, 1), (2, 40), (5, 400)])
def test_the_longest_message_of_a_session_is_read(members: int, resources: int) -> None:
    """A halt with a whole round and one more message as evidence is within the limit."""
    agreement = make_agreement(members=members, resources=resources)
    largest = (VALUE_LIMIT,) * resources
    common: dict[str, Any] = {
        "agreement": agreement.digest,
        "round": 0xFFFFFFFF,
        "chain_hash": b"\xff" * 32,
    }
    shown = [sign(Release(sender=m.name, values=largest, **common)) for m in agreement.members]
    hello = _hello(**common, known_ahead=b"\2" * members)
    for last in (shown[0], sign(hello)):
        evidence = tuple(signed.data for signed in (*shown, last))
        halt = Halt(sender="ben", reason=Reason.HEADS_DIFFER, evidence=evidence, **common)
        assert Reader(agreement).unpack(sign(halt).data).message == halt


def test_no_session_accepts_more_than_the_hard_limit() -> None:
    """For any agreement the longest message is 16 MiB at most."""
    agreement = make_agreement(members=5, resources=10_000)
    many = replace(agreement, members=agreement.members * 200)
    assert max_message_bytes(many) == HARD_LIMIT == 16 * 1024 * 1024


def test_verified_bytes_are_read_without_their_signature() -> None:
    """`verified` skips the signature only; the form is still checked."""
    signed = sign(_release())
    spoilt = signed.data[:-1] + bytes([signed.data[-1] ^ 1])
    assert READER.unpack(spoilt, verified=True).message == signed.message
    with pytest.raises(BadMessage, match="the signature does not match"):
        READER.unpack(spoilt)
    with pytest.raises(BadMessage, match="not msgpack"):
        READER.unpack(signed.data[1:], verified=True)


def _release(**changes: Any) -> Release:
    fields: dict[str, Any] = {
        "sender": "ada",
        "agreement": AGREEMENT.digest,
        "round": 1,
        "chain_hash": bytes(32),
        "values": (1, 2),
    }
    return Release(**{**fields, **changes})


# A message that exists is well-formed


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: _release(round=-1), "the round is out of range"),
        (lambda: _release(round=1 << 32), "the round is out of range"),
        (lambda: _release(chain_hash=bytes(31)), "the chain hash has a wrong length"),
        (lambda: _release(agreement=b""), "the digest of the agreement has a wrong length"),
        (lambda: _release(values=(0, VALUE_LIMIT + 1)), "a released number is out of range"),
        (lambda: _release(values=(-VALUE_LIMIT - 1, 0)), "a released number is out of range"),
        (lambda: _hello(nonce=bytes(15)), "the nonce has a wrong length"),
        (lambda: _hello(echo=bytes(17)), "the echoed nonce has a wrong length"),
        (lambda: _hello(nonce_digest=bytes(31)), "the digest of the nonces has a wrong length"),
        (lambda: _hello(recorded=-1), "recorded releases is out of range"),
        (lambda: _hello(recorded=1 << 32), "recorded releases is out of range"),
        (lambda: _hello(known_ahead=bytes(3)), "must be from 0 to 2"),
        (lambda: _hello(known_ahead=b"\1\3\0"), "must be from 0 to 2"),
    ],
)
def test_a_malformed_message_cannot_be_built(make: Callable[[], Message], error: str) -> None:
    """Every field is checked when a message is built."""
    with pytest.raises(BadMessage, match=error):
        make()


# Any bytes at all


def read(data: bytes) -> Signed | None:
    """The message, or None if it is refused. Any other exception is a defect."""
    try:
        return READER.unpack(data)
    except BadMessage:
        return None


@settings(max_examples=800)
@given(data=st.binary(max_size=400))
@example(b"")
@example(bytes(64))
@example(b"\x90" + bytes(64))
def test_random_bytes_are_refused(data: bytes) -> None:
    """Random bytes give `BadMessage` and no other exception."""
    assert read(data) is None


_SAMPLES = [
    sign(_release()).data,
    sign(_hello()).data,
    sign(
        Seal(
            sender="cyd",
            agreement=AGREEMENT.digest,
            round=4,
            chain_hash=bytes(32),
            has_all_seals=True,
        )
    ).data,
    sign(
        Halt(
            sender="ben",
            agreement=AGREEMENT.digest,
            round=1,
            chain_hash=bytes(32),
            reason=Reason.EQUIVOCATION,
            evidence=(sign(_release()).data, sign(_release(values=(3, 4))).data),
        )
    ).data,
]


def test_a_changed_message_is_refused() -> None:
    """Twenty thousand flips, cuts, insertions and splices of real messages are all refused."""
    chance = random.Random(1)
    for _ in range(20_000):
        data = _mutated(chance.choice(_SAMPLES), chance)
        if data not in _SAMPLES:
            assert read(data) is None


def _mutated(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at, to = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        way = chance.randrange(5)
        if way == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        elif way == 1:
            data = data[:at] + data[to:]
        elif way == 2:
            data = data[:at] + chance.randbytes(chance.randrange(9)) + data[at:]
        elif way == 3:
            data = data[:to] + data[at:]
        else:
            data = data[:at] + chance.choice(_SAMPLES)[at:]
    return data


def test_every_byte_of_a_message_is_signed() -> None:
    """A message with any one byte changed is refused."""
    for sample in _SAMPLES[:3]:
        for at in range(len(sample)):
            for flip in (1, 0x80, 0xFF):
                assert read(sample[:at] + bytes([sample[at] ^ flip]) + sample[at + 1 :]) is None


_ATOMS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, 4, -1, 1.0, 1 << 63, math.nan, "", "x", b"", b"\0", b"\1"),
    *(AGREEMENT.digest, public_key("ada"), bytes(32), bytes(4), bytes(16), _SAMPLES[0]),
)


def structure(chance: random.Random, depth: int = 0) -> Any:
    """A random msgpack structure, often with values from real messages."""
    way = chance.randrange(8)
    if way == 0 and depth < 4:
        return [structure(chance, depth + 1) for _ in range(chance.randrange(9))]
    if way == 1 and depth < 4:
        return {f"{n}": structure(chance, depth + 1) for n in range(chance.randrange(3))}
    if way == 2:
        return chance.randbytes(chance.randrange(80))
    if way == 3:
        return chance.randrange(-(1 << 63), 1 << 64)
    return chance.choice(_ATOMS)


def frame(chance: random.Random) -> list[Any]:
    """The seven fields of a message, most of them valid."""
    right = [
        VERSION,
        chance.randrange(1, 5),
        public_key("ada"),
        AGREEMENT.digest,
        bytes(4),
        bytes(32),
    ]
    fields = [*right, chance.randbytes(chance.choice((0, 1, 16, 17, 77)))]
    for place in range(7):
        if chance.random() < 0.15:
            fields[place] = structure(chance)
    return fields


def signed(payload: bytes) -> bytes:
    return payload + signing_key("ada").sign(CONTEXT + payload).signature


def test_a_signed_random_structure_is_a_message_or_refused() -> None:
    """A signed structure gives a message only if its version and kind are right."""
    chance = random.Random(2)
    opened = 0
    for _ in range(4000):
        content = chance.choice((structure, frame))(chance)
        found = read(signed(bytes(msgpack.packb(content))))
        if found is not None:
            opened += 1
            assert content[:2] == [VERSION, KINDS[type(found.message).__name__]]
    assert opened > 0, "some of them must be valid"


@settings(max_examples=1000)
@given(kind=st.sampled_from([1, 2, 3, 4]), body=st.binary(max_size=120), number=rounds)
@example(kind=1, body=b"", number=0)
@example(kind=1, body=bytes(16) + b"\2", number=0)
@example(kind=2, body=b"", number=0)
@example(kind=2, body=b"\x80" + bytes(15), number=0)
@example(kind=3, body=b"\2", number=0xFFFFFFFF)
@example(kind=4, body=b"\x92\1\x90", number=0)
def test_a_signed_random_body_is_a_message_or_refused(kind: int, body: bytes, number: int) -> None:
    """A body is read only if writing the message gives the same bytes."""
    payload = reading.payload(kind, public_key("ada"), AGREEMENT.digest, number, bytes(32), body)
    opened = read(signed(payload))
    if opened is not None:
        assert type(opened.message).__name__ == {v: k for k, v in KINDS.items()}[kind]
        assert _body(_plain(opened.message)) == body


def test_a_signed_random_halt_is_a_halt_or_refused() -> None:
    """The body of a halt is a reason and a list of bytes, and nothing else."""
    chance = random.Random(3)
    opened = 0
    for _ in range(4000):
        body = chance.choice((structure(chance), [structure(chance), structure(chance)]))
        packed = bytes(msgpack.packb(body))
        if len(packed) > 600:
            continue
        payload = reading.payload(4, public_key("ada"), AGREEMENT.digest, 0, bytes(32), packed)
        found = read(signed(payload))
        if found is not None:
            opened += 1
            assert isinstance(found.message, Halt)
            assert [int(found.message.reason), list(found.message.evidence)] == body
    assert opened > 0, "some of them must be valid"


# No unbounded allocation

_HUGE = (
    b"\xdd\xff\xff\xff\xff",  # an array of 2^32 - 1
    b"\xdf\xff\xff\xff\xff",  # a map
    b"\xc6\xff\xff\xff\xff",  # bytes
    b"\xdb\xff\xff\xff\xff",  # text
    b"\xc9\xff\xff\xff\xff\x01",  # an extension
    b"\xdc\xff\xff",
    b"\x97" * 40,  # arrays in arrays
    b"\x97\x01\x02\xc6\x7f\xff\xff\xff",
)


@pytest.mark.parametrize("start", _HUGE, ids=lambda start: start[:6].hex())
@pytest.mark.parametrize("place", ["frame", "halt"])
def test_announced_lengths_allocate_no_memory(start: bytes, place: str) -> None:
    """A few bytes that announce gigabytes are refused without allocating them."""
    filling = start + bytes(100)
    if place == "halt":
        filling = reading.payload(
            4, public_key("ada"), AGREEMENT.digest, 0, bytes(32), b"\x92\x02" + filling
        )
    data = signed(filling)
    tracemalloc.start()
    try:
        assert read(data) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_message_that_is_too_long_is_refused_by_its_length() -> None:
    """Bytes beyond the longest message are refused without being read."""
    data = bytes(50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(BadMessage, match="50000000 bytes are more than any message"):
            READER.unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_member_without_a_key_cannot_send() -> None:
    """With a roster without keys every message is refused."""
    table = {**VECTORS["agreement"], "member": [{"name": "ada"}, {"name": "ben"}]}
    reader = Reader(from_table(table))
    payload = reading.payload(3, bytes(32), bytes(32), 0, bytes(32), b"\0")
    with pytest.raises(BadMessage, match="not in the roster"):
        reader.unpack(signed(payload))
