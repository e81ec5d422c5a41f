"""The command `protocol settle`: files in, files out.

Never here: what a claim proves (`protocol.clearing`).
"""

import argparse
import json
from pathlib import Path
from typing import Any

from protocol.clearing.claims import MOST_BYTES, Claim, decrypted, verified
from protocol.clearing.settle import Clearing, from_claims, from_transcript
from protocol.clearing.use import compare, read_use
from protocol.errors import BadClaim, BadCommand, MissingClaims, Unbound, Unsealed
from protocol.outcome.outcome import Outcome
from protocol.report.format import plain
from protocol.report.settlement import (
    checked,
    overruns,
    payments_csv,
    problems,
    quotas_csv,
    settlement_figures,
    settlement_page,
    unchecked,
)
from protocol.runtime import role_keys
from protocol.runtime.files import TooLong, read_bounded, read_text, replace_private

_USE_BYTES = 1 << 24
_SETTLEMENT_BYTES = 1 << 26


def settle(options: argparse.Namespace, outcome: Outcome) -> None:
    """Write the files of a settlement, then raise what is wrong with single claims.

    If no claim counts, no file is written or replaced. A settlement that contains more is never
    replaced.
    """
    clearing = cleared(outcome, options.claims, options.key)
    wrong = "\n  ".join(["", *problems(clearing)])
    if not clearing.quotas and not clearing.payments:
        raise BadClaim(f"no claim file counts, for the reasons below; nothing is written{wrong}")
    used = []
    if options.used is not None:
        text = read_text(options.used, _USE_BYTES, f"--used {str(options.used)!r}")
        amounts = read_use(outcome, text)
        _require_claims_to(clearing, {resource for _, resource in amounts})
        used = compare(clearing, amounts)
    figures = settlement_figures(clearing, used)
    # Another folder for each session, so that the next one does not replace it.
    folder = options.out or Path(f"{outcome.agreement.session}-settlement")
    _require_no_less(figures, folder, wrong)
    files = {
        "settlement.json": json.dumps(figures, indent=2) + "\n",
        "settlement.html": settlement_page(clearing, used),
        "payments.csv": payments_csv(clearing),
        "quotas.csv": quotas_csv(clearing, used),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            replace_private(folder / name, content)
            print(folder / name)
    except OSError as error:
        raise BadCommand(f"--out {str(folder)!r}: {error.strerror}") from None
    for line in (*checked(clearing), *unchecked(clearing), *overruns(clearing, used)):
        print(plain(line))
    if clearing.refused:
        raise BadClaim(f"some claim files do not count, for the reasons below{wrong}")
    if clearing.missing:
        raise MissingClaims(f"claims are missing; ask these members for them{wrong}")
    if problems(clearing):
        raise Unbound(f"what the members state does not add up; noise hides who is wrong{wrong}")


def _require_no_less(figures: dict[str, Any], folder: Path, wrong: str) -> None:
    """Refuse to replace a settlement of another session, or one with more in it.

    A claim that counted before may count no more: `wrong` says why.
    """
    path = folder / "settlement.json"
    if not path.exists():
        return
    other = f"--out {str(folder)!r} already has"
    advice = "nothing is written; use another --out"
    try:
        before = json.loads(read_text(path, _SETTLEMENT_BYTES, f"{str(path)!r}"))
        same = before["head"] == figures["head"]
        lost = sorted(_known(before) - _known(figures))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadCommand(f"{other} a settlement.json of another program: {advice}") from None
    if not same:
        raise BadCommand(f"{other} the settlement of another session: {advice}")
    if lost:
        what = "; ".join(lost[:5]) + ("; ..." if len(lost) > 5 else "")
        raise BadCommand(f"{other} what this command does not give: {what}. So {advice}{wrong}")


def _known(figures: dict[str, Any]) -> set[str]:
    """What a settlement knows, in words: payments, quotas and use by member."""
    return {
        *(f"the payment of {name!r}" for name in (*figures["payments"], *figures["stated"])),
        *(f"{what!r} of {name!r}" for what, own in figures["quotas"].items() for name in own),
        *(f"the use of {one['resource']!r} by {one['member']!r}" for one in figures["use"]),
    }


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
    committed = outcome.state.committed
    if committed is not None and not committed.adds_up:
        raise Unbound("the commitments of the members do not add up, so claims prove nothing")
    if not paths:
        raise BadCommand("name the claim files of the members")
    secret = None if key is None else role_keys.load(key)
    claims: dict[tuple[int, int], list[tuple[Path, Claim]]] = {}
    refused: dict[str, str] = {}
    for path in paths:
        try:
            claim = verified(outcome, decrypted(_read_claim(path), secret))
        except BadClaim as error:
            refused[str(path)] = str(error)
            continue
        claims.setdefault((claim.place, claim.index), []).append((path, claim))
    counted = [_counted(outcome, held, refused) for held in claims.values()]
    return from_claims(outcome, [claim for claim in counted if claim is not None], refused)


def _counted(
    outcome: Outcome, held: list[tuple[Path, Claim]], refused: dict[str, str]
) -> Claim | None:
    """The claim that counts among valid ones to one number, or None.

    With noise a member can sign two different numbers. Then neither counts, and it is named.
    """
    (_, claim), *others = held
    name = outcome.agreement.members[claim.place].name
    if any(other.number != claim.number for _, other in others):
        reason = f"{name!r} has signed different numbers for this; none of them counts"
        refused |= {str(path): reason for path, _ in held}
        return None
    refused |= {str(p): f"{name!r} has claimed this already; it counts once" for p, _ in others}
    return claim


def _read_claim(path: Path) -> bytes:
    try:
        return read_bounded(path, MOST_BYTES)
    except TooLong:
        raise BadClaim("it is not a claim file: it is too long") from None
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be read: {error.strerror}") from None
