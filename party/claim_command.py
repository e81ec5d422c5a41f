"""The commands `party claim` and `party forget`: parsing and help only."""

import argparse
from pathlib import Path

from party.options import add_shared, required_ledger
from protocol.errors import BadCommand
from protocol.runtime.cli import Commands, add_command
from protocol.runtime.files import read_agreement


def add_claim_commands(commands: Commands) -> None:
    claim = add_command(
        commands,
        "claim",
        _claim,
        "show a depot your quota, or a clearing office your payment",
        "Write a claim from your ledger. It opens one number that you committed to, and nothing\n"
        "else. With noise there are no commitments: the claim states your number, and nothing\n"
        "proves it. Needs no network.\n\n"
        "  party claim --agreement agreement.toml --key acme.key --for hours\n"
        "  party claim --agreement agreement.toml --key acme.key --payment\n\n"
        "If the agreement names a recipient, only that recipient can read the file, so that you\n"
        "can send it by e-mail. Otherwise give it to the recipient only.\n\n"
        "If your ledger lacks seals that another member has, name that member's transcript.",
        "0 written; 2 no such resource, no claims in this session, or the file exists; 5 key; "
        "6 ledger; 15 abandoned; 21 the session is not sealed",
    )
    what = claim.add_mutually_exclusive_group(required=True)
    what.add_argument("--for", dest="resource", metavar="RESOURCE", help="your quota of it")
    what.add_argument("--payment", action="store_true", help="your payment")
    add_shared(claim, "--key")
    claim.add_argument("--out", type=Path, metavar="FILE",
        help="file or folder (SESSION+NAME+RESOURCE.claim or +payment.claim)")  # fmt: skip
    claim.add_argument("--transcript", type=Path, metavar="FILE",
        help="another member's transcript, if your ledger lacks seals")  # fmt: skip
    forget = add_command(
        commands,
        "forget",
        _forget,
        "destroy the secrets behind claims",
        "Destroy the secrets behind your claims, once you have made all claims. This destroys the\n"
        "fingerprint of your model too, by which `party result` notices another model. It is\n"
        "final.\n\n"
        "  party forget --agreement agreement.toml --key acme.key --yes",
        "0 destroyed; 2 without --yes, or the session has not ended; 6 ledger",
    )
    forget.add_argument("--key", type=Path, metavar="FILE", help="your key file")
    forget.add_argument("--yes", action="store_true", help="you have made all claims")
    for parser in (claim, forget):
        add_shared(parser, "--agreement", "--ledger")


def _claim(options: argparse.Namespace) -> None:
    from party.claim_file import write_claim

    _, line = write_claim(
        read_agreement(options.agreement),
        key=options.key,
        ledger=required_ledger(options),
        resource=None if options.payment else options.resource,
        out=options.out,
        transcript=options.transcript,
    )
    print(line)


def _forget(options: argparse.Namespace) -> None:
    from party.claim_file import forget

    agreement, ledger = read_agreement(options.agreement), required_ledger(options)
    if not options.yes:
        raise BadCommand(
            "nothing was changed. This command destroys the secrets behind claims: if you have "
            "made all claims, run it again with --yes"
        )
    print(forget(agreement, ledger))
