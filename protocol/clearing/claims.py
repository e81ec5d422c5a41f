"""Claims: one member shows one recipient its quota of one resource, or its payment.

A claim opens one commitment of a sealed session, and its member signs it. So a recipient can
check it against the public transcript, and learns that one number. With noise there are no
commitments: a claim there is what its member states, within public limits (`statements`). All
claims have one length. SPEC.md §20 has the format. Never here: a file, a network, or an opening
that is not claimed.
"""

import struct
from collections.abc import Callable

from nacl.bindings import (
    crypto_box_seal,
    crypto_box_seal_open,
    crypto_scalarmult_base,
)
from nacl.exceptions import CryptoError
from nacl.exceptions import ValueError as NaClValueError

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.clearing.statements import limits
from protocol.commitment.group import ORDER, commit, scalar_bytes
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks, widths
from protocol.errors import BadClaim, BadMessage
from protocol.outcome.outcome import Outcome, no_claims
from protocol.records import Opaque
from protocol.wire.signatures import verify

CONTEXT = b"sotto claim 1\n"
ENCRYPTED = b"sotto sealed claim 1\n"
NO_RECIPIENT = bytes(32)

_BODY = struct.Struct(">32s32sII32sQ32s")
_SIGNATURE_BYTES = 64
CLAIM_BYTES = len(CONTEXT) + _BODY.size + _SIGNATURE_BYTES
MOST_BYTES = len(ENCRYPTED) + CLAIM_BYTES + 48
"""The longest file of a claim: encryption adds 48 bytes."""

Sign = Callable[[bytes], bytes]


class Claim(Opaque, frozen=True, kw_only=True, eq=True):
    """One opened number of one member. Private: only its recipient should see it."""

    agreement: bytes
    #: The final chain hash of the session, which the seals are under.
    chain_hash: bytes
    #: The place of the member in the roster.
    place: int
    #: Which number: the place of a resource, or the number of resources for the payment.
    index: int
    #: The public key of whom it is for; zeros if the agreement names no one.
    recipient: bytes
    #: Grains of the quota, or of the payment plus its offset.
    number: int
    #: The blinding of the commitment; 0 with noise.
    blinding: int

    def __repr__(self) -> str:
        return f"<claim of member {self.place} to number {self.index}>"

    @property
    def text(self) -> bytes:
        """What the member signs."""
        return CONTEXT + _BODY.pack(
            self.agreement,
            self.chain_hash,
            self.place,
            self.index,
            self.recipient,
            self.number,
            scalar_bytes(self.blinding),
        )


def recipient_of(agreement: Agreement, index: int) -> bytes:
    """The public key of whom a claim to this number is for; zeros if the agreement names no one."""
    payment = index == len(agreement.resources)
    role = agreement.clearing if payment else agreement.resources[index].operator
    return NO_RECIPIENT if role is None else role.key


def file_name(agreement: Agreement, member: str, resource: str | None) -> str:
    """How the file of a claim is called; it begins with the session. No resource: the payment.

    No name in an agreement has a plus sign, and where there are claims no resource is called
    payment. So two claims never have the same file name.
    """
    return f"{agreement.session}+{member}+{resource or 'payment'}.claim"


def packed(claim: Claim, sign: Sign) -> bytes:
    """The file of a claim: encrypted for its recipient, if there is one."""
    data = claim.text + sign(claim.text)
    if claim.recipient == NO_RECIPIENT:
        return data
    return ENCRYPTED + bytes(crypto_box_seal(data, claim.recipient))


def decrypted(data: bytes, secret: bytes | None) -> bytes:
    """The claim in a file. `secret` is the secret key of the recipient, if it has one."""
    if not data.startswith(ENCRYPTED):
        return data
    if secret is None:
        raise BadClaim("it is encrypted for a recipient; name the recipient's key file with --key")
    public = crypto_scalarmult_base(secret)
    try:
        return bytes(crypto_box_seal_open(data[len(ENCRYPTED) :], public, secret))
    except (CryptoError, NaClValueError):
        raise BadClaim("it is encrypted for another recipient, or damaged") from None


def verified(outcome: Outcome, data: bytes) -> Claim:
    """The claim in these bytes, checked against the commitments of a session.

    Guarantee: the member signed this number for this session, resource and recipient. Without
    noise, it is the number that it committed to before the session was sealed. With noise, it is
    within the member's limits, and nothing else is known of it. Raises `BadClaim` otherwise.
    """
    agreement = outcome.agreement
    if no_claims(outcome):
        raise BadClaim(f"the session has no claims: {no_claims(outcome)}")
    if len(data) != CLAIM_BYTES or not data.startswith(CONTEXT):
        raise BadClaim("it is not a claim file, or it is damaged")
    end = len(data) - _SIGNATURE_BYTES
    *fields, blinding = _BODY.unpack(data[len(CONTEXT) : end])
    names = ("agreement", "chain_hash", "place", "index", "recipient", "number")
    claim = Claim(
        **dict(zip(names, fields, strict=True)), blinding=int.from_bytes(blinding, "little")
    )
    if claim.agreement != agreement.digest or claim.chain_hash != outcome.state.chain_hash:
        raise BadClaim("it belongs to another session")
    if claim.place >= len(agreement.members) or claim.index > len(agreement.resources):
        raise BadClaim("it names a member or a resource that the agreement does not have")
    name = agreement.members[claim.place].name
    try:
        verify(data[end:] + data[:end], agreement.members[claim.place].signing_key)
    except BadMessage:
        raise BadClaim(f"{name!r} did not sign it") from None
    if claim.recipient != recipient_of(agreement, claim.index):
        raise BadClaim(f"the claim of {name!r} is for another recipient")
    _require_possible(outcome, claim, name)
    return claim


def _require_possible(outcome: Outcome, claim: Claim, name: str) -> None:
    """Raise `BadClaim` unless the number is the committed one, or with noise within its limits."""
    agreement, committed = outcome.agreement, outcome.state.committed
    if committed is None:
        lowest, highest = limits(outcome, claim.place, claim.index)
        if claim.blinding or not lowest <= claim.number <= highest:
            raise BadClaim(f"{name!r} claims more than its share and the rounds allow")
        return
    width = widths(len(agreement.resources))[claim.index]
    point = committed.points[claim.place][claim.index]
    fits = claim.number < 1 << width and claim.blinding < ORDER
    if not fits or commit(claim.number, claim.blinding) != point:
        raise BadClaim(f"{name!r} claims another number than it committed to")


def quota_ticks(agreement: Agreement, claim: Claim) -> int:
    """What a claim to a resource allows, in ticks: at most the member's share."""
    share = int(quantities(agreement).share_ticks[claim.place, claim.index])
    return min(share, claim.number * grain_ticks(agreement))


def payment_grains(claim: Claim) -> int:
    """What a claim to a payment says, in grains of money; negative if the member is paid."""
    return claim.number - PAYMENT_OFFSET
