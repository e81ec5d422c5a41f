"""A damaged ledger is refused, and a large one can be read on any machine."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from party.driver import Driver
from party.ledger.database import Database
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.errors import BadLedger
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, play, release_at, signer
from tests.support.gates import Problem, Shift, gate
from tests.support.ledgers import run_python


def recorded(path: Path, agreement: Agreement, *, wrong_hash: bool = False) -> Transcript:
    """Write a member's ledger of a complete session, with one witnessed message."""
    transcript, positions = play(agreement)
    with closing(Ledger(path, agreement, "ada")) as ledger:
        for t, releases in enumerate(transcript.rounds):
            ledger.record_release(releases[0])
            chain_hash = bytes(32) if wrong_hash else positions[t + 1].chain_hash
            ledger.record_round(t, releases, chain_hash)
        ledger.record_seals(transcript.seals)
        ledger.record_witnessed((release_at(agreement, "ben", positions[-2]),))
    return transcript


def everything(ledger: Ledger) -> Any:
    return ledger.own(), ledger.transcript(), ledger.transcript_file(), ledger.witnessed()


@pytest.mark.parametrize("table", ["releases", "rounds", "seals", "heard"])
def test_one_flipped_bit_is_found_when_its_message_is_read(tmp_path: Path, table: str) -> None:
    """A flip of any bit is damage, even if the bytes are still a valid message."""
    agreement = make_agreement(rounds=2)
    path, chance = tmp_path / "ledger", random.Random(4)
    recorded(path, agreement)
    column = "messages" if table == "rounds" else "message"
    query = f"SELECT {column} FROM {table} ORDER BY 1 LIMIT 1"  # noqa: S608
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        [original] = base.execute(query).fetchone()
    flips = [8 * (len(original) - 70), *(chance.randrange(8 * len(original)) for _ in range(20))]
    for bit in flips:
        damaged = bytearray(original)
        damaged[bit // 8] ^= 1 << bit % 8
        update = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute(update, (bytes(damaged), original))
        with (
            closing(Ledger(path, agreement, "ada")) as ledger,
            pytest.raises(BadLedger, match="is damaged: "),
        ):
            everything(ledger)
        with closing(sqlite3.connect(path, isolation_level=None)) as base:
            base.execute(update, (original, bytes(damaged)))
    with closing(Ledger(path, agreement, "ada")) as ledger:
        everything(ledger)


@pytest.mark.parametrize("table", ["releases", "rounds"])
def test_a_missing_round_is_found(tmp_path: Path, table: str) -> None:
    """A ledger without an earlier round is damaged."""
    agreement = make_agreement(rounds=3)
    recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as base:
        base.execute(f"DELETE FROM {table} WHERE round = 1")  # noqa: S608
    with (
        closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match=f"is damaged: round 1 of its {table}"),
    ):
        everything(ledger)


def resumed(ledger: Ledger, agreement: Agreement) -> Driver:
    """The session of a ledger, resumed as a party process resumes it."""
    return Driver(
        agreement,
        "ada",
        nonce=bytes(range(16)),
        pack=signer("ada"),
        gate=gate(agreement, Problem(3.0, 5.0), Shift(1, 2), ledger, "ada"),
        ledger=ledger,
    )


