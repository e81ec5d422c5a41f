"""What an adversary sees of two members is the same in two worlds, bit for bit.

Ada and ben are honest, cyd is the adversary. In the other world ada asks for more of the second
resource and ben for less, so that quotas and payments differ and all totals do not. The test knows
the logarithms of all bases. With them it finds, for the randomness that only ada and ben share or
have, other randomness of the other world that gives the same messages. The map between the two is
one to one, so both worlds are equally likely for all who see the messages.
"""

import random

import numpy as np
import pytest
from msgspec import Struct, field
from nacl.signing import SigningKey

from party.release import masks
from protocol.clearing.claims import NO_RECIPIENT, Claim
from protocol.commitment import exchange, group, range_proof
from protocol.commitment.group import ORDER, blind
from protocol.rounds import RoundState
from tests.support.builders import make_agreement, signing_key
from tests.support.committed_sessions import CommittedSession, play_until_over

AGREEMENT = make_agreement(
    members=3,
    rounds=4,
    reveal="totals",
    prices={"step": "constant", "step_size": 0.5, "start": "worth"},
    resource=[{"name": f"r{j}", "capacity": 8.0, "worth": 100.0} for j in range(2)],
)
MORE = 1 << 14
"""Ticks of the second resource that ada asks for in addition in the other world."""

_numbers = (25, 25, 29)


class World(Struct):
    """The randomness of one world, and how it differs from that of the first."""

    value_log: int
    base_logs: list[int]
    #: What the streams of ada and ben differ by.
    mask_shift: int = 0
    blinding_shift: list[int] = field(default_factory=lambda: [0, 0, 0])
    #: By context: bits, nonces and second challenge of each proof.
    proofs: dict[bytes, tuple[list[int], list[int], int]] = field(default_factory=dict)


def install(patch: pytest.MonkeyPatch, world: World, first: World | None) -> None:
    """Give the program this world's randomness; it computes everything else by itself."""
    bases = tuple(blind(log) for log in world.base_logs)
    for module in (group, exchange):
        patch.setattr(module, "VALUE_BASE", blind(world.value_log))
    patch.setattr(range_proof, "proof_bases", lambda count: bases[:count])
    seeds = {name: bytes([number]) * 32 for number, name in enumerate(("ada", "ben", "cyd"), 1)}
    patch.setattr(masks.Masks, "_random", lambda self: seeds[self._member])
    stream, blinding_stream, pair_secret = masks.stream, masks.blinding_stream, masks.pair_secret
    shared: set[bytes] = set()

    def noted(
        secret: masks.MaskSecret, keys: list[bytes], own: int, other: int, head: bytes
    ) -> bytes:
        pair = pair_secret(secret, keys, own, other, head)
        if {own, other} == {0, 1}:
            shared.add(pair)
        return pair

    def mask(pair: bytes, state: RoundState, width: int) -> bytes:
        numbers = np.frombuffer(stream(pair, state, width), dtype=">i8").astype(np.int64)
        if pair in shared:
            numbers[1] -= world.mask_shift
        return numbers.astype(">i8").tobytes()

    def blinding(pair: bytes, head: bytes, count: int) -> list[int]:
        shifts = world.blinding_shift if pair in shared else [0] * count
        scalars = blinding_stream(pair, head, count)
        return [(s + shift) % ORDER for s, shift in zip(scalars, shifts, strict=True)]

    patch.setattr(masks, "pair_secret", noted)
    patch.setattr(masks, "stream", mask)
    patch.setattr(masks, "blinding_stream", blinding)
    prove_bits, to_scalar = range_proof.prove_bits, group.hash_to_scalar

    def proving(
        statement: range_proof.Statement, bits: list[int], blindings: list[int], seed: bytes
    ) -> range_proof.RangeProof:
        indices = [index.to_bytes(4, "big") for index in range(len(bits) + 4)]
        nonces = [to_scalar(b"sotto proof nonce\n", seed, index) for index in indices]
        if first is not None:
            nonces = moved(world, statement, first.proofs[statement.context], bits)
        drawn = iter(nonces)

        def chosen(*parts: bytes) -> int:
            return next(drawn) if parts[0] == b"sotto proof nonce\n" else to_scalar(*parts)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(range_proof, "hash_to_scalar", chosen)
            proof = prove_bits(statement, bits, blindings, seed)
        y = range_proof._first_challenge(statement, proof.bits, proof.nonces)
        x = range_proof._second_challenge(y, proof.linear, proof.constant)
        world.proofs[statement.context] = list(bits), nonces, x
        return proof

    patch.setattr(range_proof, "prove_bits", proving)


