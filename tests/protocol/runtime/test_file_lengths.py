"""Files that are too long are refused before they are read, and so is what is no plain file."""

import os
import socket
from pathlib import Path

import pytest

from party import keys
from protocol.agreement.parse import from_table, parse
from protocol.agreement.render import written
from protocol.agreement.schema import MAX_MEMBERS
from protocol.errors import BadAgreement, BadKey, BadTranscript
from protocol.runtime.files import (
    AGREEMENT_BYTES,
    KEY_BYTES,
    TooLong,
    read_agreement,
    read_bounded,
    read_transcript,
)
from protocol.wire.transcript import load, most_bytes
from tests.support.builders import dump, make_agreement, play, table

ENDLESS = Path("/dev/zero")


def long(path: Path, length: int) -> Path:
    """A file of this length that takes no space on the disk."""
    with path.open("wb") as file:
        file.truncate(length)
    path.chmod(0o600)
    return path


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """The limit is exact, and an endless file is refused too."""
    (tmp_path / "file").write_bytes(b"x" * 2_000)
    assert read_bounded(tmp_path / "file", 2_000) == b"x" * 2_000
    for path in (tmp_path / "file", ENDLESS):
        with pytest.raises(TooLong, match="longer than 1 KiB"):
            read_bounded(path, 1_999)


def test_no_file_of_others_makes_a_command_wait(tmp_path: Path) -> None:
    """A pipe to which no program writes, a device and a link to one are refused at once."""
    pipe, link, talk = (tmp_path / name for name in ("pipe.claim", "link.toml", "a.transcript"))
    os.mkfifo(pipe)
    link.symlink_to("/dev/tty")
    link_to_null = tmp_path / "null.toml"
    link_to_null.symlink_to(os.devnull)
    for path in (pipe, link_to_null):
        with pytest.raises(OSError, match="it is a pipe or a device, no plain file"):
            read_bounded(path, 1_000)
    with pytest.raises(BadAgreement, match="cannot be read"):
        read_agreement(link)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(talk))
        with pytest.raises(BadTranscript, match="cannot be read"):
            read_transcript(talk, make_agreement())
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, 1_000)


def test_what_another_program_writes_can_be_read() -> None:
    """A shell gives the output of a program as a path below /dev."""
    ours, theirs = os.pipe()
    os.write(theirs, b"text")
    os.close(theirs)
    assert read_bounded(Path(f"/dev/fd/{ours}"), 1_000) == b"text"
    os.close(ours)


def test_an_agreement_with_an_impossible_name_is_an_error_like_any_other(tmp_path: Path) -> None:
    """A name that is too long for the system, and one that is not there, are named."""
    with pytest.raises(BadAgreement, match=r"cannot be read: File name too long"):
        read_agreement(tmp_path / ("a" * 300))
    with pytest.raises(BadAgreement, match="there is no agreement file"):
        read_agreement(tmp_path / "a")


def test_an_agreement_that_is_too_long_is_not_parsed(tmp_path: Path) -> None:
    """The largest possible agreement needs less than half of the limit."""
    for path in (long(tmp_path / "a.toml", AGREEMENT_BYTES + 1), ENDLESS):
        with pytest.raises(BadAgreement, match="longer than 16,384 KiB"):
            read_agreement(path)
    terms = table()
    terms["member"] = [
        {
            "name": f"a-member-with-a-name-{k}",
            "signing_key": f"{k:064x}",
            "transport_key": f"{k:040}",
        }
        for k in range(1, 1 + MAX_MEMBERS)
    ]
    text = written(from_table(terms))
    assert 2 * len(text) < AGREEMENT_BYTES
    assert len(parse(text).members) == MAX_MEMBERS


def test_a_key_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    """Neither is an endless one."""
    for path in (long(tmp_path / "a.key", KEY_BYTES + 1), ENDLESS):
        with pytest.raises(BadKey, match="cannot be read"):
            keys.load(path)


@pytest.mark.parametrize("reveal", ["each", "totals"])
def test_a_transcript_is_no_longer_than_its_agreement_allows(tmp_path: Path, reveal: str) -> None:
    """A full session fits, and a longer file is not read."""
    agreement = make_agreement(rounds=40, reveal=reveal)
    path = tmp_path / "session.transcript"
    path.write_bytes(dump(agreement, play(agreement)[0]))
    assert path.stat().st_size <= most_bytes(agreement) - (1 << 20)
    assert len(load(agreement, read_transcript(path, agreement)).rounds) == 40
    for wrong in (long(path, most_bytes(agreement) + 1), ENDLESS):
        with pytest.raises(BadTranscript, match=r"longer than .* with this agreement"):
            read_transcript(wrong, agreement)
