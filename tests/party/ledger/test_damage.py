"""A ledger that a disk has changed is refused at home; one that is only large is read anywhere."""

import math
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.driver import Driver
from party.ledger.accounts import accounts, ledger_id, set_limit
from party.ledger.budget import Limit
from party.ledger.database import Database
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.errors import BadLedger
from protocol.privacy.accountant import PrivacyCost, discreteness
from protocol.wire.transcript import Transcript
from tests.support import ROOT
from tests.support.budgets import agreed, record
from tests.support.builders import make_agreement, play, release_at, signer
from tests.support.gates import Problem, Shift, gate
from tests.support.wait import LIMIT


def recorded(path: Path, agreement: Agreement, *, wrong_head: bool = False) -> Transcript:
    """Write the ledger of a member of a whole session, with something heard besides."""
    transcript, positions = play(agreement)
    with closing(Ledger(path, agreement, "ada")) as ledger:
        for t, releases in enumerate(transcript.rounds):
            ledger.record_release(releases[0])
            chain_hash = bytes(32) if wrong_head else positions[t + 1].chain_hash
            ledger.record_round(t, releases, chain_hash)
        ledger.record_seals(transcript.seals)
        ledger.record_heard((release_at(agreement, "ben", positions[-2]),))
    return transcript


def everything(ledger: Ledger) -> Any:
    return ledger.own(), ledger.transcript(), ledger.transcript_file(), ledger.heard()


@pytest.mark.parametrize("table", ["releases", "rounds", "seals", "heard"])
def test_one_flipped_bit_is_found_when_it_is_read(tmp_path: Path, table: str) -> None:
    """Any bit of any stored message: the ledger is refused, also where it is a message still."""
    agreement = make_agreement(rounds=2)
    path, chance = tmp_path / "ledger", random.Random(4)
    recorded(path, agreement)
    column = "messages" if table == "rounds" else "message"
    query = f"SELECT {column} FROM {table} ORDER BY 1 LIMIT 1"  # noqa: S608
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        [whole] = base.execute(query).fetchone()
    flips = [8 * (len(whole) - 70), *(chance.randrange(8 * len(whole)) for _ in range(20))]
    for place in flips:
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        update = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute(update, (bytes(damaged), whole))
        with (
            closing(Ledger(path, agreement, "ada")) as ledger,
            pytest.raises(BadLedger, match="is damaged: "),
        ):
            everything(ledger)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute(update, (whole, bytes(damaged)))
    with closing(Ledger(path, agreement, "ada")) as ledger:
        everything(ledger)


@pytest.mark.parametrize("table", ["releases", "rounds"])
def test_a_round_that_is_gone_is_found(tmp_path: Path, table: str) -> None:
    """A ledger that has later rounds but not an earlier one is damaged."""
    agreement = make_agreement(rounds=3)
    recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as base:
        base.execute(f"DELETE FROM {table} WHERE round = 1")  # noqa: S608
    with (
        closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match=f"is damaged: round 1 of its {table}"),
    ):
        everything(ledger)


def executed(ledger: Ledger, agreement: Agreement) -> Driver:
    """The session of a ledger, as a party process takes it up."""
    return Driver(
        agreement,
        "ada",
        nonce=bytes(range(16)),
        pack=signer("ada"),
        gate=gate(agreement, Problem(3.0, 5.0), Shift(1, 2), ledger, "ada"),
        ledger=ledger,
    )


def test_rounds_that_lead_to_another_head_are_refused(tmp_path: Path) -> None:
    """Heads are computed anew at the start and compared with those of the time of the rounds."""
    agreement = make_agreement(rounds=2)
    recorded(tmp_path / "good", agreement)
    with closing(Ledger(tmp_path / "good", agreement, "ada")) as ledger:
        assert executed(ledger, agreement).session.state.round == 2
    recorded(tmp_path / "other", agreement, wrong_head=True)
    with (
        closing(Ledger(tmp_path / "other", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="its 2 rounds lead to another head"),
    ):
        executed(ledger, agreement)


def test_more_rounds_than_own_releases_are_refused(tmp_path: Path) -> None:
    """Nobody closes a round without having released in it: such a ledger has lost a release."""
    agreement = make_agreement(rounds=2)
    recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as base:
        base.execute("DELETE FROM releases WHERE round = 1")
    with (
        closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="is damaged: 2 rounds, but 1 own releases"),
    ):
        executed(ledger, agreement)


