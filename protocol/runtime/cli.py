"""What the three commands share: reading files, and turning errors into exit codes.

This is the edge of the package: besides `__main__`, `outputs` and `pages`, which reads its own
style, nothing else in it touches the disk or the terminal. Nothing that decides may live here.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from protocol import __version__
from protocol.errors import BadCommand, SottoError
from protocol.runtime.streams import keep_going, lost_output

INTERRUPTED = 130


class Interrupted(BaseException):
    """The user, or the system, wants the process to end. No `except Exception` may stop that."""


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> None:
    """Parse, call the chosen command's `run`, and end with the exit code of EXIT_CODES.md.

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
        prog=prog, description=description, epilog="Exit codes: see docs/EXIT_CODES.md."
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
