"""Takes the screenshot for the README from a session of `scripts/demo`:

    scripts/demo --dir valley
    scripts/environment python -m tests.support.screenshot valley/totals scripts/results/page.webp

The real page receives the messages of that session up to a round, in a real browser. Public
numbers only.
"""

import argparse
import tempfile
from pathlib import Path

from coordinator.collector import RoundCollector
from coordinator.live_page import LivePage
from coordinator.progress import SessionProgress
from protocol.runtime.cli import run
from protocol.runtime.files import read_agreement
from protocol.wire.transcript import load
from tests.support.browser import Browser
from tests.support.wait import until

WIDTH, HEIGHT = 1_030, 1_200


def picture(folder: Path, *, round: int, width: int, height: int) -> bytes:  # noqa: A002
    """The page of the coordinator after a round of the session in `folder`, as a WebP image."""
    agreement = read_agreement(folder / "agreement.toml")
    name = agreement.members[0].name
    transcript = load(agreement, (folder / name / "out" / "session.transcript").read_bytes())
    collector = RoundCollector(agreement)
    with LivePage(agreement, 0, collector) as page, tempfile.TemporaryDirectory() as profile:
        progress = SessionProgress(agreement, collector, page.also(lambda _: None), now=0.0)
        for signed in (
            s for exchange in (transcript.keys, *transcript.rounds[:round]) for s in exchange
        ):
            collected = collector.collect(signed, 0.0)
            progress.add(signed.message, signed.message.sender, collected, 0.0)
            page.add(collected.closed)
        page.update(progress)
        with Browser(Path(profile)) as browser:
            browser.visit(page.address, width=width, height=height, mobile=width < 600)
            closed = f"document.body.innerText.includes('Round {round} is closed')"
            until(lambda: browser.measure(closed), f"round {round} is on the page")
            return browser.picture(height=height)


def _take(options: argparse.Namespace) -> None:
    image = picture(options.folder, round=options.round, width=options.width, height=options.height)
    options.file.write_bytes(image)
    print(f"{options.file}: {len(image) // 1000} kB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.screenshot", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of one session of scripts/demo --dir")
    parser.add_argument("file", type=Path, help="where to write the image")
    parser.add_argument("--round", type=int, default=18, help="(%(default)s)")
    parser.add_argument("--width", type=int, default=WIDTH, help="(%(default)s)")
    parser.add_argument("--height", type=int, default=HEIGHT, help="(%(default)s)")
    parser.set_defaults(run=_take)
    run(parser)


if __name__ == "__main__":
    main()
