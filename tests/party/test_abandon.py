"""An abandoned session: its secrets are destroyed, its releases count, nothing follows."""

import io
import subprocess
import sys
from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from party.__main__ import _abandon
from party.abandon import abandon
from party.ledger.accounts import accounts
from party.ledger.session_ledger import Ledger
from party.release.masks import Masks
from protocol.agreement.model import Agreement
from protocol.agreement.render import written
from protocol.errors import Abandoned, BadCommand, BadLedger, Equivocation, InternalError
from protocol.outcome.outcome import outcome
from protocol.rounds import RoundEngine, RoundState, mask_keys, numbers
from protocol.wire.messages import Release, Signed
from protocol.wire.transcript import load
from scripts.lab.common.local_session import environment
from tests.support.builders import make_agreement, sign, signer
from tests.support.committed_sessions import play_until_over
from tests.support.ledgers import in_memory
from tests.support.wait import LIMIT

NAMES = ("ada", "ben", "cyd")
ROUNDS = 6


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def masked() -> Agreement:
    return make_agreement(members=3, reveal="totals", rounds=ROUNDS)


class Begun:
    """A file with ada's ledger of a masked session, after some rounds and one more release."""

    def __init__(self, path: Path, closed: int) -> None:
        self.path, self.agreement = path, masked()
        engine, chance = RoundEngine(self.agreement), np.random.default_rng(closed)
        self.demands: list[bytes] = []
        with closing(Ledger(path, self.agreement, "ada")) as own:
            ledgers = [own, *(in_memory(self.agreement, name) for name in NAMES[1:])]
            masks = [
                Masks(self.agreement, name, ledger, signer(name))
                for name, ledger in zip(NAMES, ledgers, strict=True)
            ]
            keys = tuple(one.key(engine.opening) for one in masks)
            for ledger in ledgers:
                ledger.record_mask_keys(keys)
            self.secret = own.mask_secret()
            state = engine.pair(engine.opening, mask_keys(keys))
            while state.round < closed:
                releases = tuple(
                    self._release(name, one, state, chance)
                    for name, one in zip(NAMES, masks, strict=True)
                )
                own.record_release(releases[0], self._asked)
                state = engine.advance(state, numbers(releases))
                own.record_round(state.round - 1, releases, state.chain_hash)
            if not state.over:
                own.record_release(self._release("ada", masks[0], state, chance), self._asked)
        self.state = state

    def _release(
        self, name: str, masks: Masks, state: RoundState, chance: np.random.Generator
    ) -> Signed:
        demand = chance.integers(1 << 16, 1 << 18, self.agreement.width)
        if name == "ada":
            self._asked = demand, demand
            self.demands.append(demand.astype(">i8").tobytes())
        message = Release(
            sender=name,
            agreement=self.agreement.digest,
            round=state.round,
            chain_hash=state.chain_hash,
            values=tuple(masks.masked(demand, state).tolist()),
            masked=True,
        )
        return sign(message)

    def secrets_found(self) -> list[str]:
        """The files of the folder that still contain a secret."""
        files = [path for path in self.path.parent.iterdir() if path.is_file()]
        return [
            path.name
            for path in files
            if any(secret in path.read_bytes() for secret in (self.secret, *self.demands))
        ]

    def abandon(self, out: Path | None = None) -> list[str]:
        return abandon(self.agreement, self.path, out=out, confirm=lambda _: None)

    def opened(self) -> Any:
        return closing(Ledger(self.path, self.agreement, "ada"))


@pytest.fixture(params=[0, 3])
def begun(tmp_path: Path, request: pytest.FixtureRequest) -> Begun:
    session = Begun(tmp_path / "ledger", request.param)
    assert session.secrets_found(), "or there is nothing to destroy"
    return session


def test_secrets_are_destroyed_and_public_records_stay(begun: Begun) -> None:
    """No file holds the key or a demand; releases and closed rounds do not change."""
    with begun.opened() as ledger:
        before = ledger.own()[1:], ledger.transcript(), ledger.accounts()
    lines = begun.abandon()
    assert begun.secrets_found() == []
    assert "was abandoned here" in lines[0]
    with begun.opened() as ledger:
        assert isinstance(ledger.abandoned, Abandoned)
        assert ledger.abandoned.exit_code == 15
        assert f"after {begun.state.round} of {ROUNDS} rounds" in str(ledger.abandoned)
        assert [part.size for part in ledger.demands()] == [0, 0]
        assert (ledger.own()[1:], ledger.transcript(), ledger.accounts()) == before
        assert ledger.accounts()[0].releases == begun.state.round + 1


def test_an_abandoned_session_releases_nothing(begun: Begun) -> None:
    """The ledger refuses the next release and a new mask key."""
    begun.abandon()
    with begun.opened() as ledger:
        message = Release(
            sender="ada",
            agreement=begun.agreement.digest,
            round=begun.state.round + 1,
            chain_hash=bytes(32),
            values=(1, 2),
            masked=True,
        )
        with pytest.raises(InternalError, match="an abandoned session would release something"):
            ledger.record_release(sign(message))
        with pytest.raises(InternalError, match="an abandoned session would release something"):
            ledger.record_mask_key(bytes(32), ledger.own()[0])
    assert accounts(begun.path)[0][0].releases == begun.state.round + 1


def test_the_closed_rounds_are_a_transcript(begun: Begun, tmp_path: Path) -> None:
    """The transcript verifies, and has the prices at which the next session starts."""
    out = tmp_path / "out"
    out.mkdir()
    lines = begun.abandon(out)
    data = (out / "session.transcript").read_bytes()
    ended = outcome(begun.agreement, load(begun.agreement, data))
    assert (ended.rounds, ended.state.chain_hash) == (begun.state.round, begun.state.chain_hash)
    assert "coordinator new --from" in lines[-1]
    first = data
    begun.abandon(out)
    assert (out / "session.transcript").read_bytes() == first


