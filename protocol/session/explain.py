"""What the operator reads when a session warns, runs out of patience or fails.

Every text names the member, the round and what to do next. Never here: a private number, or a
decision whether something is a fault.
"""

from protocol import errors
from protocol.agreement.model import Agreement
from protocol.rounds import RoundState
from protocol.session.handshake import Handshake
from protocol.wire.messages import Commitment, MaskKey, Message, Seal, Signed

_ONCE = {MaskKey: "mask keys", Commitment: "commitments", Seal: "seals"}
"""What a member signs once in a session. People count rounds from 1, messages from 0."""


def fault(proof: tuple[Signed, ...], me: str, state: RoundState) -> errors.PeerError:
    """Two messages prove equivocation, a single Halt proves other prices."""
    accused, evidence = proof[0].message.sender, tuple(signed.data for signed in proof)
    if len(proof) == 1:
        inputs = f"releases of round {state.round}" if state.round else "mask keys"
        inputs = "commitments" if state.committed is not None else inputs
        text = f"{accused!r} got other prices than {me!r} from the same {inputs}"
        text += "; compare versions and machines"
        return errors.DifferentPrices(text, sender=accused, evidence=evidence)
    what = f"different messages for round {proof[0].message.round + 1}"
    for kind, name in _ONCE.items():
        if all(isinstance(signed.message, kind) for signed in proof):
            what = f"different {name}"
    text = f"{accused!r} signed two {what}; both are stored as evidence, and the session has ended"
    return errors.Equivocation(text, sender=accused, evidence=evidence)


def old_ledger(message: Message, agreement: Agreement, recorded: int) -> errors.BadLedger:
    what = f"release {message.round + 1}"
    if isinstance(message, MaskKey | Commitment):
        what = "the mask key" if isinstance(message, MaskKey) else "the commitments"
    count = f"{recorded} {'messages' if agreement.masked else 'releases'}"
    return errors.BadLedger(
        f"others know {what} of {message.sender!r}, signed with its key, but this ledger holds "
        f"{count}: it is an old copy. Nothing was released. Restore the newest copy of the "
        "ledger; without it you cannot continue this session"
    )


def impossible_total(
    error: errors.ImpossibleTotal, messages: tuple[Signed, ...]
) -> errors.ImpossibleTotal:
    """All members that have these releases see this. It proves no fault of any of them."""
    return errors.ImpossibleTotal(
        f"{error}. Running the same command again ends the same way. Compare versions with the "
        "others. Then run `party abandon --out DIR`: it ends the session here and destroys its "
        "secrets. The next session can begin at the prices reached (`coordinator new --from`)",
        evidence=tuple(signed.data for signed in messages),
    )


def bad_commitment(error: errors.BadCommitment) -> str:
    return (
        f"{error}; dropped. Without valid commitments of every member the outcome stands, but is "
        "not sealed, and no claims can be made"
    )


def out_of_patience(
    agreement: Agreement,
    state: RoundState,
    missing: tuple[str, ...],
    waited_seconds: float,
    handshake: Handshake,
    diverged: dict[str, Signed],
) -> errors.SottoError:
    """Why this party stops waiting. Nothing is final: the same command resumes the session."""
    names = ", ".join(map(repr, missing))
    first = next((name for name in missing if name in diverged), None)
    hints = [f"; {name!r} has another chain hash" for name in missing if name in diverged]
    for name, digest in handshake.other_agreements.items():
        hints.append(f"; {name!r} has another agreement, {digest.hex()}")
    for name in missing:
        if name in handshake.stale_claims:
            hints.append(
                f"; {name!r} claims to know more of our releases than this ledger holds, and has "
                "shown none"
            )
    waited = duration(waited_seconds)
    progress = f"round {state.round + 1} of {agreement.rounds}"
    if state.uncommitted:
        return errors.Unsealed(
            f"all rounds are closed, but there are no valid commitments of {names}"
            f"{''.join(hints)}. The outcome is valid but unsealed, and no claims can be made. Run "
            "the same command again when they are back"
        )
    if state.over:
        return errors.Unsealed(
            f"all rounds are closed, but there is no seal of {names}{''.join(hints)}. The outcome "
            "is valid but unsealed. Run the same command again when they are back, or when a "
            "member that has their seals is"
        )
    if first is not None:
        return errors.Diverged(
            f"{first!r} has another chain hash in {progress}, and after {waited} no member has "
            "shown why. Nothing is lost: run the same command to resume",
            sender=first,
            evidence=(diverged[first].data,),
        )
    if not state.round:
        return errors.Unavailable(
            f"the first round did not close within {waited}: waited for {names}{''.join(hints)}. "
            "Nothing is lost: run the same command again when they are there; --wait sets how long "
            "it waits"
        )
    return errors.Unavailable(
        f"nothing from {names} for {waited} in {progress}{''.join(hints)}. "
        "Nothing is lost: run the same command again when they are back. If they never come back, "
        "`party abandon` ends the session here"
    )


def duration(seconds: float) -> str:
    """A length of time in the largest unit that it fills: 1 day, 1.5 hours, 2 minutes."""
    for size, unit in ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute")):
        if seconds >= 0.999 * size:
            count = f"{round(seconds / size, 1):g}"
            return f"{count} {unit}" + ("" if count == "1" else "s")
    return f"{round(seconds, 1):g} seconds"