def test_rounds_that_give_another_chain_hash_are_refused(tmp_path: Path) -> None:
    """A restart computes the chain hash again and compares it with the stored one."""
    agreement = make_agreement(rounds=2)
    recorded(tmp_path / "good", agreement)
    with closing(Ledger(tmp_path / "good", agreement, "ada")) as ledger:
        assert resumed(ledger, agreement).session.state.round == 2
    recorded(tmp_path / "other", agreement, wrong_hash=True)
    with (
        closing(Ledger(tmp_path / "other", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="its 2 rounds give another chain hash"),
    ):
        resumed(ledger, agreement)


def test_more_rounds_than_own_releases_are_refused(tmp_path: Path) -> None:
    """A closed round has an own release, so such a ledger has lost one."""
    agreement = make_agreement(rounds=2)
    recorded(tmp_path / "ledger", agreement)
    with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as base:
        base.execute("DELETE FROM releases WHERE round = 1")
    with (
        closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger,
        pytest.raises(BadLedger, match="is damaged: 2 rounds, but 1 own releases"),
    ):
        resumed(ledger, agreement)


NO_LARGE_FILES = """
import resource, sys
from party.ledger.session_ledger import Ledger
from tests.support.builders import make_agreement

agreement = make_agreement(rounds=700, resources=60, members=5)
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
ledger = Ledger(sys.argv[1], agreement, "ada")
print(len(ledger.transcript().rounds), len(ledger.own()), len(ledger.transcript_file()))
ledger.close()
"""


def test_a_long_session_is_read_without_temporary_files(tmp_path: Path) -> None:
    """A process that may write no large file reads more than 2 MB of rounds in order."""
    agreement = make_agreement(rounds=700, resources=60, members=5)
    recorded(tmp_path / "ledger", agreement)
    done = run_python(NO_LARGE_FILES, tmp_path / "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    rounds, own, size = map(int, done.stdout.split())
    assert (rounds, own) == (700, 700)
    assert size > 2_000_000


def test_reading_a_session_needs_no_sorting(tmp_path: Path) -> None:
    """The key of each table with messages has the order in which they are read."""
    recorded(tmp_path / "ledger", make_agreement())
    with closing(sqlite3.connect(tmp_path / "ledger")) as base:
        for table, number in {"releases": "round", "rounds": "round", "seals": "member"}.items():
            query = f"SELECT * FROM {table} WHERE session = 1 ORDER BY {number}"  # noqa: S608
            plan = [row[-1] for row in base.execute(f"EXPLAIN QUERY PLAN {query}")]
            assert not [step for step in plan if "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SQLITE_FULL", "free some disk space"),
        ("SQLITE_READONLY_DIRECTORY", "allow writing"),
        ("SQLITE_IOERR_WRITE", "the disk fails or is full"),
        ("SQLITE_CORRUPT", "it is damaged"),
    ],
)
def test_an_sqlite_error_comes_with_a_hint(tmp_path: Path, name: str, text: str) -> None:
    """The message keeps SQLite's own text and adds what the operator can do."""
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorname = name
    with closing(Database(tmp_path / "ledger")) as file:
        message = str(file._unusable(error))
    assert f"{str(tmp_path / 'ledger')!r} cannot be used: its own words; " in message
    assert text in message


_ACCOUNTS = [
    ("ledger", "id", 5),
    ("sessions", "release_mu_squared", "much"),
    ("sessions", "rounds", b"3"),
    ("sessions", "member", b"ada"),
    ("sessions", "fault", b"x"),
    ("limits", "epsilon", "text"),
    ("limits", "delta", 2.0),
    ("limits", "fixed_epsilon", b""),
    ("waits", "seconds", "long"),
    ("addresses", "address", b"x"),
]


@pytest.mark.parametrize(("table", "column", "value"), _ACCOUNTS, ids=str)
def test_an_account_with_a_value_of_another_type_is_damage(
    tmp_path: Path, table: str, column: str, value: object
) -> None:
    """SQLite keeps any type in any column: what has no checksum is checked when it is read."""
    agreement, path = make_agreement(rounds=2), tmp_path / "ledger"
    recorded(path, agreement)
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("INSERT INTO limits VALUES ('main', 8.0, 0.001, 1, 'exact', 0.1, 8.0, 0.001)")
        base.execute("INSERT INTO waits VALUES (1, 'ben', 1.0, 1.0, 1)")
        base.execute("INSERT INTO addresses VALUES (1, 'ben', 'tcp://127.0.0.1:9')")

    def read() -> None:
        with closing(Ledger(path, agreement, "ada")) as ledger:
            assert ledger.extent.releases == 2
            everything(ledger)
            ledger.accounts(), ledger.limit(), ledger.waits(), ledger.addresses()

    read()
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute(f"UPDATE {table} SET {column} = ?", (value,))  # noqa: S608
    with pytest.raises(BadLedger, match="is damaged: "):
        read()
