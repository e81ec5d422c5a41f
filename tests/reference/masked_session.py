"""Reference implementation of one member's part in a session with totals, SPEC.md §18 to §20.

Mask keys, masked releases, the own quota and payment, commitments and claims, for sessions without
noise. Only signatures and random numbers come from libraries. Never imports the product.
"""

import hashlib
import math
import secrets
import struct
from fractions import Fraction

from nacl.signing import VerifyKey

from tests.reference import codec as reference
from tests.reference import commitments, masks
from tests.reference.agreement import Terms
from tests.reference.rounds import RoundEngine, Rows

NO_RECIPIENT = bytes(32)


class MaskedSession(RoundEngine):
    """The rounds of a session, and what only the member at this place knows."""

    def __init__(self, terms: Terms, place: int) -> None:
        super().__init__(terms)
        self.place = place
        self._digest = reference.agreement_digest(reference.canonical(terms))
        self._secret = secrets.token_bytes(32)
        self._pairs: dict[int, bytes] = {}
        self._asked: Rows = []
        #: The chain hash after the last round, before commitments.
        self._last_hash = b""
        self._openings: list[tuple[int, int]] = []
        self.adds_up: bool | None = None

    def announcement(self) -> bytes:
        """The body of the own MaskKey."""
        key = self.terms.members[self.place].signing_key
        proof = masks.proof(self._secret, self._digest, self.chain_hash, self.place, key)
        return masks.public(self._secret) + proof

    def pair(self, bodies: list[bytes]) -> None:
        """Close the exchange of mask keys."""
        for place, (body, member) in enumerate(zip(bodies, self.terms.members, strict=True)):
            where = self._digest + self.chain_hash + struct.pack(">I", place) + member.signing_key
            VerifyKey(body[:32]).verify(b"sotto mask key 1\n" + where + body[:32], body[32:])
        self.chain_hash = masks.session_id(self.chain_hash, bodies)
        keys = [body[:32] for body in bodies]
        self._pairs = masks.pair_secrets(
            self.place, secret=self._secret, keys=keys, session=self.chain_hash
        )

    def released(self, demand: list[int]) -> list[int]:
        """What the member releases in this round if it asks for this."""
        self._asked.append(demand)
        return masks.masked_with(
            demand, self.place, self._pairs, number=len(self.rounds), chain_hash=self.chain_hash
        )

    def close_masked(self, rows: Rows) -> None:
        self.close(rows, masks.totals(rows))

    @property
    def own(self) -> tuple[list[int], float]:
        """The own quota before it is cut, in ticks, and the own payment."""
        terms, proof = self.terms, self.certificate
        endowment = self.endowment[self.place]
        if proof is None or self.obstacles:
            return endowment, 0.0
        return masks.own_part_and_payment(
            asked=self._asked,
            unmasked=self._asked,
            totals=[rows[0] for rows in self.rounds],
            weights=proof.weights,
            place=self.place,
            shares=terms.shares,
            endowment=endowment,
            money=self._money,
            ticks=terms.ticks,
        )

    @property
    def _money(self) -> list[float]:
        return [p * c for p, c in zip(self.prices, self.terms.capacity, strict=True)]

    @property
    def money_grain(self) -> Fraction:
        worth, unit = math.fsum(map(abs, self._money)), Fraction(1)
        if worth > 0.0:
            unit = Fraction(2) ** (math.frexp(worth)[1] - 40)
        return 2**12 * unit

    def numbers(self) -> list[int]:
        """What the member commits to."""
        parts, payment = self.own
        grain = max(1, self.terms.ticks // 2**24)
        return [
            *(part // grain for part in parts),
            round(Fraction(payment) / self.money_grain) + 2**28,
        ]

    def commitment(self) -> tuple[bytes, bytes]:
        """The body of the own Commitment, and its proof."""
        self._last_hash = self.chain_hash
        numbers = self.numbers()
        own = commitments.blindings(self._pairs, self.place, self.chain_hash, len(numbers))
        self._openings = list(zip(numbers, own, strict=True))
        points = [commitments.written(commitments.commit(*each)) for each in self._openings]
        label = commitments.label(self._digest, self.chain_hash, self.place, points)
        count = sum(commitments.widths(self.m)) + 4
        nonces = [secrets.randbelow(masks.ORDER) for _ in range(count)]
        proof = commitments.prove(label, numbers, own, nonces)
        return b"".join(points) + hashlib.sha256(proof).digest(), proof

    def commit(self, bodies: list[bytes], proofs: list[bytes]) -> None:
        """Close the exchange of commitments."""
        rows = []
        for place, (body, proof) in enumerate(zip(bodies, proofs, strict=True)):
            *points, hashed = (body[at : at + 32] for at in range(0, len(body), 32))
            label = commitments.label(self._digest, self._last_hash, place, points)
            assert hashlib.sha256(proof).digest() == hashed
            assert commitments.holds(label, points, proof), self.terms.members[place].name
            rows.append(points)
        self.adds_up = commitments.adds_up(rows, self.terms.ticks)
        self.chain_hash = commitments.closed_hash(self.chain_hash, bodies)

    def claim_text(self, index: int, recipient: bytes = NO_RECIPIENT) -> bytes:
        """What the member signs to claim one number."""
        return commitments.claim_text(
            self._digest, self.chain_hash, self.place, index, recipient, self._openings[index]
        )
