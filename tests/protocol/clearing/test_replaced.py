"""A settlement that is there already is replaced only by one that knows as much."""

import argparse
import json
from pathlib import Path

import pytest

from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome, outcome
from protocol.settle_command import settle
from tests.support.builders import make_agreement, play


def sealed(session: str) -> Outcome:
    """A session whose releases are public, so that it is settled without claims."""
    agreement = make_agreement(members=3, prices={"step": "center"}, rounds=9, session=session)
    return outcome(agreement, play(agreement)[0])


def settled(known: Outcome, folder: Path) -> bytes:
    settle(argparse.Namespace(claims=[], key=None, used=None, out=folder), known)
    return (folder / "settlement.json").read_bytes()


def test_the_same_settlement_is_written_again(tmp_path: Path) -> None:
    """The same command gives the same file."""
    known = sealed("monday")
    assert settled(known, tmp_path) == settled(known, tmp_path)


def test_a_settlement_of_another_session_is_not_replaced(tmp_path: Path) -> None:
    """The operator is told to use another folder."""
    before = settled(sealed("monday"), tmp_path)
    with pytest.raises(BadCommand, match="another session: nothing is written"):
        settled(sealed("tuesday"), tmp_path)
    assert (tmp_path / "settlement.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"head": 1}', "\0"])
def test_a_file_of_another_program_is_not_replaced(tmp_path: Path, text: str) -> None:
    """Nor is it read as a settlement."""
    (tmp_path / "settlement.json").write_text(text)
    with pytest.raises(BadCommand, match="another program: nothing is written"):
        settled(sealed("monday"), tmp_path)
    assert (tmp_path / "settlement.json").read_text() == text


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"payments": {"eve": "1.00"}}, "the payment of 'eve'"),
        ({"stated": {"eve": "1.00"}}, "the payment of 'eve'"),
        ({"quotas": {"docks": {"eve": 1.0}}}, "'docks' of 'eve'"),
        ({"use": [{"member": "eve", "resource": "docks"}]}, "the use of 'docks' by 'eve'"),
    ],
)
def test_what_would_be_lost_is_named(tmp_path: Path, more: dict[str, object], named: str) -> None:
    """A settlement with one number more is not replaced."""
    known = sealed("monday")
    figures = json.loads(settled(known, tmp_path))
    (tmp_path / "settlement.json").write_text(json.dumps({**figures, **more}))
    with pytest.raises(BadCommand, match=named):
        settled(known, tmp_path)
