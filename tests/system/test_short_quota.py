"""What the operator sees at the end: certificate, payment, and a quota that is too small."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from party.model.company_model import dense
from party.settlement.settle import plan_within
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.errors import QuotaTooSmall
from scripts.lab.common.local_session import party_command
from scripts.lab.common.workspace import save_model
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

NEEDY, OTHERS = "party1", ("party2", "party3")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSession]:
    """A session with noise in which one company needs nearly all of every capacity."""
    folder = tmp_path_factory.mktemp("short") / "s"
    with RunningSession(folder, options("--no-demands", "--epsilon", "0.5", rounds=6)) as opened:
        capacity = quantities(opened.agreement).capacity
        needy = dense(
            A=0.95 * np.diag(capacity),
            B=np.zeros((0, len(capacity))),
            u=np.full(len(capacity), 17.0),
            row_lower=np.zeros(0),
            row_upper=np.zeros(0),
            lower=np.ones(len(capacity)),
            upper=np.ones(len(capacity)),
        )
        assert plan_within(needy, 0.96 * capacity) is not None
        save_model(needy, folder / NEEDY / "model.npz")
        opened.start()
        opened.wait(LIMIT)
        yield opened


def joined(session: RunningSession, name: str, log: str) -> "subprocess.CompletedProcess[str]":
    """Run `party join` again after the end."""
    return subprocess.run(
        party_command(session.folder, name, session.options, log=log),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def test_quota_too_small_has_its_own_exit_code(session: RunningSession) -> None:
    """After a sealed session the company without a plan exits with 30, the others with 0."""
    codes = {name: session.processes[name].returncode for name in (NEEDY, *OTHERS)}
    assert codes == {NEEDY: QuotaTooSmall.exit_code} | dict.fromkeys(OTHERS, 0)
    assert session.result(NEEDY)["private"]["utility_within_quota"] is None
    assert len({session.result(name)["head"] for name in codes}) == 1


def test_quota_too_small_is_reported_after_the_files_are_written(session: RunningSession) -> None:
    """Standard error has the message, all files exist, and a second run repeats it."""
    out = session.folder / NEEDY / "out"
    names = {"report.html", "plan.csv", "result.json", "session.transcript"}
    assert names <= {path.name for path in out.iterdir()}
    assert "Your quota is too small" in (out / "report.html").read_text(encoding="utf-8")
    again = joined(session, NEEDY, "text")
    assert again.returncode == QuotaTooSmall.exit_code
    for output in (session.stderr(NEEDY), again.stderr):
        assert "your quota is too small for any plan of your model; report.html says what" in output


def test_json_events_do_not_reveal_a_quota_that_is_too_small(session: RunningSession) -> None:
    """The events of that company have the same kinds and fields as all others."""

    def shape(name: str) -> dict[str, set[str]]:
        fields: dict[str, set[str]] = {}
        for event in session.events[name]:
            if event["event"] in ("round", "finished"):
                fields[event["event"]] = set(event)
        return fields

    assert shape(NEEDY) == shape(OTHERS[0]) == shape(OTHERS[1])
    assert "private" not in shape(NEEDY)["finished"]


def test_terminal_ends_with_quota_payment_and_certificate(tmp_path: Path) -> None:
    """The output has units, currency, payment and certificate, and no private number."""
    chosen = options("--mode", "exact", "--no-demands", parties=2, rounds=60)
    with RunningSession(tmp_path / "s", chosen) as session:
        first, *others = session.agreement.resources
        agreement = replace(
            session.agreement, currency="EUR", resources=(replace(first, unit="h"), *others)
        )
        (session.folder / "agreement.toml").write_text(written(agreement))
        session.start()
        session.wait(LIMIT)
        result = session.result("party1")
        again = joined(session, "party1", "text")
    assert again.returncode == 0, again.stderr
    output = again.stdout
    quota, price = result["quota"]["party1"][0], result["prices"][0]
    line = re.search(r"resource1: you may use (\S+) h; price (\S+) EUR per h", output)
    assert line, output
    assert quota * (1.0 - 1e-5) <= float(line[1]) <= quota, "six digits, never above the quota"
    assert line[2] == f"{price:.6g}"
    verb = "get" if result["payments"]["party1"] < 0.0 else "pay"
    assert f"you {verb} {abs(result['payments']['party1']):.2f} EUR for your quota" in output
    assert result["certificate"]["fits"]
    shown = re.search(r"would earn at most (\S+) EUR more", output)
    assert shown, output
    assert 0.0 <= float(shown[1]) - result["certificate"]["money"] < 0.01, "rounded up to a cent"
    assert f"{result['rounds']} rounds, ended by itself" in output
    for name in ("utility_within_quota", "utility_alone", "gain", "paid_at_prices"):
        assert f"{result['private'][name]:.4g}" not in output
