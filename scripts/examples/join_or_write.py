"""The command line of every example: write the model to a file, or join a session with it.

Independent of models and tools. `party.api.join` takes the tool's own model object.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from party.api import join
from protocol.errors import BadCommand
from protocol.runtime.cli import run as start


def run(build: Callable[[], Any], write: Callable[[Path], None], suffix: str) -> None:
    """Write the model with `write`; or, with an agreement, join with the model of `build`."""
    parser = argparse.ArgumentParser(
        description="Write a company's model to MODEL_FILE; or, with the other three options, "
        "join a session with it."
    )
    add = parser.add_argument
    add("model", nargs="?", type=Path, metavar="MODEL_FILE", help=f"ends in {suffix}")
    add("--agreement", type=Path, metavar="FILE")
    add("--key", type=Path, metavar="FILE", help="key file from `party keygen`")
    add("--out", type=Path, metavar="DIR", help="folder for report, plan and result")
    parser.set_defaults(run=lambda options: _chosen(options, build, write, suffix))
    start(parser)


def _chosen(
    options: argparse.Namespace,
    build: Callable[[], Any],
    write: Callable[[Path], None],
    suffix: str,
) -> None:
    joins = [value is not None for value in (options.agreement, options.key, options.out)]
    if any(joins) != all(joins) or (options.model is None) != all(joins):
        raise BadCommand("give either MODEL_FILE, or all of --agreement, --key and --out")
    if all(joins):
        _join(options, build())
        return
    path: Path = options.model
    if path.suffix != suffix:
        raise BadCommand(f"{str(path)!r} must end in {suffix}: the tool writes this format")
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path)
    print(f"{path}: written. Check it before you join:")
    print(f"    party check --agreement agreement.toml --data {path} --as NAME")


def _join(options: argparse.Namespace, model: Any) -> None:
    result = join(options.agreement, model, key=options.key, out=options.out, progress=True)
    for name, amount in result.quota.items():
        print(f"{name}: {amount:.6g} of it may be used, at {result.prices[name]:.6g} a unit")
    if result.plan is None:
        print(f"the quota is too small for any plan: see {options.out / 'report.html'}")
        return
    money = f"{'to receive' if result.payment < 0.0 else 'to pay'} {abs(result.payment):.6g}"
    print(f"the plan earns {result.utility:.6g}; {money}; in use:")
    for variable, value in result.plan.items():
        if value:
            print(f"  {variable} = {value:.6g}")
