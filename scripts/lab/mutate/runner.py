"""Runs the tests of a mutant in a child process that loads the changed module.

The parent has loaded the libraries once, so that a child starts fast. A child runs only the tests
that reach the changed lines, the fastest first, and stops at the first that fails.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest
from msgspec import Struct

from scripts.lab.mutate.operators import Mutant

OURS = ("protocol", "party", "coordinator", "scripts", "tests")
_OPTIONS = (
    *("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=line"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins that the parent has loaded
)


class Baseline(Struct, frozen=True):
    """What the tests of a group do without any change."""

    #: Seconds of each test.
    seconds: dict[str, float]
    #: The lines of each file that a test reaches.
    lines: dict[str, dict[str, list[int]]]
    #: Libraries that they load.
    libraries: list[str]

    def reaching(self, mutant: Mutant) -> list[str]:
        """Tests that run the changed lines, fastest first. All, if it changes the module itself."""
        tests = sorted(self.seconds, key=self.seconds.__getitem__)
        if not mutant.function or (mutant.function[0].isupper() and "." not in mutant.function):
            return tests
        wanted = set(mutant.lines)
        return [t for t in tests if wanted & set(self.lines[t].get(str(mutant.path), ()))]


class _Recorder:
    """A pytest plugin that notes which lines of the files each test runs."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self._names = {str(root / file): str(file) for file in files}
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[str, list[int]]] = {}
        self._reached: dict[str, set[int]] = {}

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = self._names.get(frame.f_code.co_filename)
        if name is None:
            return None
        self._reached.setdefault(name, set()).add(frame.f_lineno)
        return self._trace

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._reached = {}
        start = time.process_time()
        sys.settrace(self._trace)
        yield
        sys.settrace(None)
        self.seconds[item.nodeid] = time.process_time() - start
        self.lines[item.nodeid] = {name: sorted(found) for name, found in self._reached.items()}


def in_child(action: Callable[[], int], output: Path) -> int:
    """Start a process that runs an action; its number."""
    number = os.fork()
    if number:
        return number
    code = 70
    try:
        os.setsid()
        with output.open("wb") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        code = int(action())
    except BaseException as error:  # the child must end here, whatever happens
        with suppress(Exception):
            print(repr(error))
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def baseline(root: Path, files: Sequence[Path], tests: Sequence[str]) -> Baseline:
    """Run the tests of a group once, unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder) / "found.json", Path(folder) / "output"

        def run() -> int:
            recorder = _Recorder(root, files)
            code = int(pytest.main([*_OPTIONS, *tests], plugins=[recorder]))
            libraries = [n for n in sys.modules if n.partition(".")[0] not in OURS]
            path.write_text(json.dumps([recorder.seconds, recorder.lines, libraries]))
            return code

        _, status = os.waitpid(in_child(run, output), 0)
        if os.waitstatus_to_exitcode(status):
            raise SystemExit(f"the tests fail without any change:\n{output.read_text()[-3000:]}")
        return Baseline(*json.loads(path.read_text()))


def preload(libraries: Sequence[str]) -> None:
    """Load libraries once, before children are made."""
    for name in libraries:
        if name not in sys.modules and not name.startswith(("_", "pytest_")):
            with suppress(Exception):
                importlib.import_module(name)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a changed source."""

    def __init__(self, root: Path, mutant: Mutant) -> None:
        self._name = ".".join(mutant.path.with_suffix("").parts).removesuffix(".__init__")
        self._code: CodeType = compile(mutant.source, str(root / mutant.path), "exec")
        self._package = mutant.path.name == "__init__.py"

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002
        if name != self._name:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self._package)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)  # noqa: S102 - our own source


def start(root: Path, mutant: Mutant, tests: Sequence[str], output: Path) -> int:
    """Start the tests of a mutant in a child; its number."""

    def run() -> int:
        sys.meta_path.insert(0, _Changed(root, mutant))
        return int(pytest.main([*_OPTIONS, *tests]))

    return in_child(run, output)


def end(number: int) -> None:
    """End a child that takes too long, with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(number, signal.SIGKILL)
