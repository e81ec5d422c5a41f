"""The settlement of a demonstration: every company's claim to its payment, added up.

Claims are made from the ledgers with the code of `party claim`, and settled with that of
`protocol settle`.
"""

from pathlib import Path
from typing import Any

from party.claim_file import write_claim
from protocol.outcome.outcome import outcome
from protocol.report.settlement import settlement_figures, settlement_page
from protocol.runtime.files import read_agreement, read_transcript
from protocol.settle_command import cleared
from protocol.wire.transcript import load


def settle(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Make all claims to payments, settle them, and write the page. Returns its figures."""
    agreement = read_agreement(folder / "agreement.toml")
    claims = []
    for name in names:
        home = folder / name
        claims.append(home / "payment.claim")
        write_claim(
            agreement,
            key=home / f"{name}.key",
            ledger=home / f"{name}.ledger",
            resource=None,
            out=claims[-1],
        )
    data = read_transcript(folder / names[0] / "out" / "session.transcript", agreement)
    clearing = cleared(outcome(agreement, load(agreement, data)), claims, None)
    path = folder / "settlement.html"
    path.write_text(settlement_page(clearing, []), encoding="utf-8")
    return settlement_figures(clearing, []) | {"page": str(path)}
