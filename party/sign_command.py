"""The command `party sign`: parsing, help, and the file that it writes."""

import argparse
from pathlib import Path

from party.options import add_shared
from protocol.errors import BadCommand
from protocol.runtime.cli import Commands, add_command
from protocol.runtime.files import read_agreement, write_new

SESSIONS, WITHIN = 52, 0.2


def add_sign(commands: Commands) -> None:
    parser = add_command(
        commands,
        "sign",
        _sign,
        "sign an agreement before the session",
        "Sign an agreement, so that everyone can check that you agreed to it. Sends nothing.\n\n"
        "  party sign --agreement agreement.toml --key acme.key\n\n"
        "You get acme.SESSION.approval.toml, which is public: send it to the convener. `protocol\n"
        "plan` and `protocol audit` show with --approvals who has signed.\n\n"
        "With --standing it also covers the next sessions of the series, trucks-43 after\n"
        "trucks-42: the same members, keys and terms, with other capacities within the limit.\n"
        "`party join --follow` takes part in such sessions, and in no others.\n\n"
        "  party sign --agreement trucks-42.toml --key acme.key --standing",
        "0 written; 2 wrong option, or the file exists; 3 agreement; 5 key",
    )
    add = parser.add_argument
    add_shared(parser, "--agreement", "--key")
    add("--standing", action="store_true", help="also agree to the next sessions of the series")
    add("--sessions", type=int, metavar="N",
        help=f"with --standing: how many next sessions ({SESSIONS})")  # fmt: skip
    add("--capacity-within", type=float, metavar="FRACTION",
        help="with --standing: how far each capacity may be from this agreement's, as a fraction "
        f"of it ({WITHIN})")  # fmt: skip
    add("--out", type=Path, metavar="FILE",
        help="where to write (NAME.SESSION.approval.toml beside the key)")  # fmt: skip


def _sign(options: argparse.Namespace) -> None:
    from party import keys
    from protocol.runtime.approvals import ENDING
    from protocol.wire.approval import approve, in_series, numbered, written

    last, within = _limits(options)
    agreement = read_agreement(options.agreement)
    identity = keys.load(options.key)
    identity.belongs_to(agreement)
    if last:
        last += numbered(agreement.session)[1]
    approval = approve(agreement, identity.name, identity.sign, last=last, within=within)
    out = options.out or options.key.parent / f"{identity.name}.{agreement.session}{ENDING}"
    if out.exists():
        raise BadCommand(
            f"{str(out)!r} exists already: it is an approval of this session, and is not "
            "overwritten. Move it away if the new one replaces it. Or give the new one another "
            "name with --out, and use that name for --approval with --follow"
        )
    write_new(out, written(approval))
    print(f"{out}: you agree to {agreement.session!r}, digest {agreement.digest.hex()}")
    if last:
        print(
            f"It also covers the sessions up to {in_series(agreement.session, last)!r} with the "
            f"same terms, and capacities within {100.0 * within:g} % of these."
        )
    print("It is public: send it to the convener.")


def _limits(options: argparse.Namespace) -> tuple[int, float]:
    """How many next sessions are agreed to, and how far capacities may be off."""
    if not options.standing:
        for name in ("sessions", "capacity_within"):
            if getattr(options, name) is not None:
                raise BadCommand(f"--{name.replace('_', '-')} is for --standing only; leave it out")
        return 0, 0.0
    count = SESSIONS if options.sessions is None else options.sessions
    within = WITHIN if options.capacity_within is None else options.capacity_within
    if not 1 <= count <= 10_000:
        raise BadCommand("--sessions must be from 1 to 10000")
    if not 0.0 <= within <= 1.0:
        raise BadCommand("--capacity-within must be a fraction from 0 to 1")
    return count, within
