"""What the three commands share: reading files, and turning errors into exit codes.

This is the edge of the package: besides `__main__`, `outputs` and `pages`, which reads its own
style, nothing else in it touches the disk or the terminal. Nothing that decides may live here.
"""

import argparse
import os
import signal
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from protocol import __version__
from protocol.errors import BadAgreement, BadCommand, BadKey, BadTranscript, SottoError
from protocol.outputs import keep_going, lost_output

if TYPE_CHECKING:  # it takes time to load, and until then nobody listens to signals
    from protocol.agreement import Agreement

INTERRUPTED = 130

AGREEMENT_BYTES = 1 << 24
"""No agreement file is longer: 10 000 members need a sixth of this."""

KEY_BYTES = 1 << 16
"""No key file is longer, nor the file of a member that `party keygen` writes."""

_AT_ONCE = 1 << 20

T = TypeVar("T")


class Interrupted(BaseException):
    """The user, or the system, wants the process to end. No `except Exception` may stop that."""


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> None:
    """Parse, call the chosen command's `run`, and end with the exit code of EXITS.md.

    The command goes on to its end, whatever becomes of its output. Where the output was all
    that it was for, which is so unless it sets `beyond_output`, losing it is a failure.
    """
    keep_going()
    try:
        _on_signals(_interrupt)
        options = parser.parse_args(arguments)
        code = options.run(options) or 0
        lost = lost_output()
        if lost and not code and not getattr(options, "beyond_output", False):
            raise BadCommand(f"standard output cannot be written: {lost.strerror}")
    except SottoError as error:
        sys.stdout.flush()  # what was told before comes before it, wherever both go
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except Interrupted:
        _on_signals(signal.SIG_IGN)  # it ends already: a second one must not show a traceback
        print("interrupted; the same command can be given again", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise Interrupted


def _quit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os._exit(INTERRUPTED)


def _on_signals(reaction: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, reaction)


Commands = argparse._SubParsersAction  # argparse has no public name for what add_subparsers gives


def command_line(prog: str, description: str) -> tuple[argparse.ArgumentParser, Commands]:  # type: ignore[type-arg]
    """A parser with subcommands, in the way all three commands look.

    The first thing that a command does: until it runs, a signal ends it on the spot.
    """
    _on_signals(_quit)
    parser = argparse.ArgumentParser(
        prog=prog, description=description, epilog="Exit codes: see protocol/EXITS.md."
    )
    parser.add_argument("--version", action="version", version=f"{prog} of sotto {__version__}")
    return parser, parser.add_subparsers(title="commands", required=True, metavar="COMMAND")


def add_command(
    commands: Commands,  # type: ignore[type-arg]
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    text: str,
    description: str,
) -> argparse.ArgumentParser:
    """One subcommand with its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


class TooLong(ValueError):
    """A file is longer than any of its kind."""


def read_bounded(path: Path, most: int) -> bytes:
    """All of a file that has at most `most` bytes. Raises `OSError` or `TooLong`.

    What is no plain file may have no length, and no end.
    """
    data = bytearray()
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= most:
            while len(data) <= most and (part := file.read(_AT_ONCE)):
                data += part
            if len(data) <= most:
                return bytes(data)
    raise TooLong(f"it is longer than {most >> 10:,} KiB, which none can be")


def read_agreement(path: Path) -> "Agreement":
    """The agreement in a file."""
    from protocol import toml

    try:
        # Some editors begin a file with a mark.
        text = read_bounded(path, AGREEMENT_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason
        raise BadAgreement(f"the agreement {str(path)!r} cannot be read: {reason}") from None
    try:
        return toml.parse(text)
    except BadAgreement as error:
        raise BadAgreement(f"{path}: {error}") from None


def read_transcript(path: Path, agreement: "Agreement") -> bytes:
    """The bytes of a transcript file of an agreement, not yet verified."""
    from protocol.transcript import most_bytes

    try:
        return read_bounded(path, most_bytes(agreement))
    except (OSError, TooLong) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{error} with this agreement"
        raise BadTranscript(f"the transcript {str(path)!r} cannot be read: {reason}") from None


def write_private(path: Path, text: str) -> None:
    """A new file that only its owner can read. An existing one is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadKey(f"{str(path)!r} exists already and is not overwritten") from None
    except OSError as error:
        raise BadKey(f"{str(path)!r} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def replace_private(path: Path, text: str) -> None:
    """A file that only its owner can read, whole or not at all; takes the place of an older one."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())  # or a power cut may leave an empty file in its place
    draft.replace(path)


def read_private(path: Path, parse: Callable[[str], T]) -> T:
    """What is in a file that only its owner can read; refused if others can.

    `parse` comes first: a file without a secret is not open to others, but the wrong one.
    """
    try:
        mode = path.stat().st_mode
        text = read_bounded(path, KEY_BYTES).decode()
    except (OSError, ValueError):
        raise BadKey(f"the key file {str(path)!r} cannot be read") from None
    secret = parse(text)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadKey(
            f"the key file {str(path)!r} can be read by others; say: chmod 600 {path}, "
            "and make a new key if somebody may have seen it"
        )
    return secret
