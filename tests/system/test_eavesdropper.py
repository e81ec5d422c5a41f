"""What a member that records all traffic learns, and what it finds on disks: only releases."""

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
from tests.support.local_sessions import Play, options, play
from tests.support.process_control import Brake, kill
from tests.support.relay_client import recording
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

PRIVATE = {"model.npz", "report.html", "plan.csv", "result.json"}
"""The files of a company that hold un-noised numbers. They are its own."""


def test_no_private_number_is_written_or_sent(tmp_path: Path) -> None:
    """Numbers planted in a data set are in no message, log, public file or another party's file."""
    planted = [7919.2671, 104729.8313, 1299709.4447]
    with play(tmp_path / "s", options("--mode", "private", rounds=25)) as session:
        cast, agreement = session.cast, session.agreement
        model = cast.folder / "party1" / "model.npz"
        with np.load(model) as file:
            arrays = dict(file)
        arrays["u"][:3] = planted
        arrays["b"][0] = planted[0]
        arrays["B"][0, 0] = planted[1] * 1e-6
        np.savez(model, **arrays)
        with eavesdropping(session) as heard:
            cast.wait(LIMIT)
            until(lambda: len(releases(agreement, heard)) == 25 * 3, "all releases are heard")
        written = [
            path.read_bytes()
            for path in cast.folder.rglob("*")
            if path.is_file() and path.name not in PRIVATE
        ]
        for name in PRIVATE - {"model.npz"}:  # what the others keep is private, and not of this one
            written += [(cast.folder / p / "out" / name).read_bytes() for p in cast.names[1:]]
            assert (cast.folder / "party1" / "out" / name).stat().st_mode & 0o077 == 0
        told = json.dumps(cast.events).encode()
        everything = b"".join([*written, *heard, told])
        demand = _first_demand(session, model)
        for number in [*planted, planted[1] * 1e-6, *demand]:
            for trace in _traces(number):
                assert trace not in everything
        lengths = {len(data) for data in releases(agreement, heard)}
        assert lengths == {release_bytes(agreement)}


def _first_demand(session: Play, model: Path) -> list[float]:
    """What the company would take at the first prices: the secret that the noise must hide."""
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
def eavesdropping(session: Play) -> Iterator[list[bytes]]:
    """Start the session and record all that passes the relay, as any member could."""
    session.cast.start_coordinator()
    with recording(session, "party3") as heard:
        session.cast.start_party("party2")
        until(lambda: heard, "party2 is heard")  # it greets until it is answered
        for name in ("party1", "party3"):
            session.cast.start_party(name)
        yield heard


def releases(agreement: Agreement, heard: list[bytes]) -> dict[bytes, Release]:
    """All releases that were heard, by their bytes."""
    messages = {data: _message(agreement, data) for data in list(heard)}
    return {data: m for data, m in messages.items() if isinstance(m, Release)}


def test_the_ledger_file_has_the_release_before_anybody_hears_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party killed the moment its release is heard has that very release in its ledger."""
    with play(tmp_path / "s", options(rounds=40)) as session:
        cast, agreement = session.cast, session.agreement
        brake = Brake(session, monkeypatch, name="party2", furthest=20)

        def said(name: str, since: int = 0) -> dict[bytes, Release]:
            told = releases(agreement, heard[since:])
            return {data: release for data, release in told.items() if release.sender == name}

        with eavesdropping(session) as heard:
            brake.reached()
            brake.move(30)
            until(lambda: any(r.round >= 22 for r in said("party1").values()), "party1 goes on")
            kill(session, "party1")
            brake.let_go()  # on a busy machine it may be held by now, and say nothing
            count = len(heard)
            for name in ("party2", "party3"):  # who is waiting says it again, after all else
                until(partial(said, name, count), f"{name} is heard again")
        path = cast.folder / "party1" / "party1.ledger"
        with closing(Ledger(path, agreement, "party1")) as ledger:
            kept = {signed.data for signed in ledger.own()}
        assert len(said("party1")) >= 22
        assert said("party1").keys() <= kept
