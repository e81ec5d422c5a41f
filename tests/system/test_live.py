"""The page of a running session: what it shows, to whom, and that it delays nothing."""

import json
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import Struct

from coordinator.collector import RoundCollector
from coordinator.live_page import LivePage
from coordinator.progress import SessionProgress
from party.ui.console import ProgressView
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.report.format import figure
from protocol.report.live import Live
from protocol.report.live_sections import POINTS, SENTENCES, Trail
from protocol.rounds import RoundEngine, RoundState, excess_demand, numbers
from protocol.runtime.page_server import READERS, PageServer
from protocol.wire.messages import MAX_ROUND, Signed
from protocol.wire.transcript import Transcript
from scripts.lab.common.local_session import coordinator_command, environment, party_command
from tests.support import ROOT
from tests.support.browser import Browser
from tests.support.builders import make_agreement, play
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.session_harness import lying
from tests.support.wait import LIMIT, until

SCRIPT = "<script>alert(1)</script>"
PLACE = "for-the-operator-only"

WIDTHS = pytest.mark.parametrize(
    ("width", "mobile"), [(390, True), (1280, False), (1920, False)], ids=["phone", "desk", "wall"]
)


@cache
def rounds_with_excess() -> tuple[Agreement, tuple[RoundState, ...], tuple[Any, ...]]:
    """A session under the centre rule whose members ask for too much at first."""
    agreement = make_agreement(
        rounds=40,
        currency="EUR",
        prices={},
        resource=[
            {"name": "hours", "capacity": 120.0, "unit": SCRIPT},
            {"name": "docks", "capacity": 16.0},
        ],
    )
    engine = RoundEngine(agreement)
    positions, rounds = [engine.opening], list[Any]()
    rng = np.random.default_rng(1)
    while len(rounds) < 12 and not positions[-1].over:
        wanted = rng.uniform(0.1, 0.7, (len(agreement.members), agreement.width))
        rounds.append((wanted * agreement.ticks).astype(np.int64))
        positions.append(engine.advance(positions[-1], rounds[-1]))
    return agreement, tuple(positions), tuple(rounds)


def close_rounds(live: Live, first: int, last: int) -> None:
    """Close these rounds of `rounds_with_excess` on the page."""
    agreement, positions, rounds = rounds_with_excess()
    live.presence((m.name for m in agreement.members), {})
    for number in range(first, last):
        live.closed(number + 1, excess_demand(agreement, rounds[number]), positions[number + 1])


@contextmanager
def opened(live: Live, **how: Any) -> Iterator[PageServer]:
    with closing(PageServer(live, **{"port": 0, **how})) as window:
        yield window


