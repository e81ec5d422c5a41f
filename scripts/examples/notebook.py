"""Runs a notebook in a kernel of its own, as Jupyter does, and prints what its cells show.

`python -m scripts.examples.notebook` runs the tutorial. It needs no browser.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
TUTORIAL = Path(__file__).with_name("tutorial.ipynb")
CELL_SECONDS = 300


def run(path: Path, *more: str) -> list[str]:
    """Run all cells, and more after them, from the project's folder. What each one shows.

    Raises `nbclient.exceptions.CellExecutionError` at the first cell that fails.
    """
    formats: Any = nbformat  # it ships partial types
    notebook = formats.read(path, as_version=4)
    notebook.cells += [formats.v4.new_code_cell(text) for text in more]
    resources = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=CELL_SECONDS, resources=resources).execute()
    return ["".join(map(_text, c.outputs)) for c in notebook.cells if c.cell_type == "code"]


def _text(output: Any) -> str:
    """What a reader of the notebook would see of an output, as plain text."""
    if output.output_type == "stream":
        return str(output.text)
    return str(output.get("data", {}).get("text/plain", "")) + "\n"


if __name__ == "__main__":
    print(*run(Path(sys.argv[1]) if len(sys.argv) > 1 else TUTORIAL), sep="\n")