BEFORE_FIXED_LIMITS = """
DROP TABLE answers;
DROP TABLE ledger;
ALTER TABLE limits DROP COLUMN asked;
ALTER TABLE limits DROP COLUMN accountant;
ALTER TABLE limits DROP COLUMN factor;
ALTER TABLE limits DROP COLUMN fixed_epsilon;
ALTER TABLE limits DROP COLUMN fixed_delta;
PRAGMA user_version = 5;
"""
"""A ledger as version 5 had it."""

BEFORE_THE_RESERVE = """
ALTER TABLE sessions RENAME COLUMN reserve TO release_epsilon;
ALTER TABLE sessions RENAME COLUMN release_factor TO release_delta;
UPDATE sessions SET release_epsilon = 0.0, release_delta = 0.0;
PRAGMA user_version = 4;
"""
"""A ledger without noise as version 4 had it."""

OLD = """
CREATE TABLE o (session INTEGER, round INTEGER, message BLOB NOT NULL,
    PRIMARY KEY (session, round)) WITHOUT ROWID;
INSERT INTO o SELECT session, round, message FROM releases;
CREATE TABLE r (session INTEGER, round INTEGER, messages BLOB NOT NULL);
INSERT INTO r SELECT session, round, messages FROM rounds;
CREATE TABLE s (session INTEGER, member INTEGER, message BLOB NOT NULL,
    PRIMARY KEY (session, member));
INSERT INTO s SELECT session, member, message FROM seals;
DROP TABLE releases; DROP TABLE rounds; DROP TABLE seals; DROP TABLE heard;
DROP TABLE masks; DROP TABLE keys; DROP TABLE demands; DROP TABLE parts;
ALTER TABLE sessions DROP COLUMN colluders;
ALTER TABLE o RENAME TO releases; ALTER TABLE r RENAME TO rounds; ALTER TABLE s RENAME TO seals;
PRAGMA user_version = 2
"""
"""From there to a ledger as version 2 had it."""


@pytest.mark.parametrize(("sigma", "rough"), [(3.0, 0.01), (1e6, 1e-9)])
def test_what_whole_ticks_cost_before_is_taken_over(
    tmp_path: Path, sigma: float, rough: float
) -> None:
    """Version 4 set ε and δ aside for ticks; what is counted now covers what it released."""
    record(tmp_path / "ledger", agreed(1.0, rounds=100))
    each = 0.15 / 100
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        base.executescript(BEFORE_FIXED_LIMITS + BEFORE_THE_RESERVE)
        base.execute(
            "UPDATE sessions SET release_mu_squared = ?, release_epsilon = 0.1, release_delta = ?",
            (each, 1.0 / (16.0 * sigma**2)),
        )
        base.commit()
    for _ in range(2):
        (account,) = accounts(tmp_path / "ledger")[0]
        needed = discreteness(np.array([sigma]), rounds=100, dearest=each, total=100 * each)
        assert account.spent.discreteness.reserve >= needed.reserve
        least = PrivacyCost(100 * each).epsilon(1e-3)
        assert least <= account.spent.epsilon(1e-3) < least * (1.0 + rough)


def test_ticks_too_coarse_for_any_proof_before_have_none_now(tmp_path: Path) -> None:
    """Below three ticks version 4 counted by the paper's accountant alone, and so it stays."""
    record(tmp_path / "ledger", agreed(1.0, rounds=100))
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        base.executescript(BEFORE_FIXED_LIMITS + BEFORE_THE_RESERVE)
        base.execute("UPDATE sessions SET release_epsilon = 9e999, release_delta = 1.0")
        base.commit()
    (account,) = accounts(tmp_path / "ledger")[0]
    rho = account.spent.mu_squared / 2.0
    paper = rho + 2.0 * math.sqrt(rho * math.log(1e3))
    assert account.spent.epsilon(1e-3) == pytest.approx(paper)


@pytest.mark.parametrize("releases", [0, 1])
def test_limits_from_before_are_fixed_if_nothing_was_released(
    tmp_path: Path, releases: int
) -> None:
    """Version 5 did not note when a limit was set: it counts as set just now."""
    path = tmp_path / "ledger"
    record(path, agreed(1.0), releases)
    set_limit(path, "main", Limit(4.0, 1e-3))
    with closing(sqlite3.connect(path)) as base:
        base.executescript(BEFORE_FIXED_LIMITS)
    names = set()
    for _ in range(2):
        limit = accounts(path)[1]["main"]
        assert (limit.epsilon, limit.delta, limit.asked) == (4.0, 1e-3, True)
        assert limit.fixed == (None if releases else (4.0, 1e-3))
        names.add(ledger_id(path))
    assert len(names) == 1, "a ledger has one name"


