"""The ledger loses no record, even if its process is killed, and only one process opens it."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.ledger.budget import Limit
from party.ledger.database import Database
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.errors import BadLedger, Diverged, Equivocation, InternalError
from protocol.outcome.private_quota import Allocation
from protocol.runtime.cli import Interrupted
from protocol.runtime.wait_times import WaitTime
from protocol.wire.messages import Release, Seal
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, play, sign
from tests.support.ledgers import in_memory, release, run_python
from tests.support.outcomes import replay


def test_every_commit_is_flushed_and_the_file_is_locked(tmp_path: Path) -> None:
    """SQLite writes a log first, flushes at every commit and locks the file for one process."""
    ledger = Ledger(tmp_path / "ledger", make_agreement(), "ada")

    def setting(name: str) -> Any:
        return ledger._file._base.execute(f"PRAGMA {name}").fetchone()[0]

    assert setting("journal_mode") == "wal"
    assert setting("synchronous") == 2
    assert setting("locking_mode") == "exclusive"
    ledger.close()


def test_records_are_read_back_after_reopening(tmp_path: Path) -> None:
    """Releases, rounds, seals, waits, addresses and a fault survive closing the file."""
    agreement = make_agreement(rounds=3)
    transcript, positions = play(agreement)
    own = tuple(releases[0] for releases in transcript.rounds)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    assert (ledger.own(), ledger.transcript(), ledger.fault) == ((), Transcript(()), None)
    assert ledger.release(0) is None
    for t, releases in enumerate(transcript.rounds):
        ledger.record_release(own[t])
        ledger.record_round(t, releases, positions[t + 1].chain_hash)
    ledger.record_seals(transcript.seals)
    ledger.record_addresses({"ben": "tcp://ben:1", "cyd": "tcp://cyd:2"})
    ledger.record_addresses({"ben": "tcp://ben:3"})
    waited = WaitTime(name="ben", seconds=0.1, longest=0.05, last=2)
    ledger.record_waits([replace(waited, seconds=0.01)])
    ledger.record_waits([waited])
    ledger.record_fault(Equivocation("ben signed two messages", sender="ben"), over=False)
    ledger.close()
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    assert ledger.own() == own
    assert [ledger.release(t) for t in range(4)] == [*own, None]
    assert ledger.transcript() == transcript
    assert replay(agreement, ledger.transcript()).chain_hash == positions[-1].chain_hash
    assert ledger.addresses() == {"ben": "tcp://ben:3", "cyd": "tcp://cyd:2"}
    assert ledger.waits() == (waited,)
    assert ledger.fault is not None
    assert (ledger.fault.exit_code, str(ledger.fault)) == (
        11,
        "this session is over: ben signed two messages",
    )
    ledger.close()


def test_a_fault_is_stored_with_its_evidence(tmp_path: Path) -> None:
    """The evidence replaces witnessed messages, and the accused member is read back with it."""
    agreement = make_agreement(rounds=3)
    pair = tuple(release(agreement, 0, first, "ben") for first in (1, 2))
    error = Equivocation("ben lied", sender="ben", evidence=tuple(s.data for s in pair))
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        ledger.record_witnessed((release(agreement, 0, 5, "cyd"),))
        assert ledger.proof() == ()
        ledger.record_fault(error, over=False)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        assert ledger.fault is not None
        assert (ledger.fault.sender, ledger.fault.evidence) == ("ben", error.evidence)
        assert ledger.proof() == pair
        assert ledger.witnessed() == ()


def test_a_round_has_only_one_release(tmp_path: Path) -> None:
    """A second release of a round, or a release that skips a round, is refused."""
    agreement = make_agreement()
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    first = release(agreement, 0)
    ledger.record_release(first)
    for wrong in (release(agreement, 0, 7), first, release(agreement, 2)):
        with pytest.raises(InternalError, match="would follow 1 recorded ones"):
            ledger.record_release(wrong)
    ledger.close()
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    with pytest.raises(InternalError, match="release 0 would follow 1 recorded ones"):
        ledger.record_release(release(agreement, 0, 7))
    assert ledger.own() == (first,)
    ledger.close()


def test_a_closed_round_is_never_changed(tmp_path: Path) -> None:
    """Rounds are closed in order and once; anything else is refused."""
    agreement = make_agreement()
    transcript, _ = play(agreement)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    ledger.record_round(0, transcript.rounds[0], bytes(32))
    for wrong in (0, 2):
        with pytest.raises(InternalError):
            ledger.record_round(wrong, transcript.rounds[0][::-1], bytes(32))
    assert ledger.transcript().rounds == transcript.rounds[:1]
    ledger.close()


def test_a_closed_round_is_durable_with_the_next_release(tmp_path: Path) -> None:
    """A closed round may be lost in a crash until the release after it is recorded."""
    agreement = make_agreement()
    transcript, _ = play(agreement)
    path = tmp_path / "ledger"
    ledger = Ledger(path, agreement, "ada")
    ledger.record_release(transcript.rounds[0][0])
    ledger.record_round(0, transcript.rounds[0], bytes(32))
    ledger._file._base.close()  # as if the process had ended here
    ledger = Ledger(path, agreement, "ada")
    assert (len(ledger.own()), len(ledger.transcript().rounds)) == (1, 0)
    ledger.record_round(0, transcript.rounds[0], bytes(32))
    ledger.record_release(transcript.rounds[1][0])
    ledger._file._base.close()
    ledger = Ledger(path, agreement, "ada")
    assert (len(ledger.own()), len(ledger.transcript().rounds)) == (2, 1)
    ledger.close()


OPEN = """
import sys
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.builders import make_agreement
try:
    Ledger(sys.argv[1], make_agreement(), "ada")
