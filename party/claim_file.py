"""Claims of one company, written from its ledger without network, and the end of their secrets.

A claim opens one number for one recipient. With noise it states that number, and nothing proves
it. Never here: an opening that was not asked for, or a number in a log or an error.
"""

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from party import keys
from party.ledger import accounts
from party.ledger.secret_records import Opening
from party.ledger.session_ledger import Ledger
from party.release.allocation import own_allocation
from party.release.commitments import committed_numbers
from party.settlement.result_files import read_outcome
from protocol.agreement.model import Agreement
from protocol.clearing.claims import NO_RECIPIENT, Claim, file_name, packed, recipient_of
from protocol.errors import BadCommand, InternalError, Unsealed
from protocol.outcome.outcome import Outcome, no_claims
from protocol.outcome.outcome import outcome as compute_outcome
from protocol.runtime.files import create_private, read_transcript
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
    out: Path | None = None,
    transcript: Path | None = None,
) -> tuple[Path, str]:
    """Write a claim to the quota of a resource, or to the payment: its file, and a line to show.

    `out` is the file, or a folder for a file with the usual name; without it, the current one.
    `transcript` is that of another member, if the own ledger lacks seals.
    """
    _require_claims(agreement)
    index = index_of(agreement, resource)
    identity = keys.load(key)
    identity.belongs_to(agreement)
    member, (_, data_set) = identity.name, accounts.find_session(ledger, agreement)
    if out is None or out.is_dir():
        out = (out or Path()) / file_name(agreement, member, resource)
    with closing(Ledger(ledger, agreement, member, data_set=data_set)) as opened:
        if opened.abandoned is not None and transcript is None:
            raise opened.abandoned
        outcome = read_outcome(opened, agreement, member)
        if transcript is not None:
            outcome = _sealed_elsewhere(outcome, transcript)
        _require_claimable(outcome)
        opening, recipient = _opening(outcome, member, opened), recipient_of(agreement, index)
        claim = Claim(
            agreement=agreement.digest,
            chain_hash=outcome.state.chain_hash,
            place=agreement.place(member),
            index=index,
            recipient=recipient,
            number=opening.numbers[index],
            blinding=opening.blindings[index],
        )
        create_private(out, packed(claim, identity.sign))  # while no other has the ledger open
    role = agreement.clearing if resource is None else agreement.resources[index].operator
    if role is None or recipient == NO_RECIPIENT:
        whom = "the clearing office" if resource is None else f"the operator of {resource!r}"
        shown = f"{out}: not encrypted. Give it only to {whom}: it shows this one number"
    else:
        shown = f"{out}: only {role.name} can read it; send it there"
    if agreement.privacy is not None:
        shown += ". Your privacy budget does not cover this number, and no commitment proves it"
    return out, shown


def _opening(outcome: Outcome, member: str, ledger: Ledger) -> Opening:
    """The openings behind a member's claims; with noise its own numbers, which nothing proves."""
    if not outcome.agreement.commits:
        allocation = own_allocation(outcome, member, ledger)
        if allocation is None:
            raise InternalError("a session with totals has a private allocation")
        numbers = committed_numbers(outcome, replace(allocation, uncut=None))
        return Opening(numbers, (0,) * len(numbers))
    opening = ledger.opening()
    if opening is None:
        raise BadCommand(
            "the secrets behind the claims of this session are no longer in the ledger: `party "
            "forget` destroyed them. No claim can be made"
        )
    return opening


def _require_claims(agreement: Agreement) -> None:
    if not agreement.masked:
        raise BadCommand(
            "quotas and payments of this session are public: no claims are needed. Run `protocol "
            "settle` with the transcript alone"
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
    if not no_claims(outcome):
        return
    if outcome.state.committed is not None and not outcome.state.committed.adds_up:
        raise BadCommand(f"{no_claims(outcome)}, so claims prove nothing")
    raise Unsealed(
        "seals are missing in your ledger, so no claim can be made; run `party join` again, or "
        "name the transcript of a member that has all seals with --transcript"
    )


def forget(agreement: Agreement, ledger: Path) -> str:
    """Destroy what a session that has ended keeps in a ledger. Returns a line to show."""
    member, data_set = accounts.find_session(ledger, agreement)
    with closing(Ledger(ledger, agreement, member, data_set=data_set)) as opened:
        if not opened.sealed and opened.fault is None and opened.abandoned is None:
            raise BadCommand(
                "the session has not ended, and needs its secrets; end it with `party join`, or "
                "with `party abandon`"
            )
        opened.forget()
    openings = (
        "The ledger has overwritten the secrets behind the claims of this session: no claim can be "
        "made any more. It has also overwritten the"
        if agreement.commits
        else "This session has no commitments. The ledger has overwritten the"
    )
    return (
        f"{openings} fingerprint of your model: `party result` does not notice another model any "
        "more. Copies of the ledger still hold what was overwritten: delete them, but never the "
        "ledger"
    )
