"""The next session: the terms and the final prices of an earlier one."""

import math
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from party.ledger.accounts import set_limit
from party.ledger.budget import DATA_SET, Limit
from protocol.agreement.model import Agreement
from protocol.agreement.render import written
from protocol.agreement.schema import TICKS
from protocol.outcome.outcome import outcome
from protocol.rounds import RoundEngine, numbers
from protocol.runtime.files import read_agreement
from protocol.wire.transcript import Transcript, load
from scripts.lab.common.local_session import LocalSession
from tests.support import ROOT
from tests.support.builders import dump, make_agreement, public_key, release_at
from tests.support.builders import play as whole_session
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

STEP, MOMENTUM, ROUNDS = 0.05, 0.25, 6


def coordinator_new(*arguments: Any, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the real command with additional environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "coordinator", "new", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | more,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


class Earlier(Struct, frozen=True):
    """A real session that is over: its agreement, files and prices."""

    options: Namespace
    agreement: Agreement
    folder: Path
    prices: list[float]
    by_round: dict[int, list[float]]

    @property
    def transcript(self) -> Path:
        return self.folder / "party2" / "out" / "session.transcript"

    def next(self, out: Path, *more: Any, **instead: Path) -> subprocess.CompletedProcess[str]:
        """`coordinator new --from` this session, with some files replaced."""
        return coordinator_new(
            "--session", "later",
            "--from", instead.get("transcript", self.transcript),
            "--agreement", instead.get("agreement", self.folder / "agreement.toml"),
            "--key", self.folder / "coordinator.key",
            "--out", out,
            *more,
        )  # fmt: skip


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    """Two parties with real noise and terms that are not the defaults, run to the end."""
    chosen = options(
        "--epsilon", "4", "--accountant", "paper", "--noise", "norm", "--step", "sqrt",
        "--step-size", str(STEP), "--momentum", str(MOMENTUM), "--negative", "--truncate",
        "--share-first", "0.75", "--no-demands", parties=2, rounds=ROUNDS,
    )  # fmt: skip
    chosen.rehearsal = False
    folder = tmp_path_factory.mktemp("next") / "s"
    with RunningSession(folder, chosen) as session:
        session.start()
        session.wait(LIMIT)
        rounds = {e["round"]: e["prices"] for e in session.events["party1"] if "round" in e}
        prices = session.result("party1")["prices"]
    return Earlier(chosen, session.agreement, folder, prices, rounds)


@pytest.fixture(scope="module")
def later(earlier: Earlier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the next agreement; only its name is given."""
    out = tmp_path_factory.mktemp("next") / "next.toml"
    done = earlier.next(out)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_next_session_starts_with_the_prices_of_the_outcome(earlier: Earlier, later: Path) -> None:
    """It starts, bit for bit, with the prices in the result of the earlier one."""
    assert list(read_agreement(later).pricing.start) == earlier.prices
    late = [earlier.by_round[t] for t in range(ROUNDS - (ROUNDS + 1) // 2 + 1, ROUNDS + 1)]
    mean = [math.fsum(prices) / len(late) for prices in zip(*late, strict=True)]
    assert earlier.prices == pytest.approx(mean, rel=1e-12)
    assert earlier.prices != earlier.by_round[ROUNDS]


def test_next_session_has_the_same_roster(earlier: Earlier, later: Path) -> None:
    """Names, keys and shares are those of the earlier session."""
    members = read_agreement(later).members
    assert members == earlier.agreement.members
    assert [m.share[0] for m in members] == [0.75, 1.0]
    assert all(m.signing_key and m.transport_key for m in members)


def test_next_session_has_the_same_terms(earlier: Earlier, later: Path) -> None:
    """Only its name and its first prices differ."""
    new, old = read_agreement(later), earlier.agreement
    pricing = replace(new.pricing, start=old.pricing.start)
    assert replace(new, session=old.session, pricing=pricing) == old
    assert (old.pricing.step, old.pricing.momentum, old.truncate) == ("sqrt", MOMENTUM, True)


def test_next_session_has_its_own_name_and_digest(earlier: Earlier, tmp_path: Path) -> None:
    """The command prints the digest."""
    done = earlier.next(tmp_path / "next.toml")
    new = read_agreement(tmp_path / "next.toml")
    assert new.session == "later"
    assert new.digest != earlier.agreement.digest
    assert new.digest.hex() in done.stdout


def test_name_of_the_earlier_session_is_refused(earlier: Earlier, tmp_path: Path) -> None:
    """Every session has a name of its own."""
    done = earlier.next(tmp_path / "next.toml", "--session", earlier.agreement.session)
    assert done.returncode == 2
    assert "choose a new name" in done.stderr
    assert not (tmp_path / "next.toml").exists()


def test_options_change_the_terms(earlier: Earlier, tmp_path: Path) -> None:
    """Options replace the terms of the earlier session."""
    out = tmp_path / "next.toml"
    done = earlier.next(
        out, "--rounds", 9, "--epsilon", 2, "--delta", 1e-5, "--topology", "mesh",
        "--patience", 7, "--address", "tcp://relay.example.org:1234",
    )  # fmt: skip
    assert done.returncode == 0
    new, old = read_agreement(out), earlier.agreement
    assert old.privacy is not None
    assert new.rounds == 9
    assert new.privacy == replace(old.privacy, epsilon=2.0, delta=1e-5)
    assert new.transport == replace(
        old.transport,
        topology="mesh",
        patience_seconds=7.0,
        coordinator="tcp://relay.example.org:1234",
    )
    assert list(new.pricing.start) == earlier.prices


def test_next_session_runs_from_these_prices(earlier: Earlier, later: Path, tmp_path: Path) -> None:
    """The same companies run it with the same keys and ledgers, from the earlier prices.

    The limit of each ledger is the first session's budget, so it is raised here.
    """
    folder = tmp_path / "s"
    shutil.copytree(earlier.folder, folder, ignore=shutil.ignore_patterns("out", "*.log"))
    shutil.copy(later, folder / "agreement.toml")
    for member in earlier.agreement.members:
        set_limit(folder / member.name / f"{member.name}.ledger", DATA_SET, Limit(20.0, 1e-3))
    cast = LocalSession(folder, earlier.options)
    try:
        cast.start()
        cast.wait(LIMIT)
    finally:
        cast.stop()
    new = read_agreement(later)
    transcript = load(new, (folder / "party1" / "out" / "session.transcript").read_bytes())
    assert len(transcript.rounds) == ROUNDS
    first_prices = next(e["prices"] for e in cast.events["party1"] if e.get("round") == 1)
    totals = numbers(transcript.rounds[0]).sum(axis=0).tolist()
    for price, start, total, resource in zip(
        first_prices, earlier.prices, totals, new.resources, strict=True
    ):
        overrun = (total / TICKS - 1.0) * resource.capacity
        assert price == pytest.approx(start + STEP * overrun, rel=1e-12)


def test_unfinished_session_gives_the_prices_it_reached(earlier: Earlier, tmp_path: Path) -> None:
    """The command says so, and takes the prices of the last round in the transcript."""
    whole = load(earlier.agreement, earlier.transcript.read_bytes())
    part = tmp_path / "part.transcript"
    part.write_bytes(dump(earlier.agreement, Transcript(rounds=whole.rounds[:3])))
    done = earlier.next(tmp_path / "next.toml", transcript=part)
    assert done.returncode == 0
    assert f"stops after 3 of {ROUNDS} rounds; the next session goes on" in done.stderr
    assert list(read_agreement(tmp_path / "next.toml").pricing.start) == earlier.by_round[3]


def test_next_session_of_one_that_ended_by_itself(tmp_path: Path) -> None:
    """It starts with the weighted prices, keeps the centre rule's terms, and prints no warning."""
    old = make_agreement(
        members=3, rounds=9, prices={"step": "center", "tolerance": 0.001}, currency="€"
    )
    played = whole_session(old)[0]
    assert len(played.rounds) < old.rounds
    (tmp_path / "old.toml").write_text(written(old), encoding="utf-8")
    (tmp_path / "old.transcript").write_bytes(dump(old, played))
    done = coordinator_new(
        "--session", "later", "--from", tmp_path / "old.transcript",
        "--agreement", tmp_path / "old.toml", "--key", tmp_path / "coordinator.key",
        "--out", tmp_path / "next.toml",
        LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0",  # whatever letters the system has
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    new, result = read_agreement(tmp_path / "next.toml"), outcome(old, played)
    assert result.certificate is not None
    assert list(new.pricing.start) == result.prices.tolist() != result.last_prices.tolist()
    assert replace(new.pricing, start=old.pricing.start, earlier=()) == old.pricing
    assert new.currency == "€"
    center = RoundEngine(new).opening.prices.center
    assert center is not None
    assert center.search is None  # the scale of the prices is known


def test_transcript_without_its_agreement(earlier: Earlier, tmp_path: Path) -> None:
    """A transcript can be read only with its agreement."""
    refused = coordinator_new(
        "--session", "later", "--from", earlier.transcript,
        "--key", earlier.folder / "coordinator.key", "--out", tmp_path / "next.toml",
    )  # fmt: skip
    assert refused.returncode == 2
    assert "--from needs --agreement" in refused.stderr
    assert not (tmp_path / "next.toml").exists()


@pytest.mark.parametrize(
    "option",
    [
        ("--member", "acme.member.toml"),
        ("--resource", "hours=120"),
        ("--rehearsal",),
    ],
)
def test_terms_of_the_earlier_session_cannot_be_given_again(
    earlier: Earlier, tmp_path: Path, option: tuple[str, ...]
) -> None:
    """Members, resources and mode come from the earlier session."""
    refused = earlier.next(tmp_path / "next.toml", *option)
    assert refused.returncode == 2
    assert f"{option[0]} cannot be given with --from" in refused.stderr
    assert not (tmp_path / "next.toml").exists()


def other_agreement(earlier: Earlier, folder: Path) -> dict[str, Path]:
    path = folder / "other.toml"
    text = (earlier.folder / "agreement.toml").read_text()
    path.write_text(re.sub(rf"^rounds = {ROUNDS}\b", "rounds = 7", text, flags=re.MULTILINE))
    return {"agreement": path}


def changed_byte(earlier: Earlier, folder: Path) -> dict[str, Path]:
    path = folder / "changed.transcript"
    data = bytearray(earlier.transcript.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return {"transcript": path}


def cut_short(earlier: Earlier, folder: Path) -> dict[str, Path]:
    path = folder / "cut.transcript"
    path.write_bytes(earlier.transcript.read_bytes()[:-10])
    return {"transcript": path}


def missing(earlier: Earlier, folder: Path) -> dict[str, Path]:  # noqa: ARG001
    return {"transcript": folder / "no.transcript"}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (other_agreement, "the transcript is of agreement "),
        (changed_byte, "round "),
        (cut_short, "the transcript is cut off or damaged"),
        (missing, "cannot be read"),
    ],
)
def test_a_transcript_that_does_not_verify_is_refused(
    earlier: Earlier,
    tmp_path: Path,
    wrong: Callable[[Earlier, Path], dict[str, Path]],
    text: str,
) -> None:
    """Prices are taken only from a transcript that verifies with its agreement."""
    refused = earlier.next(tmp_path / "next.toml", **wrong(earlier, tmp_path))
    assert refused.returncode == 9
    assert text in refused.stderr
    assert not (tmp_path / "next.toml").exists()


def test_existing_file_is_not_overwritten(earlier: Earlier, later: Path) -> None:
    """An agreement that exists stays as it is."""
    before = later.read_text()
    refused = earlier.next(later, "--rounds", 9)
    assert refused.returncode == 2
    assert "the file exists and is not overwritten" in refused.stderr
    assert later.read_text() == before


def test_first_session_needs_resources(earlier: Earlier, tmp_path: Path) -> None:
    """Without an earlier session the command says which option is missing."""
    refused = coordinator_new(
        "--session", "first", "--member", "acme.member.toml", "--address", "tcp://host:1",
        "--key", earlier.folder / "coordinator.key", "--out", tmp_path / "first.toml",
    )  # fmt: skip
    assert refused.returncode == 2
    assert "--resource is required unless --from is given" in refused.stderr
    assert not (tmp_path / "first.toml").exists()


def test_terms_out_of_range(earlier: Earlier, tmp_path: Path) -> None:
    """A next session that no agreement allows is not written."""
    refused = earlier.next(tmp_path / "next.toml", "--rounds", 0)
    assert refused.returncode == 3
    assert "rounds is 0" in refused.stderr
    assert not (tmp_path / "next.toml").exists()


def test_certificate_terms_need_rounds_without_noise(earlier: Earlier, tmp_path: Path) -> None:
    """Options of the certificate are refused if the earlier session had noise."""
    refused = earlier.next(tmp_path / "next.toml", "--reserve", 0)
    assert refused.returncode == 2
    assert "--reserve belongs to the certificate" in refused.stderr


def test_next_session_keeps_money_units_and_endowments(tmp_path: Path) -> None:
    """With --from they stay; only the terms of the certificate can change."""
    names = ("ada", "ben")
    old = make_agreement(
        currency="EUR",
        rounds=3,
        prices={"tolerance": 1e-3},
        resource=[{"name": "hours", "capacity": 10.0, "unit": "h"}],
        member=[
            {"name": n, "signing_key": public_key(n).hex(), "endowment": part}
            for n, part in zip(names, (0.25, 0.75), strict=True)
        ],
    )
    engine = RoundEngine(old)
    releases = tuple(release_at(old, n, engine.opening) for n in names)
    (tmp_path / "old.toml").write_text(written(old))
    (tmp_path / "old.transcript").write_bytes(dump(old, Transcript(rounds=(releases,))))

    def later(*more: Any) -> subprocess.CompletedProcess[str]:
        return coordinator_new(
            "--session", "later", "--from", tmp_path / "old.transcript",
            "--agreement", tmp_path / "old.toml", "--key", tmp_path / "c.key",
            "--out", tmp_path / "next.toml", *more,
        )  # fmt: skip

    for option in (("--currency", "USD"), ("--unit", "hours=d"), ("--endowment", "ada=1")):
        refused = later(*option)
        assert refused.returncode == 2
        assert f"{option[0]} cannot be given with --from" in refused.stderr
    done = later("--tolerance", 1e-5)
    assert done.returncode == 0, done.stderr
    new = read_agreement(tmp_path / "next.toml")
    assert (new.currency, new.resources, new.members) == (old.currency, old.resources, old.members)
    assert (new.pricing.tolerance, new.pricing.reserve) == (1e-5, old.pricing.reserve)


def test_next_session_takes_the_rounds_along(tmp_path: Path) -> None:
    """Their prices and totals are in the agreement, and the session goes on from them."""
    old = make_agreement(
        rounds=9,
        prices={"tolerance": 1e-9},
        resource=[{"name": "hours", "capacity": 10.0}],
    )
    state, rounds, shown = RoundEngine(old).opening, [], []
    for _ in range(6):
        price = float(state.prices.current[0])
        demand = int(old.ticks * 0.75 / (0.5 + price))
        releases = tuple(release_at(old, m.name, state, (demand,)) for m in old.members)
        rounds.append(releases)
        shown.append((price, len(releases) * demand / old.ticks))
        state = RoundEngine(old).advance(state, numbers(releases))
    (tmp_path / "old.toml").write_text(written(old))
    (tmp_path / "old.transcript").write_bytes(dump(old, Transcript(rounds=tuple(rounds))))
    done = coordinator_new(
        "--session", "later", "--from", tmp_path / "old.transcript",
        "--agreement", tmp_path / "old.toml", "--key", tmp_path / "c.key",
        "--out", tmp_path / "next.toml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    new = read_agreement(tmp_path / "next.toml")
    assert len(new.pricing.earlier) >= 3
    for row in new.pricing.earlier:
        assert any(row == pytest.approx(one, abs=1e-9) for one in shown)
    assert RoundEngine(new).opening.prices.current == pytest.approx(state.prices.current, rel=0.2)