KILLED = """
import os, sys
from pathlib import Path
from party.abandon import abandon
from party.ledger.database import Database
from tests.party.test_abandon import masked


def die_later(_):
    setattr(Database, sys.argv[2], lambda *_: os._exit(9))

abandon(masked(), Path(sys.argv[1]), out=None, confirm=die_later)
"""


@pytest.mark.parametrize(("step", "done"), [("delete", False), ("wipe", True)])
def test_a_killed_command_is_completed_by_the_next(begun: Begun, step: str, done: bool) -> None:
    """Killed before the record, nothing has changed; after it, the next run completes it."""
    command = [sys.executable, "-c", KILLED, str(begun.path), step]
    ended = subprocess.run(command, env=environment(), timeout=LIMIT, check=False)
    assert ended.returncode == 9
    assert begun.secrets_found(), "it was killed too late"
    if done:
        with begun.opened() as ledger:  # whatever opens it, if only to refuse to join
            assert ledger.abandoned is not None
            assert begun.secrets_found() == [], "overwritten, not only deleted when it is closed"
    asked: list[str] = []
    abandon(begun.agreement, begun.path, out=None, confirm=asked.append)
    assert begun.secrets_found() == []
    assert len(asked) == (0 if done else 1), "what was decided is not asked again"


def test_nothing_changes_without_confirmation(begun: Begun) -> None:
    """An operator who declines finds the session unchanged."""

    def no(meaning: str) -> None:
        assert "final" in meaning
        assert "wait until their patience ends" in meaning
        raise BadCommand("no")

    with pytest.raises(BadCommand, match="no"):
        abandon(begun.agreement, begun.path, out=None, confirm=no)
    with begun.opened() as ledger:
        assert ledger.abandoned is None
        assert ledger.mask_secret() == begun.secret


@pytest.mark.parametrize("answer", ["", "y\n", "no\n", "yes\n"])
def test_a_terminal_asks_and_only_yes_abandons(
    begun: Begun, tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --yes any other answer, or none, changes nothing."""
    (tmp_path / "a.toml").write_text(written(begun.agreement))
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    options = Namespace(
        agreement=tmp_path / "a.toml", ledger=begun.path, key=None, out=None, yes=False
    )
    if answer == "yes\n":
        _abandon(options)
    else:
        with pytest.raises(BadCommand, match="only the answer yes abandons a session"):
            _abandon(options)
    with begun.opened() as ledger:
        assert (ledger.abandoned is not None) == (answer == "yes\n")


def test_the_quota_of_an_unsealed_session_is_kept(tmp_path: Path) -> None:
    """The quota is computed before the demands are destroyed."""
    begun = Begun(tmp_path / "ledger", ROUNDS)
    assert begun.state.over
    begun.abandon()
    assert begun.secrets_found() == []
    with begun.opened() as ledger:
        made = ledger.allocation()
        assert made is not None
        assert (made.quota >= 0).all()
    begun.abandon()


def test_a_sealed_session_cannot_be_abandoned(tmp_path: Path) -> None:
    """The command refuses without a question, and nothing changes."""
    agreement, path = masked(), tmp_path / "ada.ledger"
    session = play_until_over(agreement, 1, tmp_path)
    session.sealed()
    with pytest.raises(InternalError, match="has ended"):
        session.ledgers[0].record_abandoned(over=False)
    for ledger in session.ledgers:
        ledger.close()
    with pytest.raises(BadCommand, match="it is finished, and cannot be abandoned"):
        abandon(agreement, path, out=None, confirm=lambda _: pytest.fail("asked"))
    with closing(Ledger(path, agreement, "ada")) as ledger:
        assert ledger.abandoned is None
        assert ledger.opening() is not None


def test_a_session_with_a_proved_fault_cannot_be_abandoned(begun: Begun) -> None:
    """The ledger keeps the fault and its proof."""
    with begun.opened() as ledger:
        ledger.record_fault(Equivocation("'ben' lied", sender="ben"), over=False)
    with pytest.raises(BadCommand, match="There is nothing to abandon"):
        begun.abandon()


def test_a_ledger_in_use_or_of_another_session_is_refused(begun: Begun) -> None:
    """A running party holds its ledger, and abandoning an unknown session adds nothing."""
    with begun.opened(), pytest.raises(BadLedger, match="in use by another process"):
        begun.abandon()
    with pytest.raises(BadLedger, match="has no session of this agreement"):
        abandon(make_agreement(session="other"), begun.path, out=None, confirm=lambda _: None)
    assert len(accounts(begun.path)[0]) == 1


def test_a_session_without_masks_can_be_abandoned(tmp_path: Path) -> None:
    """There is no secret to destroy, and the session is over for this party."""
    agreement = make_agreement(rounds=3)
    path = tmp_path / "ledger"
    with closing(Ledger(path, agreement, "ada")) as ledger:
        ledger.record_release(
            sign(
                Release(
                    sender="ada",
                    agreement=agreement.digest,
                    round=0,
                    chain_hash=RoundEngine(agreement).opening.chain_hash,
                    values=(1, 2),
                )
            )
        )
    lines = abandon(agreement, path, out=None, confirm=lambda _: None)
    assert lines[-1] == "Keep the ledger: it counts what was released"
    with closing(Ledger(path, agreement, "ada")) as ledger:
        assert ledger.abandoned is not None
        assert len(ledger.own()) == 1