def test_a_ledger_from_before_the_masks_is_taken_over(tmp_path: Path) -> None:
    """Version 3 knew of no masks: everything is there as it was."""
    agreement = make_agreement(rounds=3)
    transcript = recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        base.executescript(
            BEFORE_FIXED_LIMITS
            + BEFORE_THE_RESERVE
            + "DROP TABLE masks; DROP TABLE keys; DROP TABLE demands; DROP TABLE parts; "
            "ALTER TABLE sessions DROP COLUMN colluders; PRAGMA user_version = 3"
        )
    for _ in range(2):
        with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
            assert ledger.transcript() == transcript
            assert ledger.mask_keys() == ()
            assert executed(ledger, agreement).session.state.round == 3


def test_a_ledger_of_two_versions_before_is_taken_over(tmp_path: Path) -> None:
    """Version 2 had no checksums: they are added, everything is there, and damage is found."""
    agreement = make_agreement(rounds=3)
    transcript = recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        base.executescript(BEFORE_FIXED_LIMITS + BEFORE_THE_RESERVE + OLD)
    for _ in range(2):
        with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
            assert ledger.transcript() == transcript
            assert ledger.own() == tuple(releases[0] for releases in transcript.rounds)
            assert executed(ledger, agreement).session.state.round == 3
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as base:
        base.execute("UPDATE rounds SET messages = zeroblob(length(messages)) WHERE round = 2")
    with (
        closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="is damaged: round 2"),
    ):
        ledger.transcript()


@pytest.mark.parametrize(("code", "stays"), [(14, False), (11, True)])
def test_what_the_version_before_called_final_without_proof_is_not(
    tmp_path: Path, code: int, stays: bool
) -> None:
    """A session that was stopped because somebody said so goes on; equivocation stays proved."""
    agreement = make_agreement(rounds=3)
    recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        base.executescript(BEFORE_FIXED_LIMITS + BEFORE_THE_RESERVE + OLD)
        base.execute("UPDATE sessions SET fault_code = ?, fault = 'ben stopped'", (code,))
        base.commit()
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        assert (ledger.fault is not None) == stays
        assert ledger.proof() == ()


def python(code: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


NOWHERE = """
import resource, sys
from party.ledger.session_ledger import Ledger
from tests.support.builders import make_agreement

agreement = make_agreement(rounds=700, resources=60, members=5)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
ledger = Ledger(sys.argv[1], agreement, "ada")
print(len(ledger.transcript().rounds), len(ledger.own()), len(ledger.transcript_file()))
ledger.close()
"""


def test_a_long_session_is_read_where_nothing_can_be_spilt(tmp_path: Path) -> None:
    """More than 2 MB of rounds are read in order by a process that may write no large file."""
    agreement = make_agreement(rounds=700, resources=60, members=5)
    recorded(tmp_path / "ledger", agreement)
    done = python(NOWHERE, tmp_path / "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    rounds, own, size = map(int, done.stdout.split())
    assert (rounds, own) == (700, 700)
    assert size > 2_000_000


def test_reading_a_session_needs_no_sorting(tmp_path: Path) -> None:
    """Every table of what was said has a key in the order in which it is read."""
    recorded(tmp_path / "ledger", make_agreement())
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        for table, place in {"releases": "round", "rounds": "round", "seals": "member"}.items():
            query = f"SELECT * FROM {table} WHERE session = 1 ORDER BY {place}"  # noqa: S608
            plan = [row[-1] for row in base.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert not [step for step in plan if "TEMP B-TREE" in step]


FULL = """
import resource, sys
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.builders import make_agreement
from tests.support.ledgers import release

agreement = make_agreement(rounds=1000)
ledger = Ledger(sys.argv[1], agreement, "ada")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    for round in range(1000):
        ledger.record_release(release(agreement, round))
except BadLedger as error:
    print(error)
ledger.record_heard(())
"""


def test_a_disk_that_fails_is_not_called_a_damaged_ledger(tmp_path: Path) -> None:
    """Where nothing can be written, that is what is said, and that nothing is lost."""
    done = python(FULL, tmp_path / "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot be used: disk I/O error; its disk fails, or has no room" in done.stdout
    assert "damaged" not in done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SQLITE_FULL", "make room there"),
        ("SQLITE_READONLY_DIRECTORY", "closed to writing"),
        ("SQLITE_IOERR_WRITE", "its disk fails, or has no room"),
        ("SQLITE_CORRUPT", "it is damaged"),
    ],
)
def test_what_is_known_of_an_error_is_said(tmp_path: Path, name: str, text: str) -> None:
    """SQLite's own words stay, and what they mean for the operator stands beside them."""
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorname = name
    with closing(Database(tmp_path / "ledger")) as file:
        told = str(file._unusable(error))
    assert f"{str(tmp_path / 'ledger')!r} cannot be used: its own words; " in told
    assert text in told