except BadLedger as error:
    print(error)
    raise SystemExit(error.exit_code)
print("opened")
"""


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """Another process can open the ledger only after the first has closed it."""
    path = tmp_path / "ledger"
    ledger = Ledger(path, make_agreement(), "ada")
    refused = run_python(OPEN, path)
    expected = f"the ledger {str(path)!r} is in use by another process; end that process first. "
    assert refused.stdout.startswith(expected)
    assert "stop it with Ctrl-C; the same command resumes" in refused.stdout
    assert refused.returncode == 6
    with pytest.raises(BadLedger, match="is in use by another process"):
        Ledger(path, make_agreement(), "ada")
    ledger.record_release(release(make_agreement(), 0))
    ledger.close()
    assert run_python(OPEN, path).stdout == "opened\n"


KILLED = """
import json, os, random, signal, sys, time
from party.ledger.session_ledger import Ledger
from protocol.wire.messages import Release
from protocol.wire.codec import pack
from tests.support.builders import make_agreement, public_key

path, kills = sys.argv[1], int(sys.argv[2])
agreement = make_agreement(rounds=1_000_000)
key = public_key("ada")

def work(out, trial):
    ledger = Ledger(path, agreement, "ada")
    mine = ledger.own()
    for round in range(len(mine), 1_000_000):
        message = Release(sender="ada", agreement=agreement.digest, round=round,
                          chain_hash=bytes(32), values=(trial, round))
        signed = pack(message, key=key, sign=lambda _: bytes(64))
        if round:
            ledger.record_round(round - 1, (ledger.release(round - 1),) * 3, bytes(32))
        ledger.record_release(signed)
        os.write(out, b"%d %d\\n" % (round, trial))

