"""The marker beside a key allows one ledger only."""

import json
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from party.ledger import budget_marker
from party.ledger.database import Database, Extent
from protocol.errors import BadLedger


@pytest.fixture
def key(tmp_path: Path) -> Path:
    key = tmp_path / "ada.key"
    key.write_text("secret")
    budget_marker.begin(key)
    return key


def test_of_two_ledgers_at_the_same_time_one_is_marked(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock makes the second process wait until the first has written the marker."""
    both, original = threading.Barrier(2), budget_marker.require_marked

    def slow(key: Path, path: Path, found: Extent) -> None:
        original(key, path, found)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)

    def marks(ledger_id: bytes) -> bool:
        try:
            path = key.with_name(f"{ledger_id.hex()}.ledger")
            budget_marker.mark(key, path, Extent(ledger_id, 0))
        except BadLedger:
            return False
        return True

    monkeypatch.setattr(budget_marker, "require_marked", slow)
    with ThreadPoolExecutor(2) as pool:
        marked = dict(zip((b"a", b"b"), pool.map(marks, (b"a", b"b")), strict=True))
    assert sorted(marked.values()) == [False, True]
    assert {ledger_id: marks(ledger_id) for ledger_id in marked} == marked


@pytest.mark.parametrize("missing", ["ledger", "id", "releases"])
def test_a_marker_that_lacks_something_is_damaged(key: Path, missing: str) -> None:
    """Without the number of releases, an old copy of the ledger would pass."""
    budget_marker.mark(key, key.with_name("a.ledger"), Extent(b"a", 3))
    marker = budget_marker.marker_path(key)
    content = json.loads(marker.read_text())
    del content[missing]
    marker.write_text(json.dumps(content))
    with pytest.raises(BadLedger, match="but it is damaged"):
        budget_marker.require_marked(key, key.with_name("a.ledger"), Extent(b"a", 0))


def test_an_unreadable_marker_refuses_every_ledger(key: Path) -> None:
    """A marker that exists but cannot be read does not allow a second ledger."""
    budget_marker.mark(key, key.with_name("a.ledger"), Extent(b"a", 0))
    marker = budget_marker.marker_path(key)
    marker.unlink()
    marker.symlink_to(marker)
    for other in (Extent(b"b", 0), None):
        with pytest.raises(BadLedger, match="but it cannot be read"):
            budget_marker.require_marked(key, key.with_name("b.ledger"), other)


def test_the_advice_for_a_ledger_of_another_version_can_be_followed(key: Path) -> None:
    """With the ledger moved away, and its loss accepted, a new ledger counts for the key."""
    path = key.with_name("ada.ledger")
    with closing(Database(path)) as first:
        budget_marker.mark(key, path, first.extent)
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA user_version = 7")
    with pytest.raises(BadLedger, match="move the ledger away and run `party restore"):
        Database(path)
    path.rename(path.with_name("old.ledger"))
    with pytest.raises(BadLedger, match="there is no ledger"):
        budget_marker.require_marked(key, path, None)
    with closing(Database(path)) as second:
        budget_marker.mark_anew(key, path, second.extent)
        budget_marker.require_marked(key, path, second.extent)


def test_an_old_copy_of_the_marked_ledger_is_refused(key: Path) -> None:
    """A ledger that has fewer releases than it had, even by one, lacks some."""
    path = key.with_name("a.ledger")
    budget_marker.mark(key, path, Extent(b"a", 7))
    budget_marker.require_marked(key, path, Extent(b"a", 7))
    budget_marker.mark(key, path, Extent(b"a", 9))
    for releases in (0, 8):
        with pytest.raises(BadLedger, match=rf"is an old copy: it holds {releases} releases, and"):
            budget_marker.mark(key, path, Extent(b"a", releases))
    assert budget_marker.read(key) == (str(path), Extent(b"a", 9))


def test_a_key_without_its_marker_gets_no_ledger(key: Path) -> None:
    """A key that was copied alone neither begins a new ledger nor accepts an old one."""
    budget_marker.marker_path(key).unlink()
    for found in (None, Extent(b"a", 3)):
        with pytest.raises(BadLedger, match="is missing beside this key"):
            budget_marker.require_marked(key, key.with_name("ada.ledger"), found)


def test_a_marker_is_flushed_before_it_is_renamed(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure could leave an empty marker, which refuses every ledger."""
    steps: list[str] = []
    sync, replace_file = os.fsync, Path.replace

    def synced(file: int) -> None:
        steps.append(f"{os.fstat(file).st_size} bytes synchronised")
        sync(file)

    def replaced(draft: Path, path: Path) -> Path:
        steps.append(f"{draft.stat().st_size} bytes in place")
        return replace_file(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    budget_marker.mark(key, key.with_name("a.ledger"), Extent(b"a", 0))
    size = budget_marker.marker_path(key).stat().st_size
    assert steps == [f"{size} bytes synchronised", f"{size} bytes in place"]


def test_a_damaged_marker_refuses_every_ledger(key: Path) -> None:
    """The error says what the file is for and what to do."""
    budget_marker.marker_path(key).write_text("{}")
    with pytest.raises(BadLedger, match=r"but it is damaged\. Restore a copy of it, or accept"):
        budget_marker.require_marked(key, key.with_name("a.ledger"), Extent(b"a", 0))
