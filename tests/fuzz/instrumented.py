"""The process that fuzzes: atheris counts branches in our code and in the readers that it uses.

`tests.fuzz.__main__` starts it with the arguments of libFuzzer. Never here: what a target is.
"""

import sys

import atheris

with atheris.instrument_imports(
    include=["protocol", "party", "tests.fuzz", "tomllib", "http.server", "http.client", "csv"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, *arguments = sys.argv[1:]
    target = TARGETS[name]()
    atheris.Setup([sys.argv[0], *arguments], target.feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