chance = random.Random(7)
acknowledged = {}
for trial in range(kills):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            work(writing, trial)
        finally:
            os._exit(99)
    os.close(writing)
    with os.fdopen(reading) as lines:
        first = [lines.readline() for _ in range(chance.choice((0, 1, 2, 5, 20)))]
        time.sleep(chance.uniform(0.0, 0.003))
        os.kill(child, signal.SIGKILL)
        for line in [*first, *lines]:
            round, by = map(int, line.split())
            if round in acknowledged:
                raise SystemExit(f"round {round} was released by {acknowledged[round]} and {by}")
            acknowledged[round] = by
    _, status = os.waitpid(child, 0)
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit("a process ended by itself")
json.dump(sorted(acknowledged.items()), sys.stdout)
"""


def test_killed_processes_lose_no_release(tmp_path: Path) -> None:
    """Processes killed at forty random moments neither lose nor repeat a recorded release."""
    path = tmp_path / "ledger"
    done = run_python(KILLED, path, 40)
    assert (done.returncode, done.stderr) == (0, "")
    acknowledged = json.loads(done.stdout)
    assert len({trial for _, trial in acknowledged}) > 20  # the others died before their first
    ledger = Ledger(path, make_agreement(rounds=1_000_000), "ada")
    own = [r.message.values for r in ledger.own() if isinstance(r.message, Release)]
    assert [values[1] for values in own] == list(range(len(own)))
    for round_, trial in acknowledged:
        assert own[round_] == (trial, round_)
    assert len(ledger.transcript().rounds) == len(own) - 1
    ledger.close()


MASKED = make_agreement(
    mode="private", reveal="totals", privacy={"epsilon": 1.0, "delta": 1e-3}, rounds=3
)
NUMBERS = np.arange(MASKED.width)
SEAL = sign(
    Seal(sender="ben", agreement=MASKED.digest, round=3, chain_hash=bytes(32), has_all_seals=False)
)
FAULT = Equivocation("ben signed two messages", sender="ben", evidence=(SEAL.data,))
STEPS: dict[str, Callable[[Ledger], object]] = {
    "a release": lambda ledger: ledger.record_release(release(MASKED, 1), (NUMBERS, NUMBERS)),
    "the allocation": lambda ledger: ledger.record_allocation(Allocation(NUMBERS, 1.0)),
    "the seals": lambda ledger: ledger.record_seals((SEAL,)),
    "a fault": lambda ledger: ledger.record_fault(FAULT, over=False),
    "the limit": lambda ledger: ledger.fix_limit(Limit(2.0, 1e-3)),
}


def content(path: Path) -> list[str]:
    """The whole content of a ledger file, as SQL."""
    with closing(sqlite3.connect(path)) as base:
        return list(base.iterdump())


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_an_interrupted_step_is_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[Ledger], object]
) -> None:
    """A signal after any write of a step leaves the ledger as it was before the step."""
    path, write, done = tmp_path / "ledger", Database.write, 0
    with closing(Ledger(path, MASKED, "ada")) as ledger:
        ledger.fix_limit(Limit(4.0, 1e-3))
        ledger.record_mask_key(bytes(32), SEAL)
        ledger.record_release(release(MASKED, 0), (NUMBERS, NUMBERS))
    before, file_bytes = content(path), path.read_bytes()

    def interrupted(self: Database, statement: str, rows: Any) -> None:
        nonlocal done
        write(self, statement, rows)
        done += 1
        if done == last:
            raise Interrupted

    for last in range(1, 9):
        path.write_bytes(file_bytes)
        with closing(Ledger(path, MASKED, "ada")) as ledger:
            done = 0
            with suppress(Interrupted), monkeypatch.context() as patch:
                patch.setattr(Database, "write", interrupted)
                step(ledger)
            ledger.record_witnessed(())
        if done < last:
            break
        assert content(path) == before
    assert last > 2
    assert content(path) != before


FULL = """
import resource, sys
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from tests.support.builders import make_agreement
from tests.support.ledgers import release

path, agreement = sys.argv[1], make_agreement(rounds=1000)
ledger = Ledger(path, agreement, "ada")
resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))
for round in range(1000):
    try:
        ledger.record_release(release(agreement, round))
    except BadLedger as error:
        print(round, error)
        break
for attempt in (lambda: ledger.release(round), lambda: ledger.own(), lambda: ledger.commit(),
                lambda: ledger.record_release(release(agreement, round))):
    try:
        print("gave", attempt())
    except BadLedger:
        print("refused")
