"""Files that are too long are refused before they are read."""

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
