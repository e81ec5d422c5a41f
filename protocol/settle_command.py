"""The commands `protocol settle` and `protocol keygen`: files in, files out.

Never here: what a claim proves (`protocol.clearing`).
"""

import argparse
import json
from pathlib import Path

from protocol.clearing.claims import SEALED_BYTES, Claim, unsealed, verified
from protocol.clearing.settle import Clearing, from_claims, from_transcript
from protocol.clearing.use import compare, read_use
from protocol.errors import BadClaim, BadCommand, MissingClaims, Unbound, Unsealed
from protocol.outcome.outcome import Outcome
from protocol.report.settlement import (
    payments_csv,
    problems,
    quotas_csv,
    settlement_figures,
    settlement_page,
)
from protocol.runtime import role_keys
from protocol.runtime.files import TooLong, read_bounded, replace_private

_USE_BYTES = 1 << 24


def settle(options: argparse.Namespace, outcome: Outcome) -> None:
    """Write the files of a settlement, then raise what is wrong with single claims."""
    clearing = cleared(outcome, options.claims, options.key)
    used = []
    if options.used is not None:
        figures = read_use(outcome, _read_use(options.used))
        _require_claims_to(clearing, {resource for _, resource in figures})
        used = compare(clearing, figures)
    files = {
        "settlement.json": json.dumps(settlement_figures(clearing, used), indent=2) + "\n",
        "settlement.html": settlement_page(clearing, used),
        "payments.csv": payments_csv(clearing),
        "quotas.csv": quotas_csv(clearing, used),
    }
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            replace_private(options.out / name, content)
            print(options.out / name)
    except OSError as error:
        raise BadCommand(f"--out {str(options.out)!r}: {error.strerror}") from None
    wrong = "\n  ".join(["", *problems(clearing)])
    if clearing.refused:
        raise BadClaim(f"some files do not count; ask their members for new claims{wrong}")
    if clearing.missing:
        raise MissingClaims(f"claims are missing; ask these members for them{wrong}")


def _require_claims_to(clearing: Clearing, used: set[str]) -> None:
    """Without any claim to a resource, every use of it would look like an overrun."""
    unknown = sorted(used - clearing.quotas.keys())
    if unknown and not clearing.refused:
        raise BadCommand(
            f"--used has lines about {', '.join(map(repr, unknown))}, but no claim to it is given; "
            "add the claims, or leave out these lines"
        )


def cleared(outcome: Outcome, paths: list[Path], key: Path | None) -> Clearing:
    """What the transcript and these claims show."""
    agreement = outcome.agreement
    if not outcome.sealed:
        raise Unsealed(
            "seals of members are missing, so this outcome binds no member; ask a member that has "
            "finished for its transcript"
        )
    if not agreement.masked:
        if paths:
            raise BadCommand("quotas and payments of this session are public: give no claims")
        return from_transcript(outcome)
    if not agreement.commits:
        raise BadCommand(
            "with noise and totals nothing binds a quota but its share, so there are no claims; "
            "members tell each other their payments, and spread what is left by endowment"
        )
    if outcome.state.committed is None or not outcome.state.committed.adds_up:
        raise Unbound("the commitments of the members do not add up, so claims prove nothing")
    if not paths:
        raise BadCommand("name the claim files of the members")
    secret = None if key is None else role_keys.load(key)
    claims: dict[tuple[int, int], Claim] = {}
    refused: dict[str, str] = {}
    for path in paths:
        try:
            claim = verified(outcome, unsealed(_read_claim(path), secret))
        except BadClaim as error:
            refused[str(path)] = str(error)
            continue
        if (claim.place, claim.index) in claims:
            name = agreement.members[claim.place].name
            refused[str(path)] = f"{name!r} has claimed this already; it counts once"
        claims.setdefault((claim.place, claim.index), claim)
    return from_claims(outcome, list(claims.values()), refused)


def _read_claim(path: Path) -> bytes:
    try:
        return read_bounded(path, SEALED_BYTES)
    except TooLong:
        raise BadClaim("it is not a claim file: it is too long") from None
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _read_use(path: Path) -> str:
    try:
        # Spreadsheets begin a file with a byte order mark.
        return read_bounded(path, _USE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason
        raise BadCommand(f"--used {str(path)!r} cannot be read: {reason}") from None
