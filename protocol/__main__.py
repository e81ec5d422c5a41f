"""The `protocol` command: what anybody can know with public files alone."""

import argparse
import json
from pathlib import Path

from protocol.agreement import TICKS, Agreement
from protocol.arrays import Ticks
from protocol.command import (
    add_command,
    command_line,
    read_agreement,
    read_transcript,
    run,
)
from protocol.errors import BadCommand
from protocol.forecast import forecast, statement
from protocol.transcript import Transcript, load, replay


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
    audit = add_command(
        commands,
        "audit",
        _audit,
        "verify the transcript of a session",
        "Check every signature, recompute every price, head and quota, and print the privacy\n"
        "statement. A single changed byte is found and located (exit code 9).",
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
    run(parser)


def _plan(options: argparse.Namespace) -> None:
    agreement = read_agreement(options.agreement)
    figures = forecast(agreement)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    _print_terms(agreement)
    print("noise (standard deviation, as a multiple of the capacity)")
    print(f"  one release of one party       {figures['party_release']:.4g}")
    print(f"  its average over all rounds    {figures['party_average']:.4g}")
    print(f"  one round's total of all       {figures['total_release']:.4g}")
    print(f"  its average over all rounds    {figures['total_average']:.4g}")
    if figures["theorem_gap"] is not None:
        print(f"expected gap of the best round   at most {figures['theorem_gap']:.4g} (theorem)")
        print(f"  with the step                  {figures['theorem_step']:.4g}")
    print(
        f"each party sends {figures['messages_per_party']} messages of "
        f"{figures['release_bytes']} bytes and receives {figures['messages_received']}"
    )
    print(f"\n{figures['verdict']}")


def _print_terms(agreement: Agreement) -> None:
    print(f"session    {agreement.session}   digest {agreement.digest.hex()}")
    print(
        f"terms      {len(agreement.members)} members, {len(agreement.resources)} resources, "
        f"{agreement.rounds} rounds, mode {agreement.mode}, step {agreement.pricing.step}"
    )
    print(f"privacy    {statement(agreement)}\n")


def _audit(options: argparse.Namespace) -> None:
    from protocol.quota import quota

    agreement, transcript = _read(options)
    position = replay(agreement, transcript)
    prices = position.final_prices
    split = quota(agreement, position)
    sealed = len(transcript.seals) == len(agreement.members)
    if options.json:
        names = [member.name for member in agreement.members]
        figures = {
            "digest": agreement.digest.hex(),
            "rounds": position.round,
            "head": position.head.hex(),
            "sealed": sealed,
            "prices": prices.tolist(),
            "quota": dict(zip(names, split.tolist(), strict=True)),
            "privacy": statement(agreement),
        }
        print(json.dumps(figures, indent=2))
        return
    _print_terms(agreement)
    count = position.round * len(agreement.members)
    print(
        f"{count} releases in {position.round} of {agreement.rounds} rounds: every signature fits"
    )
    print("every price and head recomputed: all stand on the same chain")
    print("sealed by all members" if sealed else "not sealed: the session was still going on")
    print(f"head       {position.head.hex()}")
    for resource, price in zip(agreement.resources, prices.tolist(), strict=True):
        print(f"price      {resource.name}: {price!r}")
    _print_quota(agreement, split)


def _print_quota(agreement: Agreement, split: Ticks) -> None:
    print("quota      in % of each capacity, which they fill exactly")
    first = max(len(member.name) for member in agreement.members)
    widths = [max(7, len(resource.name)) for resource in agreement.resources]
    head = (f"{r.name:>{w}}" for r, w in zip(agreement.resources, widths, strict=True))
    print(f"  {'':{first}}  {'  '.join(head)}")
    for member, row in zip(agreement.members, split.tolist(), strict=True):
        cells = (f"{q / TICKS:{w}.3%}" for q, w in zip(row, widths, strict=True))
        print(f"  {member.name:{first}}  {'  '.join(cells)}")


def _report(options: argparse.Namespace) -> None:
    from protocol.report import public_page

    page = public_page(*_read(options))
    path = options.out or options.transcript.with_suffix(".html")
    if path.resolve() in (options.transcript.resolve(), options.agreement.resolve()):
        raise BadCommand(f"the report would overwrite {str(path)!r}; name another file with --out")
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadCommand(f"{str(path)!r} cannot be written: {error.strerror}") from None
    print(path)


def _read(options: argparse.Namespace) -> tuple[Agreement, Transcript]:
    """The agreement and the transcript that a command names; every signature is checked."""
    agreement = read_agreement(options.agreement)
    return agreement, load(agreement, read_transcript(options.transcript))


if __name__ == "__main__":
    main()
