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
    quotas_csv,
    settlement_figures,
    settlement_page,
)
from protocol.runtime import role_keys
from protocol.runtime.files import TooLong, read_bounded

_USE_BYTES = 1 << 24


def settle(options: argparse.Namespace, outcome: Outcome) -> None:
    """Write the files of a settlement, then raise what is wrong with single claims."""
    clearing = cleared(outcome, options.claims, options.key)
    used = []
    if options.used is not None:
        text = _read(options.used, _USE_BYTES, "--used").decode("utf-8", errors="replace")
        used = compare(clearing, read_use(outcome, text))
    files = {
        "settlement.json": json.dumps(settlement_figures(clearing, used), indent=2) + "\n",
        "settlement.html": settlement_page(clearing, used),
        "payments.csv": payments_csv(clearing),
        "quotas.csv": quotas_csv(clearing, used),
    }
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (options.out / name).write_text(content, encoding="utf-8")
            print(options.out / name)
    except OSError as error:
        raise BadCommand(f"--out {str(options.out)!r}: {error.strerror}") from None
    if clearing.refused:
        reasons = "; ".join(f"{file}: {why}" for file, why in clearing.refused.items())
        raise BadClaim(f"{len(clearing.refused)} claims do not count. {reasons}")
    if clearing.missing:
        lists = (f"{what or 'payment'}: {', '.join(n)}" for what, n in clearing.missing.items())
        raise MissingClaims(f"claims are missing. {'; '.join(lists)}")


def cleared(outcome: Outcome, paths: list[Path], key: Path | None) -> Clearing:
    """What the transcript and these claims show."""
    agreement = outcome.agreement
    if not outcome.sealed:
        raise Unsealed("seals of members are missing, so this outcome binds no member")
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
            claim = verified(outcome, unsealed(_read(path, SEALED_BYTES, "a claim"), secret))
        except BadClaim as error:
            refused[str(path)] = str(error)
            continue
        if (claim.place, claim.index) in claims:
            name = agreement.members[claim.place].name
            refused[str(path)] = f"{name!r} has claimed this already; it counts once"
        claims.setdefault((claim.place, claim.index), claim)
    return from_claims(outcome, list(claims.values()), refused)


def _read(path: Path, most: int, what: str) -> bytes:
    try:
        return read_bounded(path, most)
    except TooLong:
        raise BadClaim(f"{path} is too long for {what}") from None
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be read: {error.strerror}") from None
