"""Runs the code cells of a notebook in order, with `await` at the top level as in Jupyter.

`python -m scripts.examples.notebook` runs the tutorial and prints what its cells show. It needs no
Jupyter, so that tests can run the tutorial as it is.
"""

import ast
import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).with_name("tutorial.ipynb")


def cells(path: Path) -> list[str]:
    """The text of each code cell."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in content["cells"] if c["cell_type"] == "code"]


async def run(path: Path) -> dict[str, Any]:
    """Run all cells; the names that they define. A cell that ends with a value shows it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path), 1):
        tree = ast.parse(cell)
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None:
            tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], last.value)
            ast.fix_missing_locations(tree)
        code = compile(tree, f"{path.name}, cell {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)  # noqa: S307 - a notebook of this project
        if inspect.isawaitable(done):
            await done
        if last is not None and names["_"] is not None:
            print(names["_"])
    return names


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]) if len(sys.argv) > 1 else TUTORIAL))
