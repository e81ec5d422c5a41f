"""Sessions of real processes that can never finish, and `party abandon`."""

import argparse
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from party.ledger.session_ledger import Ledger
from protocol.runtime.files import read_agreement
from scripts.lab.common import local_session
from scripts.lab.common.local_session import environment
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)

SPOILT = 4
"""The round in which one member does not mask its release."""

_UNMASKED = f"""
from party import __main__
from party.release import masks

plain = masks.Masks.masked
masks.Masks.masked = lambda self, values, position: (
    values if position.round == {SPOILT} else plain(self, values, position)
)
__main__.main()
"""
"""A dishonest party that leaves one release unmasked."""


def command(*arguments: Any) -> tuple[int, str]:
    """The exit code of a command and its output."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    return done.returncode, output


def with_a_bad_member(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plain = local_session.party_command

    def chosen(folder: Path, party: str, options: argparse.Namespace) -> list[str]:
        found = plain(folder, party, options)
        return [found[0], "-c", _UNMASKED, *found[3:]] if party == name else found

    monkeypatch.setattr(local_session, "party_command", chosen)


@pytest.mark.parametrize("mode", ["exact", "private"])
def test_a_session_with_an_impossible_total_is_abandoned_and_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The total is reported, the session abandoned, its releases count, the next one starts."""
    terms = ("--mode", mode, "--reveal", "totals", "--epsilon", "8")
    with RunningSession(tmp_path / "s", options(*terms, rounds=12)) as session:
        folder = session.folder
        with_a_bad_member(monkeypatch, "party3")
        session.start()
        for again in range(2):
            for name in ("party1", "party2"):
                if again:
                    session.start_party(name)
                assert session.processes[name].wait(LIMIT) == 15
        output = session.stderr("party1")
        spoilt = f"round {SPOILT + 1}: the releases add up to a total that 3 members cannot have"
        assert f"{spoilt} released" in output
        assert "`party abandon --out DIR`: it ends the session here" in output
        assert "party3" not in output, "masks hide which member it was"

        ledger, out = folder / "party1" / "party1.ledger", tmp_path / "given-up"
        with closing(Ledger(ledger, session.agreement, "party1")) as kept:
            secret, (asked, _) = kept.mask_secret(), kept.demands()
            before = kept.accounts()
        rows = [secret, *(row.astype(">i8").tobytes() for row in asked)]
        assert len(rows) == SPOILT + 2
        named = ("--agreement", folder / "agreement.toml", "--ledger", ledger, "--out", out)
        code, output = command("party", "abandon", *named)
        assert (code, "nothing was changed" in output) == (2, True)
        assert secret in ledger.read_bytes()
        code, output = command("party", "abandon", *named, "--yes")
        assert code == 0, output
        assert "wait until their patience ends" in output
        assert not [row for row in rows if row in ledger.read_bytes()]
        assert not Path(f"{ledger}-wal").exists()

        key = folder / "party1" / "party1.key"
        code, output = command("party", "abandon", *named[:2], "--key", key)
        assert (code, "was abandoned here" in output) == (0, True), "once is enough"
        code, output = command("party", "claim", *named[:2], "--key", key, "--payment")
        assert (code, "was abandoned here" in output) == (15, True)
        code, output = command("party", "abandon", *named[:2])
        assert (code, "--ledger is required unless --key is given" in output) == (2, True)

        session.start_party("party1")
        assert session.processes["party1"].wait(LIMIT) == 15
        assert "was abandoned here after 4 of 12 rounds" in session.stderr("party1")
        with closing(Ledger(ledger, session.agreement, "party1")) as kept:
            assert kept.accounts() == before
            assert before[0].releases == SPOILT + 1

        transcript = (out / "session.transcript", "--agreement", folder / "agreement.toml")
        code, output = command("protocol", "audit", *transcript)
        assert (code, f"stops after {SPOILT} of 12 rounds" in output) == (22, True)
        assert command("protocol", "report", *transcript, "--out", out / "page.html")[0] == 0
        code, output = command(
            "coordinator", "new", "--session", "next", "--from", *transcript,
            "--key", folder / "coordinator.key", "--out", folder / "next.toml",
        )  # fmt: skip
        assert (code, f"stops after {SPOILT} of 12 rounds" in output) == (0, True)
        figures = command("protocol", "audit", *transcript, "--json")[1]
        reached = json.loads(figures[: figures.rindex("error: ")])
        assert list(read_agreement(folder / "next.toml").pricing.start) == reached["prices"]