ledger.record_witnessed(())
ledger.close()
"""


def test_a_release_that_did_not_reach_the_disk_cannot_be_read(tmp_path: Path) -> None:
    """After a failed write neither this process nor the next one can read the release."""
    path = tmp_path / "ledger"
    done = run_python(FULL, path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    count, _, text = first.partition(" ")
    assert text.startswith(f"the ledger {str(path)!r} cannot be used: disk I/O error; the disk")
    assert rest == ["refused"] * 4
    ledger = Ledger(path, make_agreement(rounds=1000), "ada")
    assert len(ledger.own()) == int(count) > 0
    ledger.close()


def test_a_ledger_serves_one_member_of_a_session(tmp_path: Path) -> None:
    """Opening it for another member is refused and changes nothing."""
    agreement = make_agreement()
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    ledger.record_release(release(agreement, 0))
    ledger.close()
    with pytest.raises(BadLedger) as caught:
        Ledger(tmp_path / "ledger", agreement, "ben")
    path = str(tmp_path / "ledger")
    text = f"in this session the ledger {path!r} belongs to 'ada', not to 'ben'; name the"
    assert str(caught.value).startswith(text)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    assert len(ledger.own()) == 1
    ledger.close()


@pytest.mark.parametrize(
    ("version", "age"), [(-1, "an older"), (2, "an older"), (7, "an older"), (99, "a newer")]
)
def test_a_ledger_of_another_version_is_refused_and_left_untouched(
    tmp_path: Path, version: int, age: str
) -> None:
    """The error names both formats and says what to do; the file keeps every byte, unlocked."""
    path = tmp_path / "ledger"
    Ledger(path, make_agreement(), "ada").close()
    with closing(sqlite3.connect(path)) as base:
        base.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    text = f"has format {version}: {age} version of sotto wrote it. This version reads only"
    for _ in range(2):
        with pytest.raises(BadLedger, match=text) as caught:
            Ledger(path, make_agreement(), "ada")
        assert "Use the version that wrote it" in str(caught.value)
        assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger"]


_KILLED = """
import os, sys
from party.ledger.session_ledger import Ledger
from tests.support.builders import make_agreement
from tests.support.ledgers import release

