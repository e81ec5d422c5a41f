"""Claims of one company, written from its ledger without network, and the end of their secrets.

A claim opens one number for one recipient. Never here: an opening that was not asked for, or a
number in a log or an error.
"""

import os
from contextlib import closing
from pathlib import Path

from nacl.bindings import crypto_sign

from party import keys
from party.ledger import accounts
from party.ledger.session_ledger import Ledger
from party.settlement.result_files import read_outcome
from protocol.agreement.model import Agreement
from protocol.clearing.claims import NO_RECIPIENT, Claim, packed, recipient_of
from protocol.errors import BadCommand, Unsealed
from protocol.outcome.outcome import Outcome
from protocol.outcome.outcome import outcome as compute_outcome
from protocol.runtime.files import read_transcript
from protocol.wire.codec import SIGNATURE_BYTES
from protocol.wire.transcript import load


def index_of(agreement: Agreement, resource: str | None) -> int:
    """The place of a resource in the agreement; that of the payment is after the last."""
    names = [r.name for r in agreement.resources]
    if resource is None:
        return len(names)
    if resource not in names:
        raise BadCommand(
            f"{resource!r} is not a resource of {agreement.session!r}; choose one of "
            f"{', '.join(map(repr, names))}"
        )
    return names.index(resource)


def write_claim(
    agreement: Agreement,
    *,
    key: Path,
    ledger: Path,
    resource: str | None,
    out: Path,
    transcript: Path | None = None,
) -> str:
    """Write a claim to the quota of a resource, or to the payment. Returns a line to show.

    `transcript` is that of another member, if the own ledger lacks seals.
    """
    _require_commitments(agreement)
    index = index_of(agreement, resource)
    identity = keys.load(key)
    identity.belongs_to(agreement)
    member, (_, data_set) = identity.name, accounts.find_session(ledger, agreement)
    with closing(Ledger(ledger, agreement, member, data_set=data_set)) as opened:
        if opened.abandoned is not None and transcript is None:
            raise opened.abandoned
        outcome, opening = read_outcome(opened, agreement, member), opened.opening()
    if transcript is not None:
        outcome = _sealed_elsewhere(outcome, transcript)
    _require_claimable(outcome)
    if opening is None:
        raise BadCommand(
            "what opens the commitments of this session is no longer in the ledger: it was "
            "destroyed with `party forget`. No claim can be made"
        )
    recipient = recipient_of(agreement, index)
    claim = Claim(
        agreement=agreement.digest,
        chain_hash=outcome.state.chain_hash,
        place=agreement.place(member),
        index=index,
        recipient=recipient,
        number=opening.numbers[index],
        blinding=opening.blindings[index],
    )
    secret = identity.signing_secret
    _write_new(out, packed(claim, lambda text: crypto_sign(text, secret)[:SIGNATURE_BYTES]))
    role = agreement.clearing if resource is None else agreement.resources[index].operator
    if role is None or recipient == NO_RECIPIENT:
        whom = "the clearing office" if resource is None else f"the operator of {resource!r}"
        return f"{out}: not encrypted. Give it only to {whom}: it shows this one number"
    return f"{out}: only {role.name} can read it; send it there"


def _require_commitments(agreement: Agreement) -> None:
    if agreement.commits:
        return
    if not agreement.masked:
        raise BadCommand(
            "quotas and payments of this session are public: no claims are needed. Run `protocol "
            "settle` with the transcript alone"
        )
    raise BadCommand(
        "with noise there are no claims: a member could count its demand as noise, so nothing "
        "binds its quota but its share"
    )


def _sealed_elsewhere(own: Outcome, transcript: Path) -> Outcome:
    """The outcome of another member's transcript, if its exchanges are those of the own ledger."""
    agreement = own.agreement
    theirs = compute_outcome(agreement, load(agreement, read_transcript(transcript, agreement)))
    if theirs.state.chain_hash != own.state.chain_hash:
        raise BadCommand(
            f"{str(transcript)!r} has other rounds or commitments than your ledger, so a claim "
            "would not count there"
        )
    return theirs


def _require_claimable(outcome: Outcome) -> None:
    committed = outcome.state.committed
    if not outcome.sealed or committed is None:
        raise Unsealed(
            "seals are missing in your ledger, so no claim can be made; run `party join` again, or "
            "name the transcript of a member that has all seals with --transcript"
        )
    if not committed.adds_up:
        raise BadCommand("the commitments of all members do not add up, so claims prove nothing")


def _write_new(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read. An existing one is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadCommand(
            f"{str(path)!r} exists and is not overwritten; name another file with --out"
        ) from None
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def forget(agreement: Agreement, ledger: Path) -> str:
    """Destroy what opens the commitments of a session. Returns a line to show."""
    _require_commitments(agreement)
    member, data_set = accounts.find_session(ledger, agreement)
    with closing(Ledger(ledger, agreement, member, data_set=data_set)) as opened:
        if not opened.transcript().seals and opened.fault is None and opened.abandoned is None:
            raise BadCommand(
                "the session has not ended, and needs what opens its commitments; end it with "
                "`party join`, or with `party abandon`"
            )
        opened.destroy_opening()
    return (
        "What opens the commitments of this session is overwritten in the ledger: no claim can be "
        "made any more. Copies of the ledger still hold it: delete them, but never the ledger"
    )