def moved(
    world: World,
    statement: range_proof.Statement,
    one: tuple[list[int], list[int], int],
    bits: list[int],
) -> list[int]:
    """The nonces with which these bits give the proof of the first world."""
    old, (q, s, first, last, *a), x = one
    logs, h, widths = world.base_logs, world.value_log, statement.widths
    apart = [b - c for b, c in zip(old, bits, strict=True)]
    turned = sum(d * log for d, log in zip(apart, logs, strict=True))
    others = [(n + d * x) % ORDER for n, d in zip(a, apart, strict=True)]
    bits_point = group.add(
        group.total(blind(b * log) for b, log in zip(old, logs, strict=True)), blind(q)
    )
    nonces_point = blind(sum(n * log for n, log in zip(a, logs, strict=True)) + s)
    y = range_proof._first_challenge(statement, bits_point, nonces_point)
    powers, weights = range_proof._powers(y, len(old), len(widths))
    scales = range_proof._scales(widths, weights)

    def coefficients(bits: list[int], nonces: list[int]) -> tuple[int, int]:
        rows = list(zip(powers, scales, nonces, bits, strict=True))
        return (
            sum(n * (power * (1 - 2 * b) + scale) for power, scale, n, b in rows),
            -sum(power * n * n for power, _, n, _ in rows),
        )

    (t1, t0), (u1, u0) = coefficients(old, a), coefficients(bits, others)
    shifted = (q + turned, s - x * turned, first + (t1 - u1) * h, last + (t0 - u0) * h)
    return [scalar % ORDER for scalar in (*shifted, *others)]


def answers(more: int) -> list[float]:
    """What ada, ben and cyd want of both resources in four rounds: exact ticks."""
    chance, fractions = random.Random(5), []
    for _ in range(AGREEMENT.rounds):
        ticks = [chance.randrange(1 << 17, 1 << 18) for _ in range(6)]
        ticks[1], ticks[3] = ticks[1] + more, ticks[3] - more
        fractions += [number / AGREEMENT.ticks for number in ticks]
    return fractions


def played(more: int) -> CommittedSession:
    wanted = iter(answers(more))
    return play_until_over(AGREEMENT, 1, wanted=lambda: next(wanted))


def numbers(session: CommittedSession) -> list[tuple[int, ...]]:
    openings = [ledger.opening() for ledger in session.ledgers]
    return [opening.numbers for opening in openings if opening is not None]


def view(session: CommittedSession) -> list[bytes]:
    """All messages, ada's claim to the first resource, and all claims of cyd."""
    known = session.sealed()
    assert known.state.committed is not None
    assert known.state.committed.adds_up
    shown = [signed.data for row in session.transcript.exchanges for signed in row]
    shown += [signed.data for signed in session.transcript.seals]
    for place, index in ((0, 0), (2, 0), (2, 1), (2, 2)):
        opening = session.ledgers[place].opening()
        assert opening is not None
        claim = Claim(
            agreement=AGREEMENT.digest,
            chain_hash=known.state.chain_hash,
            place=place,
            index=index,
            recipient=NO_RECIPIENT,
            number=opening.numbers[index],
            blinding=opening.blindings[index],
        )
        key: SigningKey = signing_key(AGREEMENT.members[place].name)
        shown.append(claim.text + key.sign(claim.text).signature)
    return shown


def test_all_messages_and_claims_are_the_same_in_two_worlds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With other quotas and payments of two members, the adversary's view can be the same."""
    chance = random.Random(9)
    logs = [chance.randrange(1, ORDER) for _ in range(sum(_numbers))]
    first = World(chance.randrange(1, ORDER), logs)
    with monkeypatch.context() as patch:
        install(patch, first, None)
        one = played(0)
        seen, here = view(one), numbers(one)
    second = World(first.value_log, logs, mask_shift=MORE)
    with monkeypatch.context() as patch:  # to learn which numbers the other world commits to
        install(patch, World(first.value_log, logs, mask_shift=MORE), None)
        trial = played(MORE)
        trial.sealed()
        there = numbers(trial)
    changes = [old - new for old, new in zip(here[0], there[0], strict=True)]
    assert changes[0] == 0
    assert changes[1] == -MORE
    assert changes[2] != 0
    assert [new - old for old, new in zip(here[1], there[1], strict=True)] == changes
    assert here[2] == there[2]
    second.blinding_shift = [change * first.value_log for change in changes]
    with monkeypatch.context() as patch:
        install(patch, second, first)
        assert view(played(MORE)) == seen


def test_with_other_randomness_the_view_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The equality above is no accident: without the shifted randomness the views differ."""
    chance = random.Random(9)
    logs = [chance.randrange(1, ORDER) for _ in range(sum(_numbers))]
    views = []
    for more in (0, MORE):
        with monkeypatch.context() as patch:
            install(patch, World(77, logs), None)
            views.append(view(played(more)))
    assert views[0] != views[1]
