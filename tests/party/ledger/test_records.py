"""Single records of a ledger: what is read back, what survives a crash, and what is refused."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.ledger.database import Database
from party.ledger.secret_records import Opening
from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger, Equivocation, InternalError
from protocol.outcome.private_quota import Allocation
from protocol.runtime.wait_times import WaitTime
from tests.support.builders import make_agreement
from tests.support.ledgers import in_memory, release
from tests.support.limits import no_file_above

EACH, TOTALS = make_agreement(), make_agreement(reveal="totals")
OPENING = Opening((3, 4, 5), (6, 7, 8))


def test_quota_payment_and_uncut_quota_are_read_back() -> None:
    """Each of the three comes back as itself."""
    ledger = in_memory(TOTALS, "ada")
    ledger.record_allocation(Allocation(np.array([1, 2]), -0.5, np.array([3, 4])))
    found = ledger.allocation()
    assert found is not None
    assert (found.quota.tolist(), found.payment) == ([1, 2], -0.5)
    assert found.committed_ticks.tolist() == [3, 4]


def test_rounds_without_an_answer_are_counted() -> None:
    """A release counts as answered unless its party says otherwise."""
    ledger = in_memory(EACH, "ada")
    ledger.record_release(release(EACH, 0))
    ledger.record_release(release(EACH, 1), answered=False)
    ledger.record_release(release(EACH, 2), answered=True)
    assert ledger.unanswered() == 1


def test_a_session_is_sealed_by_its_seals() -> None:
    """Before the seals it is open, and not at all undecided."""
    ledger = in_memory(EACH, "ada")
    assert ledger.sealed is False
    ledger.record_seals((release(EACH, 0),))
    assert ledger.sealed is True


def test_one_message_is_evidence_enough() -> None:
    """The member that a single message accuses is read back from it."""
    ledger, seen = in_memory(EACH, "ada"), release(EACH, 0, member="ben")
    ledger.record_fault(Equivocation("ben lied", sender="ben", evidence=(seen.data,)), over=False)
    assert ledger.fault is not None
    assert ledger.fault.sender == "ben"


def test_an_abandoned_session_signs_nothing_more() -> None:
    """Neither a release, nor a mask key, nor commitments, in this process or in the next."""
    ledger = in_memory(TOTALS, "ada")
    ledger.record_abandoned(over=False)
    signing: list[Callable[[], None]] = [
        lambda: ledger.record_release(release(TOTALS, 0)),
        lambda: ledger.record_mask_key(bytes(32), release(TOTALS, 0)),
        lambda: ledger.record_opening(OPENING, release(TOTALS, 0)),
    ]
    for sign in signing:
        with pytest.raises(InternalError, match="an abandoned session"):
            sign()


def test_a_session_gets_no_second_commitments() -> None:
    """What a member has committed to cannot be replaced."""
    ledger, message = in_memory(TOTALS, "ada"), release(TOTALS, 0)
    ledger.record_opening(OPENING, message)
    with pytest.raises(InternalError, match="one message with commitments"):
        ledger.record_opening(Opening((1, 1, 1), (1, 1, 1)), release(TOTALS, 1))
    found = ledger.opening()
    assert found is not None
    assert (found.numbers, found.blindings) == (OPENING.numbers, OPENING.blindings)


@pytest.mark.parametrize(
    ("record", "read"),
    [
        (lambda one: one.record_waits([WaitTime("ben", 1.5, 1.0, 2)]), lambda one: one.waits()),
        (lambda one: one.record_addresses({"ben": "tcp://b:1"}), lambda one: one.addresses()),
    ],
    ids=["waits", "addresses"],
)
def test_what_a_restart_needs_survives_a_crash(
    tmp_path: Path, record: Callable[[Ledger], None], read: Callable[[Ledger], Any]
) -> None:
    """It is durable when the call returns."""
    ledger = Ledger(tmp_path / "ledger", EACH, "ada")
    record(ledger)
    expected = read(ledger)
    ledger._file._base.close()  # as if the process had ended here
    with closing(Ledger(tmp_path / "ledger", EACH, "ada")) as ledger:
        assert read(ledger) == expected
        assert expected


def test_after_a_failed_write_nothing_is_read_or_written(tmp_path: Path) -> None:
    """A release that is not on the disk is not given away, and none follows it."""
    path = tmp_path / "ledger"
    ledger = Ledger(path, EACH, "ada")
    with no_file_above(4096), pytest.raises(BadLedger, match="disk I/O error"):
        ledger.record_release(release(EACH, 0))
    for use in (
        lambda: ledger.release(0),
        lambda: ledger.record_release(release(EACH, 0)),
        lambda: ledger.record_round(0, (), bytes(32)),
        ledger.own,
    ):
        with pytest.raises(BadLedger):
            use()
    ledger.close()
    with closing(Ledger(path, EACH, "ada")) as ledger:
        assert ledger.release(0) is None


@pytest.mark.parametrize("value", [5, 2.5, "text"])
def test_a_message_of_another_type_is_damage(tmp_path: Path, value: object) -> None:
    """SQLite keeps a value of any type in any column."""
    path = tmp_path / "ledger"
    with closing(Ledger(path, EACH, "ada")) as ledger:
        ledger.record_release(release(EACH, 0))
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("UPDATE releases SET message = ?", (value,))
    with (
        closing(Ledger(path, EACH, "ada")) as ledger,
        pytest.raises(BadLedger, match="round 0 of its releases is not as it was written"),
    ):
        ledger.own()


def test_bytes_that_are_no_message_are_damage() -> None:
    """Even if their checksum is right."""
    ledger = in_memory(EACH, "ada")
    ledger._file.insert("heard", ledger._session, {0: (b"no message",)})
    with pytest.raises(BadLedger, match="is damaged"):
        ledger.witnessed()


def test_a_ledger_without_its_identifier_is_damaged(tmp_path: Path) -> None:
    """Without it, any ledger could pass for the one that counts."""
    with closing(Database(tmp_path / "ledger")) as file:
        file.write("DELETE FROM ledger", [()])
        file.commit()
        with pytest.raises(BadLedger, match="its identifier is missing"):
            assert file.extent
