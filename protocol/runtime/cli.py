"""What the three commands share: parsers, signals, and exit codes for errors.

Never here: what a command does.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TextIO, TypeAlias

from protocol import __version__
from protocol.errors import BadCommand, SottoError
from protocol.runtime.streams import lost_output, survive_lost_streams

INTERRUPTED = 130


class Interrupted(BaseException):
    """A signal asks the process to end. It is no `Exception`, so that no handler stops it."""


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> None:
    """Parse, call the chosen command's `run`, and end with an exit code of EXIT_CODES.md.

    The command runs to its end even if its output cannot be written. A lost output is an error
    at the end, unless the command sets `beyond_output` because it does more than print.
    """
    survive_lost_streams()
    try:
        _on_signals(_interrupt)
        options = parser.parse_args(arguments)
        code = options.run(options) or 0
        lost = lost_output()
        if lost and not code and not getattr(options, "beyond_output", False):
            raise BadCommand(f"standard output cannot be written: {lost.strerror}")
    except SottoError as error:
        code = _failed(error)
    except OSError as error:
        if error.filename is None:
            raise
        # Such as a name that is too long, or a folder that this user must not look into.
        code = _failed(BadCommand(f"{error.filename!r}: {error.strerror}; check this path"))
    except Interrupted:
        _on_signals(signal.SIG_IGN)  # a second signal must not show a traceback
        print("interrupted; run the same command to resume", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _failed(error: SottoError) -> int:
    """Show what is wrong, and return the exit code."""
    sys.stdout.flush()  # earlier output comes first, even in one file
    print(fitted(f"error: {error}", sys.stderr), file=sys.stderr)
    return error.exit_code


def fitted(text: str, stream: TextIO) -> str:
    """A text with its lines broken at words, if it goes to a terminal. Programs get whole lines.

    Lines go on below the first word after a wide gap, so that columns stay columns. No word is
    broken, so that a digest or an option can still be copied.
    """
    if not stream.isatty():
        return text
    width, lines = max(40, shutil.get_terminal_size().columns), list[str]()
    wrapper = textwrap.TextWrapper(width, break_on_hyphens=False, break_long_words=False)
    for line in text.split("\n"):
        gap = re.match(r" *(\S+ )*\S* {2,}", line)
        wrapper.subsequent_indent = " " * (gap.end() if gap and gap.end() <= width // 2 else 2)
        lines += wrapper.wrap(line) or [""]
    return "\n".join(lines)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise Interrupted


def _quit(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    os._exit(INTERRUPTED)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` returns, for which argparse has no public name."""


def command_line(prog: str, description: str) -> tuple[argparse.ArgumentParser, Commands]:
    """Return a parser with subcommands that looks the same for all three commands.

    Call it first: from here until the command runs, a signal ends the process at once.
    """
    _on_signals(_quit)
    # Before numpy is loaded. Its threads cost more to start than matrices as small as ours gain.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(
        prog=prog, description=description, epilog="Exit codes: see docs/EXIT_CODES.md."
    )
    parser.add_argument("--version", action="version", version=f"{prog} of sotto {__version__}")
    return parser, parser.add_subparsers(title="commands", required=True, metavar="COMMAND")


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    summary: str,
    description: str,
    codes: str,
) -> argparse.ArgumentParser:
    """Add a subcommand with its help; the description keeps its line breaks.

    `codes` are exit codes with their meanings, "0 done; 2 wrong option", shown one a line.
    """
    lines = ["exit codes:"]
    for code in codes.split("; "):
        number, meaning = code.split(" ", maxsplit=1)
        first, rest = f"  {number:<6}", " " * 8
        lines += textwrap.wrap(meaning, 78, initial_indent=first, subsequent_indent=rest)
    lines += ["", "All codes: docs/EXIT_CODES.md. A value in parentheses is the default."]
    parser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog="\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser
