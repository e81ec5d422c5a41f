"""The tutorial notebook runs as it is in Jupyter's kernel, from models to a settled session."""

import json
from pathlib import Path

import pytest

from scripts.examples.notebook import TUTORIAL, run

FIGURES = """
import csv, json
with (settled / "payments.csv").open() as file:
    account = [row for row in csv.DictReader(file) if row["kind"] == "account"]
paid = {row["from"]: float(row["amount"]) for row in account if row["from"]}
paid |= {row["to"]: -float(row["amount"]) for row in account if row["to"]}
print(json.dumps({
    "best": best, "earned": earned, "rounds": len(rounds), "audit": audit.returncode, "paid": paid,
    "payments": {name: result.payment for name, result in results.items()},
    "gains": [result.gain for result in results.values()],
    "private": ["private" in result._repr_html_() for result in results.values()],
}))
"""


@pytest.mark.timeout(300)
def test_the_tutorial_runs_to_a_settled_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its companies end at the joint optimum, each gains, and the office settles to the cent."""
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):  # nothing is written to the home folder
        monkeypatch.setenv(name, str(tmp_path / name))
    figures = json.loads(run(TUTORIAL, FIGURES)[-1])
    assert figures["earned"] == pytest.approx(figures["best"], rel=1e-3)
    assert (figures["audit"], figures["private"]) == (0, [True] * 3)
    assert figures["rounds"] > 0
    assert min(figures["gains"]) > 0.0
    assert figures["paid"] == pytest.approx(figures["payments"], abs=0.015)
    assert sum(figures["paid"].values()) == pytest.approx(0.0, abs=1e-9)
