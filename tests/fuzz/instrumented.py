"""The process that fuzzes: atheris counts branches in our code and in the readers that it uses.

`tests.fuzz.__main__` starts it with the arguments of libFuzzer. Never here: what a target is.
"""

import sys

import atheris


def main() -> None:
    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(
        include=["protocol", "party", "tests.fuzz", "tomllib", "http.server", "http.client", "csv"]
    ):
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]()
        for seed in target.seeds():  # many readers are imported only when they are needed
            target.feed(seed)
    atheris.Setup([sys.argv[0], *arguments], target.feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
