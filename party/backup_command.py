"""The commands `party backup` and `party restore`: parsing and help only."""

import argparse
from pathlib import Path

from party.options import add_shared, required_ledger
from protocol.runtime.cli import Commands, add_command


def add_backup_commands(commands: Commands) -> None:
    backup = add_command(
        commands,
        "backup",
        _backup,
        "copy your key and your ledger",
        "Copy your key, its .budget file and your ledger into a new folder. Needs no network. Do\n"
        "it after each session: an older copy cannot be used once you have released again.\n\n"
        "  party backup --key acme.key --out acme-copy\n\n"
        "While `party join` runs, the ledger cannot be copied: never copy its file by hand then,\n"
        "because its newest records are in another file. The copy is as secret as the key.",
        "0 copied; 2 the folder exists; 5 key; 6 the ledger is in use, damaged, or an old copy "
        "itself",
    )
    backup.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    restore = add_command(
        commands,
        "restore",
        _restore,
        "put a copy of your ledger in place",
        "Put a copy of your ledger in place, and your key if it is missing. Needs no network.\n\n"
        "  party restore --key acme.key --from acme-copy\n\n"
        "A copy that lacks a release is refused: the file acme.budget beside your key says how\n"
        "far the ledger went. Never replace that file by an older one. What is replaced is kept.\n"
        "\n"
        "With --accept-loss an old copy is accepted. Without --from it accepts the ledger that is\n"
        "there, or begins an empty one. What the ledger does not know is then counted nowhere:\n"
        "your privacy budget no longer covers it.",
        "0 restored; 2 wrong option, or nothing to restore; 5 key; 6 the copy is old or damaged, "
        "or the ledger is in use",
    )
    restore.add_argument(
        "--from", type=Path, dest="source", metavar="DIR", help="the folder of `party backup`"
    )
    restore.add_argument(
        "--accept-loss", action="store_true", help="accept that releases are counted nowhere"
    )
    for parser in (backup, restore):
        add_shared(parser, "--key", "--ledger")


def _backup(options: argparse.Namespace) -> None:
    from party.backup import backup

    for line in backup(options.key, required_ledger(options), options.out):
        print(line)


def _restore(options: argparse.Namespace) -> None:
    from party.backup import restore

    for line in restore(
        options.key, required_ledger(options), options.source, accept_loss=options.accept_loss
    ):
        print(line)