agreement = make_agreement(reveal="totals")
ledger = Ledger(sys.argv[1], agreement, "ada")
ledger.record_mask_key(b"a secret mask key".ljust(32), release(agreement, 0))
ledger._file._base.execute("PRAGMA user_version = 7")
os._exit(0)
"""
"""A process of another version that is killed while its log holds a secret."""


def test_the_log_of_a_refused_ledger_is_overwritten(tmp_path: Path) -> None:
    """SQLite unlinks the log when the ledger is closed; its bytes must not stay on the disk."""
    path, log, still_there = (tmp_path / name for name in ("ledger", "ledger-wal", "linked"))
    assert run_python(_KILLED, path).returncode == 0
    assert b"a secret mask key" in log.read_bytes()
    still_there.hardlink_to(log)
    with pytest.raises(BadLedger, match="has format 7"):
        Ledger(path, make_agreement(reveal="totals"), "ada")
    assert not log.exists()
    assert b"a secret mask key" not in still_there.read_bytes()


_FINGERPRINT = b"a fingerprint that tests can find in a file"


def _abandon(ledger: Ledger, *, over: bool) -> None:
    ledger.record_abandoned(over=over)


def _fault(ledger: Ledger, *, over: bool) -> None:
    ledger.record_fault(Equivocation("ben signed two messages", sender="ben"), over=over)


@pytest.mark.parametrize("end", [_abandon, _fault])
@pytest.mark.parametrize("over", [False, True])
def test_the_fingerprint_of_a_model_stays_only_while_a_plan_can_be_written(
    tmp_path: Path, end: Callable[..., None], *, over: bool
) -> None:
    """A session that ends before its last round destroys it; after that `party forget` does."""

    def found() -> bool:
        return any(_FINGERPRINT in path.read_bytes() for path in tmp_path.iterdir())

    with closing(Ledger(tmp_path / "ledger", make_agreement(), "ada")) as ledger:
        ledger.record_model(_FINGERPRINT)
        assert found()
        end(ledger, over=over)
        assert (ledger.model(), found()) == ((_FINGERPRINT, True) if over else (None, False))
        ledger.forget()
        assert ledger.model() is None
    assert not found()


def test_several_sessions_share_one_file(tmp_path: Path) -> None:
    """Each session reads back its own records only."""
    path = tmp_path / "ledger"
    agreements = [make_agreement(session=f"s{i}") for i in range(3)]
    for i, agreement in enumerate(agreements):
        ledger = Ledger(path, agreement, "ada")
        for t in range(i + 1):
            ledger.record_release(release(agreement, t, 100 * i + t))
        if i == 1:
            ledger.record_fault(Diverged("ben stopped", sender="ben"), over=False)
        ledger.close()
    for i, agreement in enumerate(agreements):
        ledger = Ledger(path, agreement, "ada")
        expected = [release(agreement, t, 100 * i + t).data for t in range(i + 1)]
        assert [r.data for r in ledger.own()] == expected
        assert (ledger.fault is not None) == (i == 1)
        ledger.close()


@pytest.mark.parametrize(
    "content", [b"no ledger at all" * 100, bytes(4096), b"SQLite format 3\0" + bytes(range(256))]
)
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, content: bytes) -> None:
    """The error says so, and the file keeps every byte."""
    path = tmp_path / "ledger"
    path.write_bytes(content)
    with pytest.raises(BadLedger, match="cannot be used: "):
        Ledger(path, make_agreement(), "ada")
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    """A missing folder, or a folder in place of the file, is an error."""
    for path in (tmp_path / "missing" / "ledger", tmp_path):
        with pytest.raises(BadLedger, match="cannot be used: unable to open"):
            Ledger(path, make_agreement(), "ada")


@pytest.mark.parametrize("table", ["releases", "rounds", "seals"])
def test_a_damaged_message_is_reported_as_damage(tmp_path: Path, table: str) -> None:
    """A stored message that was overwritten is damage, not the fault of a peer."""
    agreement = make_agreement()
    transcript, _ = play(agreement)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    ledger.record_release(transcript.rounds[0][0])
    ledger.record_round(0, transcript.rounds[0], bytes(32))
    ledger.record_seals(transcript.seals)
    ledger.close()
    column = "messages" if table == "rounds" else "message"
    base = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    base.execute(f"UPDATE {table} SET {column} = zeroblob(length({column}))")  # noqa: S608
    base.close()
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    read = (lambda: ledger.release(0)) if table == "releases" else ledger.transcript
    with pytest.raises(BadLedger, match=f"ledger {str(tmp_path / 'ledger')!r} is damaged: "):
        read()
    ledger.close()


def test_random_damage_never_hides_a_release(tmp_path: Path) -> None:
    """With random bytes changed, a ledger is refused or still has all its releases."""
    agreement = make_agreement(rounds=100)
    intact, path = tmp_path / "intact", tmp_path / "ledger"
    transcript, _ = play(agreement, rounds=20)
    ledger = Ledger(intact, agreement, "ada")
    for t, releases in enumerate(transcript.rounds):
        ledger.record_release(releases[0])
        ledger.record_round(t, releases, bytes(32))
    ledger.record_addresses({"ben": "tcp://ben:1"})
    ledger.close()
    content, chance = intact.read_bytes(), random.Random(3)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            at, length = chance.randrange(len(content)), chance.choice([1, 1, 8, 200])
            damaged[at : at + length] = chance.randbytes(length)
        if chance.random() < 0.2:
            del damaged[chance.randrange(1, len(damaged)) :]
        path.write_bytes(damaged)
        try:
            counts = recorded(path, agreement)
        except BadLedger:
            refused += 1
        else:
            assert counts == (20, 20)
        for extra in ("ledger-wal", "ledger-shm", "ledger-journal"):
            (tmp_path / extra).unlink(missing_ok=True)
    assert refused > 50


def recorded(path: Path, agreement: Agreement) -> tuple[int, int]:
    """Read a whole ledger; return its numbers of own releases and closed rounds."""
    ledger = Ledger(path, agreement, "ada")
    try:
        ledger.addresses()
        assert ledger.fault is None or str(ledger.fault)
        return len(ledger.own()), len(ledger.transcript().rounds)
    finally:
        ledger._file._base.close()


def test_ledgers_in_memory_are_independent() -> None:
    """A release in one ledger in memory does not appear in another."""
    agreement = make_agreement()
    one, other = (in_memory(agreement, "ada") for _ in range(2))
    one.record_release(release(agreement, 0))
    assert (len(one.own()), len(other.own())) == (1, 0)