def get(address: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(address, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class Reader:
    """Reads all updates of a page in a thread."""

    def __init__(self, address: str) -> None:
        self.updates: list[dict[str, Any]] = []
        self._stream = urllib.request.urlopen(f"{address}events", timeout=LIMIT)  # noqa: S310
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                if line.startswith(b"data: "):
                    self.updates.append(json.loads(line[6:]))

    def wait(self) -> dict[str, Any]:
        """The last update, once the stream has ended."""
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self.updates[-1]


def shows(browser: Browser, text: str) -> Callable[[], bool]:
    """Whether this text is on the page now."""
    words = json.dumps(text)
    return lambda: bool(browser.measure(f"document.body.innerText.includes({words})"))


def count_elements(browser: Browser, which: str) -> int:
    """How many elements of the page match a selector now."""
    return int(browser.measure(f"document.querySelectorAll({json.dumps(which)}).length"))


@WIDTHS
def test_page_follows_the_session(browser: Browser, width: int, mobile: bool) -> None:
    """Arrivals, rounds, prices, certificate and troubles appear without a reload."""
    agreement, positions, rounds = rounds_with_excess()
    live = Live(agreement)
    with opened(live) as window:
        asked = browser.visit(window.address, width=width, height=844, mobile=mobile)
        until(shows(browser, "Waiting for ada, ben and cyd."), "the page says who is missing")
        browser.measure("window.kept = 1")
        live.presence(["ada"], {"ben": "not seen yet", "cyd": "away since 17:00"})
        text = "Waiting for ben (not seen yet) and cyd (away since 17:00)."
        until(shows(browser, text), "the page says who is here and who has left")
        assert count_elements(browser, ".people .here") == 1
        assert count_elements(browser, ".people .away") == 2
        close_rounds(live, 0, 6)
        until(shows(browser, "Round 6 is closed."), "the rounds are on the page")
        assert count_elements(browser, "svg.chart") == 5, "certificate, two prices, two totals"
        live.trouble("Waiting for ben.")
        until(shows(browser, "Waiting for ben."), "the trouble is on the page")
        close_rounds(live, 6, 9)
        until(shows(browser, "Round 9 is closed."), "the rounds go on")
        assert not shows(browser, "Waiting for ben.")()
        asked_for = excess_demand(agreement, rounds[8])
        assert count_elements(browser, ".bar .above") == int((asked_for > 0.0).sum())
        price = positions[9].prices.current.tolist()[1]
        assert shows(browser, f"{figure(price)} EUR")()
        assert browser.outside() == []
        assert browser.measure("window.kept") == 1, "the page was loaded anew"
        assert shows(browser, SCRIPT)()
        assert browser.measure("document.querySelectorAll('script').length") == 1
        asked |= browser.asked
    assert asked == {window.address, f"{window.address}events"}


def test_running_page_can_be_printed(browser: Browser) -> None:
    """A print has the charts, and no warning of a lost connection."""
    live = Live(rounds_with_excess()[0])
    close_rounds(live, 0, 5)
    with opened(live) as window:
        browser.visit(window.address, width=794, height=1123, mobile=False)
        with browser.on_paper() as size:
            lost = browser.measure("document.getElementById('lost').checkVisibility()")
    assert size > 20_000
    assert not lost


def test_warning_of_a_lost_connection_is_hidden_at_first() -> None:
    """A page that is just opened does not say that the connection is lost."""
    page = Live(rounds_with_excess()[0]).page()
    assert re.search(r'<p class="callout"[^>]* hidden[ >=]', page)


def test_page_survives_a_lost_connection(browser: Browser) -> None:
    """Without its process the page says so and keeps its content; later it catches up."""
    live = Live(rounds_with_excess()[0])
    close_rounds(live, 0, 2)
    with opened(live) as window:
        port = int(window.address.split(":")[2].rstrip("/"))
        browser.visit(window.address, width=1280, height=844, mobile=False)
        until(shows(browser, "Round 2 is closed."), "the page is up to date")
    until(shows(browser, "is lost"), "the page says that the connection is lost")
    assert shows(browser, "Round 2 is closed.")()
    close_rounds(live, 2, 7)
    with opened(live, port=port):
        until(shows(browser, "Round 7 is closed."), "the page catches up")
        assert not shows(browser, "is lost")()


def test_page_has_a_secret_address() -> None:
    """Without the exact secret in the address there is nothing."""
    live = Live(rounds_with_excess()[0], member="ada")
    with opened(live, secret=PLACE) as window:
        root = window.address.removesuffix(f"{PLACE}/")
        assert get(window.address)[0] == 200
        for place in ("", "events", PLACE, f"{PLACE[:-1]}/", f"{PLACE}x/", f"{PLACE}/x", "%2e"):
            status, text = get(root + place)
            assert (status, text) == (404, "there is nothing here\n")


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1"]
)
def test_other_host_names_show_nothing(name: str) -> None:
    """A foreign host name that points to this machine shows nothing."""
    with opened(Live(rounds_with_excess()[0])) as window:
        port = window.address.split(":")[2].rstrip("/")
        assert get(window.address, Host=name.format(port=port))[0] == 404
        assert get(window.address, Host=f"localhost:{port}")[0] == 200


def test_page_is_for_this_machine_only() -> None:
    """The page listens on loopback, answers only GET, and cannot be embedded."""
    with opened(Live(rounds_with_excess()[0])) as window:
        assert window.address.startswith("http://127.0.0.1:")
        request = urllib.request.Request(window.address, method="POST", data=b"x")  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=LIMIT)  # noqa: S310
        assert refused.value.code == 501
        refused.value.close()
        with urllib.request.urlopen(window.address, timeout=LIMIT) as answer:  # noqa: S310
            headers, text = answer.headers, answer.read().decode()
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"|content="([^"]*)" http', text)
    assert policy is not None
    assert "default-src 'none'" in policy[0]
    assert "connect-src 'self'" in policy[0]


def test_unusable_port_is_an_error() -> None:
    """A port that is taken or does not exist is refused with the name of the option."""
    with opened(Live(rounds_with_excess()[0])) as window:
        port = int(window.address.split(":")[2].rstrip("/"))
        with pytest.raises(BadCommand, match=f"--page {port}"):
            PageServer(Live(rounds_with_excess()[0]), port=port)
    with pytest.raises(BadCommand, match="no such port"):
        PageServer(Live(rounds_with_excess()[0]), port=70_000)


def test_reader_that_takes_nothing_is_dropped() -> None:
    """A reader that does not read is dropped and delays no change."""
    live = Live(rounds_with_excess()[0])
    with opened(live) as window:
        port = int(window.address.split(":")[2].rstrip("/"))
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            lazy.connect(("127.0.0.1", port))
            lazy.send(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            until(lambda: window.readers == 1, "the reader is there")

            def dropped() -> bool:
                live.trouble(f"{live.version}" * 100_000)
                return window.readers == 0

            until(dropped, "the reader is dropped")


@contextmanager
def connections(window: PageServer, count: int, says: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections to a page that send some bytes and then nothing more."""
    port = int(window.address.split(":")[2].split("/")[0])
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LIMIT))
            for _ in range(count)
        ]
        for connection in held:
            with suppress(OSError):  # one that had to go
                connection.sendall(says)
        yield held


STREAM = "GET /events HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"


@pytest.mark.parametrize("says", ["", "GET / HTTP/1.1\r\nHost:", STREAM], ids=["", "half", "all"])
def test_idle_connections_keep_no_reader_out(says: str) -> None:
    """Idle, half-open and reading connections do not stop a new reader."""
    with opened(Live(rounds_with_excess()[0])) as window:
        port = window.address.split(":")[2].rstrip("/")
        with connections(window, 5 * READERS, says.format(port=port).encode()):
            for _ in range(3):
                assert get(window.address)[0] == 200
                assert window.readers <= READERS
            reader = Reader(window.address)
            until(lambda: reader.updates, "a new reader gets updates")


def test_idle_connections_do_not_end_a_stream() -> None:
    """A reader of the stream keeps its connection when many idle ones arrive."""
    live = Live(rounds_with_excess()[0])
    with opened(live, secret=PLACE) as window:
        reader = Reader(window.address)
        until(lambda: reader.updates, "the reader gets an update")
        with connections(window, 5 * READERS):
            live.trouble("beside idle connections")
            until(
                lambda: "beside idle" in "".join(reader.updates[-1]["parts"]),
                "it gets another update",
            )


def test_last_update_is_sent_before_the_end() -> None:
    """A reader receives the last change before the page is closed."""
    live = Live(rounds_with_excess()[0])
    with opened(live) as window:
        reader = Reader(window.address)
        until(lambda: reader.updates, "the reader gets an update")
        live.trouble("the very last thing")
    assert "the very last thing" in "".join(reader.wait()["parts"])


@pytest.mark.parametrize("count", [1, POINTS - 1, POINTS, POINTS + 1, 10 * POINTS + 7])
def test_trail_has_a_fixed_size(count: int) -> None:
    """A trail keeps few values, each the mean of equally many rounds, and loses no round."""
    trail = Trail()
    for value in range(count):
        trail.add(float(value), value + 1)
    values = trail.values()
    assert len(values) <= POINTS + 1
    means = [np.mean(range(i, min(i + trail.each, count))) for i in range(0, count, trail.each)]
    assert values == pytest.approx(means)


def test_a_wait_that_is_over_is_no_longer_shown() -> None:
    """The page and the health check forget it; another trouble stays until a round closes."""
    live = Live(make_agreement())

    def trouble() -> str:
        return str(json.loads(live.health()[1])["trouble"])

    live.lasting_trouble("waiting for ben")
    assert trouble() == "waiting for ben"
    live.lasting_trouble("")
    assert trouble() == ""
    live.trouble("the rounds pass faster")
    live.lasting_trouble("")
    assert trouble() == "the rounds pass faster"


def test_rounds_are_counted_alike_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """After two rounds the party's log, the convener's log, page, health and metrics say two."""
    agreement = make_agreement(rounds=9)
    transcript, states = play(agreement)
    collector, lines = RoundCollector(agreement), list[str]()
    progress = SessionProgress(agreement, collector, lines.append, 0.0)
    live = Live(agreement)
    for state, releases in zip(states[1:3], transcript.rounds, strict=False):
        for signed in releases:
            found = collector.collect(signed, 0.0)
            progress.add(signed.message, signed.message.sender, found, 0.0)
        live.closed(state.round, excess_demand(agreement, numbers(releases)), state)
        ProgressView(agreement).round(state, releases)
    assert capsys.readouterr().err.splitlines()[-1].startswith("round 2 of 9")
    assert lines[-1].startswith("round 2 of 9")
    assert "Round 2 is closed" in live.page()
    assert json.loads(live.health()[1])["rounds_closed"] == 2
    assert "\nsotto_rounds_closed 2\n" in live.metrics()
    ending = make_agreement(rounds=9, prices={"step": "center"})
    assert ending.counted(2) == "round 2 of at most 9"  # one sentence, for all logs


def test_metrics_are_in_the_format_of_prometheus() -> None:
    """Each metric has its help and its kind before its values, and its name is unique."""
    agreement = make_agreement(rounds=9)
    transcript, states = play(agreement)
    live = Live(agreement)
    live.presence(["ada"], {"ben": "away since 17:00"})
    live.closed(1, excess_demand(agreement, numbers(transcript.rounds[0])), states[1])
    *lines, last = live.metrics().split("\n")
    assert last == ""
    described: list[str] = []
    for line in lines:
        if line.startswith("# HELP "):
            described.append(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line == f"# TYPE {described[-1]} gauge"
        else:
            found = re.fullmatch(r'(\w+)(?:\{\w+="[\w.-]+"\})? (-?[\d.e+-]+)', line)
            assert found is not None, line
            assert found[1] == described[-1]
            assert float(found[2]) == float(found[2])
    assert len(described) == len(set(described)) > 5


def test_only_the_newest_events_are_shown() -> None:
    """The page shows a fixed number of events, the newest first."""
    live = Live(rounds_with_excess()[0])
    for number in range(100):
        live.say(f"number {number}.", "12:00:00")
    text = live.page()
    assert text.index("number 99.") < text.index(f"number {100 - SENTENCES}.")
    assert f"number {99 - SENTENCES}." not in text


class Carrier(Struct):
    """A coordinator's page with what it reads, and no sockets."""

    page: LivePage
    progress: SessionProgress
    collector: RoundCollector

    @property
    def address(self) -> str:
        return self.page.address

    def carry(self, *messages: Signed) -> None:
        for signed in messages:
            collected = self.collector.collect(signed, 0.0)
            self.progress.add(signed.message, signed.message.sender, collected, 0.0)
            self.page.add(collected.closed)
        self.page.update(self.progress)


@contextmanager
def following(agreement: Agreement) -> Iterator[Carrier]:
    collector = RoundCollector(agreement)
    with LivePage(agreement, 0, collector) as page:
        progress = SessionProgress(agreement, collector, page.also(lambda _: None), 0.0)
        yield Carrier(page, progress, collector)


def complete(transcript: Transcript) -> tuple[Signed, ...]:
    """Seals that say that their sender has all seals."""
    return tuple(lying(seal, has_all_seals=True) for seal in transcript.seals)


def test_coordinator_page_follows_the_rounds() -> None:
    """The page of the coordinator has the prices of every round, then the public report."""
    agreement = make_agreement(rounds=4)
    transcript, positions = play(agreement)
    with following(agreement) as session:
        session.carry(*(s for r in transcript.rounds[:2] for s in r))
        until(lambda: "Round 2 is closed" in get(session.address)[1], "two rounds are shown")
        price = positions[2].prices.current.tolist()[0]
        assert figure(price) in get(session.address)[1]
        session.carry(*(s for r in transcript.rounds[2:] for s in r))
        session.carry(*transcript.seals, *complete(transcript))
        until(lambda: "sealed by all" in get(session.address)[1], "the report is shown")
        assert positions[-1].chain_hash.hex() in get(session.address)[1]


def test_the_page_of_a_coordinator_keeps_no_round_twice() -> None:
    """It keeps the bytes of the rounds up to a limit, and no history without a limit beside it."""
    agreement = make_agreement(rounds=4)
    transcript, _ = play(agreement)
    with following(agreement) as session:
        session.carry(*(s for r in transcript.rounds[:3] for s in r))
        until(lambda: "Round 3 is closed" in get(session.address)[1], "three rounds are shown")
        state = session.page._state
        assert state is not None
        assert (state.round, state.history) == (3, [])


def test_late_coordinator_shows_totals_only() -> None:
    """Without the first rounds the page has totals but no prices, and names who has them."""
    agreement = make_agreement(rounds=6)
    transcript, _ = play(agreement)
    with following(agreement) as session:
        session.carry(*(s for r in transcript.rounds[3:5] for s in r))
        until(lambda: "Round 5 is closed" in get(session.address)[1], "the rounds are shown")
        text = get(session.address)[1]
        assert "How the prices move" not in text
        assert "Total demand compared with the capacity" in text
        session.carry(*transcript.rounds[5], *transcript.seals, *complete(transcript))
        until(lambda: "protocol report" in get(session.address)[1], "the page shows the end")


def test_one_member_cannot_move_the_page() -> None:
    """Releases of impossible rounds that one member signs neither stop nor move the page."""
    agreement = make_agreement(rounds=9)
    transcript, positions = play(agreement)
    first = transcript.rounds[0][0]
    numbers = (MAX_ROUND, agreement.rounds, 8, 7, 6, 5, 4, 3, 2)
    with following(agreement) as session:
        session.carry(*(lying(first, round=number) for number in numbers))
        for count, releases in enumerate(transcript.rounds[:4]):
            session.carry(releases[0])
            session.carry(*(lying(first, round=count + n) for n in range(2, 9)))
            session.carry(*releases[1:])
        until(lambda: "Round 4 is closed" in get(session.address)[1], "the rounds are shown")
        assert figure(positions[4].prices.current.tolist()[0]) in get(session.address)[1]


def address_of(session: RunningSession, name: str) -> str:
    """The address of its page that a process prints."""
    return until(lambda: session.page(name), f"{name} says where its page is")


def test_demo_has_a_page() -> None:
    """`scripts/demo --page` prints an address that works before the companies start."""
    command = [
        sys.executable,
        "-m",
        "scripts.lab.demo",
        "--page",
        "--mode",
        "exact",
        "--parties",
        "2",
    ]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stderr is not None
        line = next(line for line in demo.stderr if "http://" in line)
        reader = Reader(line.split()[-1])
        demo.communicate(timeout=LIMIT)
    assert demo.returncode == 0
    assert reader.updates[0]["title"].startswith("demo-1: ")
    assert "sealed by all" in "".join(reader.wait()["parts"])


@pytest.mark.parametrize(
    ("topology", "reveal"), [("relay", "each"), ("relay", "totals"), ("mesh", "each")]
)
def test_pages_do_not_change_a_session(tmp_path: Path, topology: str, reveal: str) -> None:
    """With readers at both pages every price is the same, and each page ends with its report."""
    arguments = ("--mode", "exact", "--no-demands", "--reveal", reveal)
    with RunningSession(tmp_path / "s", options(*arguments, "--topology", topology)) as session:
        session.launch("coordinator", [*coordinator_command(session.folder), "--page"])
        first, *others = session.names
        session.launch(first, [*party_command(session.folder, first, session.options), "--page"])
        public, private = (Reader(address_of(session, name)) for name in ("coordinator", first))
        for name in others:
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session, *arguments)
        own, shared = private.wait(), public.wait()
        report = (session.folder / first / "out" / "report.html").read_text()
        secret = address_of(session, first).split("/")[3]
    assert own["kind"] == "private"
    assert "What the session is worth to you" in "".join(own["parts"])
    assert all(part in report for part in own["parts"])
    seen = json.dumps(public.updates, ensure_ascii=False)
    assert "worth to you" not in seen
    assert "PRIVATE" not in seen
    assert all(update["kind"] == "public" for update in private.updates[:-1])
    if topology == "relay":
        assert "sealed by all" in "".join(shared["parts"])
    assert len(secret) >= 32
    assert secret not in session.stdout(first)
    assert secret not in report


def test_failed_party_says_why_on_its_page(tmp_path: Path) -> None:
    """A party that stops names the missing member on its page."""
    chosen = options("--patience", "1")
    with RunningSession(tmp_path / "s", chosen) as session:
        session.start_coordinator()
        first = session.names[0]
        session.launch(first, [*party_command(session.folder, first, chosen), "--page"])
        reader = Reader(address_of(session, first))
        last = "".join(reader.wait()["parts"])
    assert "This party has stopped" in last
    assert "party2" in last
