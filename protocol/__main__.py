"""The `protocol` command: what anyone can know from public files alone."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import (
    BadCommand,
    BadTranscript,
    DifferentAgreement,
    Incomplete,
    Inconsistent,
    NoTrade,
    Unbound,
    Unsealed,
)
from protocol.runtime.cli import add_command, command_line, fitted, run
from protocol.runtime.files import read_agreement, read_transcript, writing

if TYPE_CHECKING:  # each command imports what it needs, so that it starts fast
    from protocol.agreement.model import Agreement
    from protocol.outcome.outcome import Outcome
    from protocol.runtime.approvals import Approvals

_PLAN = """\
Say what an agreement means before you sign it: what others see, what is guaranteed, how much is
sent, and what invented companies gain under these terms, in money. Needs no private data. The page
also has a part for counsel: which information is exchanged, with whom, and what never is.

example:
  protocol plan agreement.toml
  protocol plan agreement.toml --html plan.html    a page to send to all companies"""

_DIFF = """\
Say in words which terms of two agreements differ. Use it when a member has another digest, and
before you sign a changed agreement.

example:
  protocol diff agreement.toml theirs.toml"""

_AUDIT = """\
Check every signature of a transcript, recompute every price, chain hash and quota, and print
the outcome and the privacy statement. Compare the digest and the chain hash with those in
your own report.

example:
  protocol audit session.transcript --agreement agreement.toml"""

_REPORT = """\
Verify a transcript as `protocol audit` does, and write its outcome as one HTML page. The page
loads nothing from anywhere. It holds public numbers only: you can print it and send it on.

example:
  protocol report session.transcript --agreement agreement.toml --csv outcome.csv"""


_SETTLE = """\
Settle a session: verify the claims of its members, and write who pays, who is paid, and who may
use how much.

  protocol settle --agreement agreement.toml --transcript session.transcript *.claim

You get settlement.html to print and sign, settlement.json, payments.csv and quotas.csv. The
payments of all members add up to zero, to the cent. If single releases are public, no claims are
needed. With noise nothing binds a member to what it claims: the command checks limits and sums, and
says what it cannot check. With the exit codes 17 and 25, and with noise also 16, the files are
written from the claims that count."""

_KEYGEN = """\
Make the key of a clearing office, or of someone who runs a resource.

  protocol keygen depot

