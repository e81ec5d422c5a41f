"""From the last round to paid and used, with real processes and commands."""

import json
import os
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from protocol.errors import BadClaim, BadCommand, MissingClaims, Unbound, Unsealed
from scripts.lab.common.local_session import party_command
from tests.support.commands import run_module
from tests.support.false_member import LIES
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

LIES_IN_SHORT = ("grains", "copied", "small-order")
"""The simulated network tries the others too; SOTTO_LIES=all tries them here."""

SHORT = ("--mode", "exact", "--reveal", "totals")


def claims(folder: Path, names: list[str], *what: str) -> list[Path]:
    """Claim files of these members, made with the command."""
    files = []
    for name in names:
        out = folder / f"{name}{'-'.join(what)}.claim"
        run_module(
            *("party", "claim", "--agreement", folder / "agreement.toml"),
            *("--key", folder / name / f"{name}.key", "--out", out, *what),
            check=True,
        )
        files.append(out)
    return files


def test_session_is_settled_from_claims(tmp_path: Path) -> None:
    """Claims of all members settle to the cent, in private files; wrong ones are named."""
    folder = tmp_path / "s"
    with RunningSession(folder, options(*SHORT, rounds=80)) as session:
        session.start()
        session.wait(LIMIT)
        names = session.names
        assert session.result(names[0])["trade"]["obstacles"] == []
    files = claims(folder, names, "--payment")
    command = (
        *("protocol", "settle", "--agreement", folder / "agreement.toml", "--transcript"),
        *(folder / names[0] / "out" / "session.transcript", "--out", tmp_path / "settled"),
    )
    assert run_module(*command, *files).returncode == 0
    figures = json.loads((tmp_path / "settled" / "settlement.json").read_text())
    assert list(figures["payments"]) == names
    assert sum(map(Fraction, figures["payments"].values())) == 0
    assert any(map(Fraction, figures["payments"].values()))
    modes = {file.stat().st_mode & 0o777 for file in (tmp_path / "settled").iterdir()}
    assert modes == {0o600}
    before = (tmp_path / "settled" / "settlement.json").read_bytes()
    less = run_module(*command, *files[1:])
    assert less.returncode == BadCommand.exit_code
    assert f"the payment of {names[0]!r}" in less.stderr
    assert (tmp_path / "settled" / "settlement.json").read_bytes() == before
    elsewhere = ("--out", tmp_path / "elsewhere")
    missing = run_module(*command, *elsewhere, *files[1:])
    assert missing.returncode == MissingClaims.exit_code
    assert names[0] in missing.stderr
    assert run_module(*command, *elsewhere, *files).returncode == 0  # more than before
    none = run_module(*command, folder / "agreement.toml")
    assert none.returncode == BadClaim.exit_code
    assert "nothing is written" in none.stderr
    assert (tmp_path / "settled" / "settlement.json").read_bytes() == before
    use = tmp_path / "used.csv"
    use.write_text(f"\ufeffmember,resource,amount\n{names[0]},resource1,1\n", encoding="utf-8")
    charged = run_module(*command, *files, "--used", use)
    assert charged.returncode == BadCommand.exit_code
    assert "no claim to it is given" in charged.stderr
    forged = bytearray(files[0].read_bytes())
    forged[-100] ^= 1
    files[0].write_bytes(forged)
    false = run_module(*command, "--out", tmp_path / "third", *files[:-1])
    assert false.returncode == BadClaim.exit_code
    assert files[0].name in false.stderr
    assert f"No valid claim to a payment: {names[0]}, {names[-1]}" in false.stderr
    forget = ("party", "forget", "--agreement", folder / "agreement.toml", "--key")
    key = folder / names[1] / f"{names[1]}.key"
    assert run_module(*forget, key).returncode == BadCommand.exit_code
    assert run_module(*forget, key, "--yes").returncode == 0
    again = run_module(
        *("party", "claim", "--agreement", folder / "agreement.toml", "--payment"),
        *("--key", key, "--out", tmp_path / "late.claim"),
    )
    assert again.returncode == BadCommand.exit_code
    assert not (tmp_path / "late.claim").exists()


def test_session_with_noise_is_settled_from_what_members_state(tmp_path: Path) -> None:
    """Claims there prove nothing beyond limits and sums: the command, the page and JSON say so."""
    folder = tmp_path / "s"
    noise = ("--mode", "private", "--reveal", "totals", "--epsilon", "60")
    with RunningSession(folder, options(*noise, rounds=6)) as session:
        session.start()
        for process in session.processes.values():
            process.wait(LIMIT)
        names = session.names
    files = claims(folder, names, "--payment")
    command = (
        *("protocol", "settle", "--agreement", folder / "agreement.toml", "--transcript"),
        *(folder / names[0] / "out" / "session.transcript", "--out", tmp_path / "settled"),
    )
    settled = run_module(*command, *files)
    assert settled.returncode == 0, settled.stderr
    figures = json.loads((tmp_path / "settled" / "settlement.json").read_text())
    assert sum(map(Fraction, figures["payments"].values())) == 0
    paid = sum(map(Fraction, figures["stated"].values()))
    assert paid == -Fraction(figures["levy"])
    for name in names:
        own = json.loads((folder / name / "out" / "result.json").read_text())
        assert len(own["claims"]) == len(own["resources"]) + 1
        stated = Fraction(own["private"]["payment"])
        assert abs(Fraction(figures["stated"][name]) - stated) <= Fraction(1, 100)
    for shown in (settled.stdout, (tmp_path / "settled" / "settlement.html").read_text()):
        assert "a false number within these limits cannot be seen" in shown
    forget = ("party", "forget", "--agreement", folder / "agreement.toml", "--yes", "--key")
    kept = run_module(*forget, folder / names[0] / f"{names[0]}.key")
    assert kept.returncode == 0
    assert "no commitments. The ledger has overwritten the fingerprint" in kept.stdout


@pytest.mark.parametrize("how", LIES if os.environ.get("SOTTO_LIES") == "all" else LIES_IN_SHORT)
def test_false_commitments_are_refused_or_seen_by_all(tmp_path: Path, how: str) -> None:
    """A party that commits falsely is named by every other, or all see that claims are void.

    The others have their outcome in either case.
    """
    folder = tmp_path / "s"
    with RunningSession(folder, options(*SHORT, "--patience", "4", rounds=3)) as session:
        session.start_coordinator()
        liar, *honest = session.names
        session.launch(
            liar,
            [
                *(sys.executable, "-m", "tests.support.false_member", how, "party"),
                *party_command(folder, liar, session.options)[3:],
            ],
        )
        for name in honest:
            session.start_party(name)
        codes = {name: session.processes[name].wait(LIMIT) for name in honest}
        texts = [session.stderr(name) for name in honest]
    expected = Unbound if how == "grains" else Unsealed
    assert set(codes.values()) == {expected.exit_code}
    if expected is Unsealed:
        assert all(f"no valid commitments of '{liar}'" in text for text in texts)
    for name in honest:
        assert (folder / name / "out" / "result.json").exists()
