"""A member that records all traffic and reads public files finds only releases."""

import json
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from party.ledger.session_ledger import Ledger
from party.model import company_model
from party.model.best_response import subproblem
from protocol.agreement.model import Agreement
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import Message, Release
from tests.support.local_sessions import RunningSession, options
from tests.support.process_control import Brake, kill
from tests.support.relay_client import recording
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

PRIVATE = {"model.npz", "report.html", "plan.csv", "result.json"}
"""The files of a company that hold numbers without noise. They stay with the company."""


def test_no_private_number_is_written_or_sent(tmp_path: Path) -> None:
    """Numbers planted in a model are in no message, log, public file or peer's file."""
    planted = [7919.2671, 104729.8313, 1299709.4447]
    with RunningSession(tmp_path / "s", options("--mode", "private", rounds=25)) as session:
        agreement = session.agreement
        model = session.folder / "party1" / "model.npz"
        with np.load(model) as file:
            arrays = dict(file)
        arrays["u"][:3] = planted
        arrays["b"][0] = planted[0]
        arrays["B"][0, 0] = planted[1] * 1e-6
        np.savez(model, **arrays)
        with eavesdropping(session) as recorded:
            session.wait(LIMIT)
            until(lambda: len(releases(agreement, recorded)) == 25 * 3, "all releases are recorded")
        written = [
            path.read_bytes()
            for path in session.folder.rglob("*")
            if path.is_file() and path.name not in PRIVATE
        ]
        for name in PRIVATE - {"model.npz"}:  # private files of its peers must not hold its numbers
            written += [(session.folder / p / "out" / name).read_bytes() for p in session.names[1:]]
            assert (session.folder / "party1" / "out" / name).stat().st_mode & 0o077 == 0
        events = json.dumps(session.events).encode()
        everything = b"".join([*written, *recorded, events])
        demand = _first_demand(session, model)
        for number in [*planted, planted[1] * 1e-6, *demand]:
            for trace in _traces(number):
                assert trace not in everything
        lengths = {len(data) for data in releases(agreement, recorded)}
        assert lengths == {release_bytes(agreement)}


def _first_demand(session: RunningSession, model: Path) -> list[float]:
    """The company's demand at the first prices: the secret that the noise must hide."""
    problem = subproblem(company_model.read(model, session.agreement), session.agreement, "party1")
    answer = problem.answer(np.array(session.agreement.pricing.start))
    assert answer is not None
    return [answer.objective, *(float(x) for x in answer.demand if x > 0.0)]


def _traces(number: float) -> list[bytes]:
    return [
        repr(number).encode(),
        f"{number:.6f}"[:9].encode(),
        struct.pack("<d", number),
        struct.pack(">d", number),
    ]


def _message(agreement: Agreement, data: bytes) -> Message:
    return Reader(agreement).unpack(data).message


@contextmanager
def eavesdropping(session: RunningSession) -> Iterator[list[bytes]]:
    """Start the session and record all that passes the relay, as any member could."""
    session.start_coordinator()
    with recording(session, "party3") as recorded:
        session.start_party("party2")
        until(lambda: recorded, "party2 is recorded")  # it repeats its hello until it is answered
        for name in ("party1", "party3"):
            session.start_party(name)
        yield recorded


def releases(agreement: Agreement, recorded: list[bytes]) -> dict[bytes, Release]:
    """All recorded releases, by their bytes."""
    messages = {data: _message(agreement, data) for data in list(recorded)}
    return {data: m for data, m in messages.items() if isinstance(m, Release)}


def test_a_release_is_in_the_ledger_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party killed when its release is first seen has that release in its ledger."""
    with RunningSession(tmp_path / "s", options(rounds=40)) as session:
        agreement = session.agreement
        brake = Brake(session, monkeypatch, name="party2", furthest=20)

        def releases_of(name: str, since: int = 0) -> dict[bytes, Release]:
            found = releases(agreement, recorded[since:])
            return {data: release for data, release in found.items() if release.sender == name}

        with eavesdropping(session) as recorded:
            brake.reached()
            brake.move(30)
            until(
                lambda: any(r.round >= 22 for r in releases_of("party1").values()), "party1 goes on"
            )
            kill(session, "party1")
            brake.let_go()  # on a busy machine it may be held by now, and send nothing
            count = len(recorded)
            for name in ("party2", "party3"):  # waiting parties send again, after all else
                until(partial(releases_of, name, count), f"{name} is recorded again")
        path = session.folder / "party1" / "party1.ledger"
        with closing(Ledger(path, agreement, "party1")) as ledger:
            stored = {signed.data for signed in ledger.own()}
        assert len(releases_of("party1")) >= 22
        assert releases_of("party1").keys() <= stored
