"""The command line of every example: write the model, and join a session with it.

Nothing here knows a model or a tool. Joining is left to `party join`, as for any other file.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.processes import join_command


def run(write: Callable[[Path], None], suffix: str) -> None:
    """Have `write` write the model, and join with it if an agreement is given."""
    parser = argparse.ArgumentParser(
        description="Write a company's model to MODEL_FILE; or, with the other three options, "
        f"write it beside DIR as DIR{suffix} and join a session with it."
    )
    add = parser.add_argument
    add("model", nargs="?", type=Path, metavar="MODEL_FILE", help=f"ends in {suffix}")
    add("--agreement", type=Path, metavar="FILE")
    add("--key", type=Path, metavar="FILE", help="from `party keygen`")
    add("--out", type=Path, metavar="DIR", help="for result and plan")
    options = parser.parse_args()
    joins = [value is not None for value in (options.agreement, options.key, options.out)]
    if any(joins) != all(joins) or (options.model is None) != all(joins):
        parser.error("give either MODEL_FILE, or all of --agreement, --key and --out")
    path: Path = options.model or options.out.with_name(options.out.name + suffix)
    if path.suffix != suffix:
        parser.error(f"{str(path)!r} must end in {suffix}: the tool writes this format")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path)
    if not all(joins):
        print(f"{path}: written; it stays here. Before joining with it, say")
        print(f"    party check --agreement agreement.toml --data {path} --as NAME")
        return
    command = join_command(agreement=options.agreement, data=path, key=options.key, out=options.out)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - signals and exit code are those of `party join`
