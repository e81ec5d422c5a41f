"""What the executor hands out rests on a ledger that survives the end of the process there."""

import shutil
from collections import deque
from pathlib import Path

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.outcome.replay import replay
from protocol.wire.messages import Hello, Release, Seal, Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, signer
from tests.support.gates import Problem, Shift, gate


class Party:
    """One member with a ledger on the disk, whose copy is read after all that it says."""

    def __init__(self, agreement: Agreement, name: str, folder: Path) -> None:
        self.agreement, self.name, self.folder = agreement, name, folder
        folder.mkdir()
        self.ledger = Ledger(folder / "ledger", agreement, name)
        self.executor = Driver(
            agreement,
            name,
            nonce=name.encode().ljust(16),
            pack=signer(name),
            gate=gate(agreement, Problem(3.0, 5.0), Shift(1, 2), self.ledger, name),
            ledger=self.ledger,
        )
        self.said: list[Signed] = []

    def says(self, outgoing: list[Signed]) -> list[Signed]:
        """What the executor hands out, each held against what is on the disk by then."""
        if outgoing:
            own, past = self.on_disk()
            for signed in outgoing:
                rounds = Transcript(past.rounds[: signed.message.round], ())
                assert replay(self.agreement, rounds).chain_hash == signed.message.chain_hash
                assert not isinstance(signed.message, Release) or signed in own
        self.said += outgoing
        return outgoing

    def on_disk(self) -> tuple[tuple[Signed, ...], Transcript]:
        """What a process would find that starts after this one was killed here."""
        copy = self.folder.with_suffix(".copy")
        shutil.copytree(self.folder, copy)
        ledger = Ledger(copy / "ledger", self.agreement, self.name)
        found = ledger.own(), ledger.transcript()
        ledger.close()
        shutil.rmtree(copy)
        return found


def test_whatever_is_handed_out_is_already_on_the_disk(tmp_path: Path) -> None:
    """Hellos, releases and seals name only rounds and releases that a killed process leaves."""
    agreement = make_agreement(rounds=3)
    names = [member.name for member in agreement.members]
    parties = [Party(agreement, name, tmp_path / name) for name in names]
    now, carried = 0.0, deque[Signed]()
    for party in parties:
        carried += party.says(party.executor.begin(now))
    while not all(party.executor.left for party in parties):
        while carried:
            signed = carried.popleft()
            for party in parties:
                if party.name != signed.message.sender:
                    carried += party.says(party.executor.receive(signed, now))
        now = min(party.executor.session.deadline for party in parties)
        assert now < 100.0, "nothing happens any more"
        for party in parties:
            carried += party.says(party.executor.tick(now))
    for party in parties:
        kinds = [type(signed.message) for signed in party.said]
        assert {Hello, Release, Seal} == set(kinds)
        assert len({s.data for s in party.said if isinstance(s.message, Release)}) == 3
        assert party.executor.finished is not None
        party.ledger.close()


def test_a_party_knows_for_whom_it_has_waited(tmp_path: Path) -> None:
    """From when its own release left; what comes again, or before that, is no wait."""
    agreement = make_agreement(rounds=3)
    parties = [Party(agreement, name, tmp_path / name) for name in ("ada", "ben", "cyd")]
    ada, told = parties[0], list[str]()
    waits = ada.executor._waits
    ada.executor._on_wait = told.append
    carried, late = deque[Signed](), dict[tuple[int, str], Signed]()

    def deliver(party: Party, signed: Signed) -> None:
        if party.name != signed.message.sender:
            carried.extend(party.executor.receive(signed, now))
            party.executor.run_idle_work()

    def pass_on() -> None:
        while carried:
            signed = carried.popleft()
            for party in parties:
                if party is ada and isinstance(signed.message, Release):
                    late[signed.message.round, signed.message.sender] = signed
                else:
                    deliver(party, signed)

    now = 0.0
    for party in parties:
        carried.extend(party.executor.begin(now))
    while not all(party.executor.left for party in parties):
        pass_on()
        here = ada.executor.session.state.round
        if (here, "cyd") in late:  # ben comes after a second, and again, and then cyd
            ben, cyd = late.pop((here, "ben")), late.pop((here, "cyd"))
            for signed, seconds in ((ben, 1.0), (ben, 5.0), (cyd, 15.0)):
                ada.executor.free.seconds += seconds
                deliver(ada, signed)
            continue
        now = min(party.executor.session.deadline for party in parties)
        assert now < 100.0, "nothing happens any more"
        for party in parties:
            carried.extend(party.executor.tick(now))
    for party in parties:
        party.ledger.close()
    assert told == [f"waited 21 s for 'cyd' in round {t}" for t in range(3)]
    assert [(one.name, one.seconds, one.last) for one in waits.all] == [
        ("cyd", 63.0, 3),
        ("ben", 3.0, 0),
    ]
