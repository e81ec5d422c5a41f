"""The `protocol` command: what anybody can know with public files alone."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import BadCommand, BadTranscript, Incomplete, Unsealed
from protocol.runtime.cli import add_command, command_line, run
from protocol.runtime.files import read_agreement, read_transcript

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from protocol.outcome.outcome import Outcome


def main() -> None:
    parser, commands = command_line(
        "protocol", "Plan, audit and report sessions from public files."
    )
    plan = add_command(
        commands,
        "plan",
        _plan,
        "what an agreement means before anybody joins",
        "Say how much noise an agreement asks for, what the theorem promises, how much is sent,\n"
        "and whether the noise will drown what it hides. Needs no private data.",
    )
    plan.add_argument("agreement", type=Path, metavar="AGREEMENT")
    plan.add_argument("--json", action="store_true", help="print the figures as JSON")
    plan.add_argument("--html", type=Path, metavar="FILE",
        help="write a page to send around, with what sessions of invented companies "
        "came to")  # fmt: skip
    audit = add_command(
        commands,
        "audit",
        _audit,
        "verify the transcript of a session",
        "Check every signature, recompute every price, head and quota, and print the privacy\n"
        "statement. A single changed byte is found and located (exit code 9). Ends with 0 only if\n"
        "all members have sealed the end of the session: with 22 if the transcript stops before\n"
        "it, and with 21 if only the seals are missing.",
    )
    audit.add_argument("transcript", type=Path, metavar="TRANSCRIPT")
    audit.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    audit.add_argument("--json", action="store_true", help="print the figures as JSON")
    report = add_command(
        commands,
        "report",
        _report,
        "a page for people about a session",
        "Verify a transcript as `protocol audit` does and write what it came to as one HTML page,\n"
        "which loads nothing from anywhere and can be read, printed and sent on by anybody.",
    )
    report.add_argument("transcript", type=Path, metavar="TRANSCRIPT")
    report.add_argument("--agreement", type=Path, required=True, metavar="FILE")
    report.add_argument("--out", type=Path, metavar="FILE", help="(TRANSCRIPT with .html)")
    report.add_argument("--csv", type=Path, metavar="FILE",
        help="prices, quotas and payments for a spreadsheet as well")  # fmt: skip
    run(parser)


def _plan(options: argparse.Namespace) -> None:
    from protocol.planning.verdict import forecast
    from protocol.report.terminal import plan_text

    agreement = read_agreement(options.agreement)
    figures = forecast(agreement)
    if options.html is not None:
        from protocol.report.plan import plan_page
        from protocol.report.plan_trials import variants

        page = plan_page(agreement, figures, variants(agreement, figures))
        _write(options.html, page, sparing=[options.agreement])
        return
    print(json.dumps(figures, indent=2) if options.json else plan_text(agreement, figures))


def _audit(options: argparse.Namespace) -> None:
    from protocol.report.terminal import audit_figures, audit_text

    known = _known(options)
    print(json.dumps(audit_figures(known), indent=2) if options.json else audit_text(known))
    if not known.state.over:
        raise Incomplete(
            f"the transcript stops after {known.rounds} of {known.agreement.rounds} rounds, before "
            "the end of the session; ask for a later copy"
        )
    if not known.sealed:
        raise Unsealed(
            "the members have not sealed the end of this session, so that it binds nobody; ask "
            "one that has finished for its copy"
        )


def _report(options: argparse.Namespace) -> None:
    from protocol.report.csv import public_csv
    from protocol.report.public import public_page

    known = _known(options)
    path = options.out or options.transcript.with_suffix(".html")
    read = [options.transcript, options.agreement]
    _write(path, public_page(known), sparing=read)
    if options.csv is not None:
        _write(options.csv, public_csv(known), sparing=[*read, path])


def _write(path: Path, text: str, *, sparing: list[Path]) -> None:
    """Write a file, but never over what it was made of, and say where it is."""
    if path.resolve() in [kept.resolve() for kept in sparing]:
        raise BadCommand(f"this would overwrite {str(path)!r}; name another file")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be written: {error.strerror}") from None
    print(path)


def _known(options: argparse.Namespace) -> "Outcome":
    """What the transcript that a command names came to, with every signature checked."""
    from protocol.outcome.outcome import outcome
    from protocol.wire.transcript import load

    agreement = read_agreement(options.agreement)
    data = read_transcript(options.transcript, agreement)
    try:
        return outcome(agreement, load(agreement, data))
    except BadTranscript as error:
        raise BadTranscript(f"{options.transcript}: {error}") from None


if __name__ == "__main__":
    main()