You get depot.key, which is secret and stays here, and depot.role.toml, which you send to the
convener. Members then encrypt their claims for you."""


def main() -> None:
    parser, commands = command_line(
        "protocol", "Plan, audit and report sessions from public files."
    )
    plan = add_command(commands, "plan", _plan, "what an agreement means before you join", _PLAN,
        "0 the agreement is valid; 2 the command line is wrong, or the page cannot be written; "
        "3 the agreement is not valid")  # fmt: skip
    plan.add_argument("agreement", type=Path, metavar="AGREEMENT", help="the agreement file")
    plan.add_argument("--json", action="store_true", help="print the figures as JSON")
    plan.add_argument("--html", type=Path, metavar="FILE",
        help="write a page to send to all companies; it also shows what sessions of invented "
        "companies gave")  # fmt: skip
    _add_approvals(plan)
    diff = add_command(commands, "diff", _diff, "which terms of two agreements differ", _DIFF,
        "0 the same terms, so the same digest (other addresses are shown); 3 an agreement is not "
        "valid; 12 terms differ")  # fmt: skip
    for name, which in (("first", "one agreement file"), ("second", "the other one")):
        diff.add_argument(name, type=Path, metavar="AGREEMENT", help=which)
    audit = add_command(commands, "audit", _audit, "verify the transcript of a session", _AUDIT,
        "0 valid, complete and sealed by all members; 9 not valid: the message says which byte or "
        "round; 16 valid and sealed, but commitments do not add up: claims prove nothing; 21 valid "
        "and complete, but seals of members are missing; 22 valid, but it stops before the end of "
        "the session; 23 valid and sealed, but the session ended without trade; 24 valid and "
        "sealed, but answers contradict each other, with or without trade")  # fmt: skip
    _add_session(audit)
    audit.add_argument("--json", action="store_true", help="print the figures as JSON")
    _add_approvals(audit)
    report = add_command(commands, "report", _report, "write a page about a session", _REPORT,
        "0 the page is written, even if the session is not finished (the page then says so); 2 the "
        "command line is wrong, or a file cannot be written; 9 the transcript is not "
        "valid")  # fmt: skip
    _add_session(report)
    report.add_argument("--out", type=Path, metavar="FILE",
        help="where to write the page (TRANSCRIPT with the ending .html)")  # fmt: skip
    report.add_argument("--csv", type=Path, metavar="FILE",
        help="also write prices, quotas and payments for a spreadsheet")  # fmt: skip
    settle = add_command(commands, "settle", _settle, "who pays, and who may use how much", _SETTLE,
        "0 all is settled; 9 the transcript does not verify; 16 commitments do not add up, or with "
        "noise what the members state; 17 a claim is false, given twice, or for another session or "
        "recipient; 21 not sealed; 25 claims are missing")  # fmt: skip
    _add_agreement(settle)
    settle.add_argument("--transcript", type=Path, required=True, metavar="FILE",
        help="session.transcript of any member")  # fmt: skip
    settle.add_argument("claims", nargs="*", type=Path, metavar="CLAIM",
        help="claim files; none if quotas are public")  # fmt: skip
    settle.add_argument("--key", type=Path, metavar="FILE",
        help="your secret key, if claims are encrypted for you")  # fmt: skip
    settle.add_argument("--used", type=Path, metavar="FILE",
        help="what members used: CSV with member, resource and amount")  # fmt: skip
    settle.add_argument("--out", type=Path, metavar="DIR",
        help="where to write (SESSION-settlement)")  # fmt: skip
    keygen = add_command(commands, "keygen", _keygen, "make a key that claims are encrypted for",
        _KEYGEN, "0 written; 2 wrong name, or the file exists; "
        "5 the key file exists")  # fmt: skip
    keygen.add_argument("name", metavar="NAME", help="your name in the agreement")
    keygen.add_argument("--dir", type=Path, default=Path(), help="where to write (here)")
    run(parser)


def _settle(options: argparse.Namespace) -> None:
    from protocol.settle_command import settle

    settle(options, _outcome(options))


def _keygen(options: argparse.Namespace) -> None:
    from protocol.runtime.role_keys import keygen

    key, role = keygen(options.name, options.dir)
    print(f"{key}: secret; keep it on this machine\n{role}: send it to the convener")


def _add_session(command: argparse.ArgumentParser) -> None:
    command.add_argument("transcript", type=Path, metavar="TRANSCRIPT",
        help="session.transcript of any member")  # fmt: skip
    _add_agreement(command)


def _add_agreement(command: argparse.ArgumentParser) -> None:
    command.add_argument("--agreement", type=Path, required=True, metavar="FILE",
        help="the agreement that the members signed")  # fmt: skip


def _add_approvals(command: argparse.ArgumentParser) -> None:
    command.add_argument("--approvals", type=Path, metavar="DIR",
        help="show who has approved the agreement: a folder with the files of `party sign`, and "
        "the standing agreement if they name one")  # fmt: skip


def _approved(options: argparse.Namespace, agreement: "Agreement") -> "Approvals | None":
    """The approvals in the folder that is named, if one is."""
    if options.approvals is None:
        return None
    from protocol.runtime.approvals import read_approvals

    return read_approvals(options.approvals, agreement)


def _diff(options: argparse.Namespace) -> None:
    from protocol.agreement.differences import differences, in_words

    first, second = read_agreement(options.first), read_agreement(options.second)
    found = differences(first, second)
    terms = [difference for difference in found if difference.binding]
    others = [difference for difference in found if not difference.binding]
    print(*(f"{path}: digest {agreement.digest.hex()}" for path, agreement in (
        (options.first, first), (options.second, second))), sep="\n")  # fmt: skip
    print(*in_words(terms), sep="\n", end="\n" if terms else "")
    if others:
        print("not part of the digest, so the same agreement:", *in_words(others), sep="\n  ")
    if terms:
        count = "1 term differs" if len(terms) == 1 else f"{len(terms)} terms differ"
        raise DifferentAgreement(f"{count}; agree on one file, and send it to all members")
    print("the terms are the same")


def _plan(options: argparse.Namespace) -> None:
    from protocol.planning.verdict import plan_figures
    from protocol.report.terminal import plan_text

    agreement = read_agreement(options.agreement)
    figures = plan_figures(agreement)
    if approved := _approved(options, agreement):
        figures |= {"approvals": approved.lines()}
    if options.html is not None:
        from protocol.report.plan import plan_page
        from protocol.report.plan_trials import variants

        page = plan_page(agreement, figures, variants(agreement, figures))
        _write(options.html, page, inputs=[options.agreement])
        return
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print(fitted(plan_text(agreement, figures), sys.stdout))
    from protocol.planning.synthetic_market import expected
    from protocol.report.format import plain
    from protocol.report.plan_trials import gain_in_money

    print(fitted(plain(gain_in_money(agreement, expected(agreement))), sys.stdout))


def _audit(options: argparse.Namespace) -> None:
    from protocol.report.terminal import audit_figures, audit_text

    outcome = _outcome(options)
    approved = _approved(options, outcome.agreement)
    if options.json:
        shown = {} if approved is None else {"approvals": approved.given}
        print(json.dumps(audit_figures(outcome) | shown, indent=2))
    else:
        text = "\n".join([audit_text(outcome), *(approved.lines() if approved else ())])
        print(fitted(text, sys.stdout))
    if not outcome.state.over:
        raise Incomplete(
            f"the transcript stops after {outcome.rounds} of {outcome.agreement.rounds} rounds, "
            "before the end of the session; ask a member for a later copy"
        )
    if not outcome.sealed:
        raise Unsealed(
            "seals of members are missing, so this outcome binds no member; ask a member that has "
            "finished for its copy"
        )
    committed = outcome.state.committed
    if committed is not None and not committed.adds_up:
        raise Unbound("the commitments of the members do not add up, so claims prove nothing")
    if outcome.inconsistencies:
        named = ", ".join(found.member for found in outcome.inconsistencies if found.member)
        raise Inconsistent(
            "answers contradict each other by more than the agreement allows "
            f"({named or 'masks hide whose'}); the lines above say in which rounds and by how much"
        )
    if outcome.no_trade:
        raise NoTrade("the session ended without trade; the lines above say why")


def _report(options: argparse.Namespace) -> None:
    from protocol.report.csv import public_csv
    from protocol.report.public import public_page

    outcome = _outcome(options)
    path = options.out or options.transcript.with_suffix(".html")
    inputs = [options.transcript, options.agreement]
    _write(path, public_page(outcome), inputs=inputs)
    if options.csv is not None:
        _write(options.csv, public_csv(outcome), inputs=[*inputs, path])


def _write(path: Path, text: str, *, inputs: list[Path]) -> None:
    """Write a file, but never over an input of the command, and print its path."""
    if path.resolve() in [file.resolve() for file in inputs]:
        raise BadCommand(f"this would overwrite {str(path)!r}; name another file")
    with writing(path):
        path.write_text(text, encoding="utf-8")
    print(path)


def _outcome(options: argparse.Namespace) -> "Outcome":
    """The outcome of the transcript of a command, with every signature checked."""
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
