"""What the driver returns rests on records that survive a crash."""

import random
import shutil
from collections import deque
from pathlib import Path

import pytest

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.release.pacing import Pacer
from protocol.agreement.model import Agreement
from protocol.rounds import RoundEngine
from protocol.wire.messages import (
    Commitment,
    Contribution,
    Hello,
    MaskKey,
    Release,
    Seal,
    Signed,
)
from protocol.wire.transcript import Transcript
from tests.support.builders import make_agreement, release_at, signer
from tests.support.gates import Problem, Shift, gate
from tests.support.outcomes import replay


class Party:
    """One member with a ledger on the disk, which is checked after every message."""

    def __init__(
        self, agreement: Agreement, name: str, folder: Path, pacer: Pacer | None = None
    ) -> None:
        self.agreement, self.name, self.folder = agreement, name, folder
        folder.mkdir()
        self.ledger = Ledger(folder / "ledger", agreement, name)
        self.driver = Driver(
            agreement,
            name,
            nonce=name.encode().ljust(16),
            pack=signer(name),
            gate=gate(agreement, Problem(3.0, 5.0), Shift(1, 2), self.ledger, name),
            ledger=self.ledger,
            pacer=pacer,
        )
        self.sent: list[Signed] = []

    def checked(self, outgoing: list[Signed]) -> list[Signed]:
        """Check returned messages against the ledger on the disk."""
        if outgoing:
            own, past = self.on_disk()
            for signed in outgoing:
                keys = () if _before_keys(self.agreement, signed) else past.keys
                at = signed.message.round
                last = past.commitments if at > self.agreement.rounds else ()
                rounds = Transcript(past.rounds[:at], (), keys, last)
                assert replay(self.agreement, rounds).chain_hash == signed.message.chain_hash
                assert not isinstance(signed.message, Contribution) or signed in own
        self.sent += outgoing
        return outgoing

    def on_disk(self) -> tuple[tuple[Signed, ...], Transcript]:
        """What a process finds that starts after this one was killed now."""
        copy = self.folder.with_suffix(".copy")
        shutil.copytree(self.folder, copy)
        ledger = Ledger(copy / "ledger", self.agreement, self.name)
        found = ledger.own(), ledger.transcript()
        ledger.close()
        shutil.rmtree(copy)
        return found


def _before_keys(agreement: Agreement, signed: Signed) -> bool:
    """Whether a message was made before the mask keys were exchanged."""
    return signed.message.chain_hash == RoundEngine(agreement).opening.chain_hash


class _Pacer(Pacer):
    """A pace in simulated time: every release is due at once."""

    def now(self) -> float:
        return 0.0


@pytest.mark.parametrize("reveal", ["each", "totals"])
@pytest.mark.parametrize("pacer", [None, _Pacer(0.01)], ids=["at once", "at a pace"])
def test_every_returned_message_rests_on_durable_records(
    tmp_path: Path, reveal: str, pacer: Pacer | None
) -> None:
    """Hellos, keys, releases and seals refer only to what a killed process leaves on the disk."""
    agreement = make_agreement(rounds=3, reveal=reveal)
    names = [member.name for member in agreement.members]
    parties = [Party(agreement, name, tmp_path / name, pacer) for name in names]
    mail: dict[str, list[Signed]] = {name: [] for name in names}
    now, chance = 0.0, random.Random(1)

    def send(messages: list[Signed]) -> None:
        for signed in messages:
            for name in mail.keys() - {signed.message.sender}:
                mail[name].append(signed)

    for party in parties:
        send(party.checked(party.driver.begin(now)))
    while not all(party.driver.left for party in parties):
        while waiting := [party for party in parties if mail[party.name]]:
            # In any order: a party may be the last to answer, and close a round by that.
            party = chance.choice(waiting)
            signed = mail[party.name].pop(chance.randrange(len(mail[party.name])))
            send(party.checked(party.driver.receive(signed, now)))
            send(party.checked(party.driver.respond()))
        now = min(party.driver.session.deadline for party in parties)
        assert now < 100.0, "nothing happens any more"
        for party in parties:
            send(party.checked(party.driver.tick(now)))
    for party in parties:
        kinds = [type(signed.message) for signed in party.sent]
        assert set(kinds) - {MaskKey, Commitment} == {Hello, Release, Seal}
        assert (MaskKey in kinds) == (Commitment in kinds) == agreement.masked
        assert len({s.data for s in party.sent if isinstance(s.message, Release)}) == 3
        assert party.driver.finished is not None
        party.ledger.close()


def _answered(ada: Party, others: tuple[Party, Party]) -> tuple[Signed, dict[str, Signed]]:
    """Ada's release, which it made at 1.0 s, and the first Hellos of all."""
    hellos = {party.name: party.driver.begin(0.0)[0] for party in (ada, *others)}
    for party in others:
        party.driver.receive(hellos[ada.name], 0.0)
    replies = [party.driver.tick(party.driver.session.deadline)[0] for party in others]
    answered = [out for reply in replies if (out := ada.driver.receive(reply, 1.0))]
    [release] = [s for out in answered for s in out if isinstance(s.message, Release)]
    return release, hellos


def test_a_slow_answer_is_not_sent_twice_at_once(tmp_path: Path) -> None:
    """The pause before a resend begins when a release leaves; replies to Hellos do not move it."""
    agreement = make_agreement(rounds=3)
    ada, ben, cyd = (Party(agreement, name, tmp_path / name) for name in ("ada", "ben", "cyd"))
    release, hellos = _answered(ada, (ben, cyd))
    pause = ada.driver.session.deadline - 1.0
    ada.driver.published([release], 9.0)  # the solver took eight seconds
    assert ada.driver.session.deadline == pytest.approx(9.0 + pause)
    ada.driver.published([hellos["ada"]], 9.0 + pause / 2.0)
    assert ada.driver.session.deadline == pytest.approx(9.0 + pause)
    assert release in ada.driver.tick(9.0 + pause)
    for party in (ada, ben, cyd):
        party.ledger.close()


def test_a_member_that_claims_a_loss_again_and_again_delays_no_resend(tmp_path: Path) -> None:
    """Replies give a peer its own message back; what this party has sent is sent again in time."""
    agreement = make_agreement(rounds=3)
    ada, ben, cyd = (Party(agreement, name, tmp_path / name) for name in ("ada", "ben", "cyd"))
    release, hellos = _answered(ada, (ben, cyd))
    lost = release_at(agreement, "ben", ada.driver.session.state)
    ada.driver.receive(lost, 1.0)
    sent: list[Signed] = []
    for step in range(1, 15):
        now = 1.0 + step * 0.02
        outgoing = ada.driver.receive(hellos["ben"], now)  # it says that its ledger holds nothing
        if ada.driver.session.deadline <= now:
            outgoing += ada.driver.tick(now)
        if outgoing:
            ada.driver.published(outgoing, now)
        sent += outgoing
    assert lost in sent
    assert release in sent
    for party in (ada, ben, cyd):
        party.ledger.close()


def test_waits_count_from_the_own_release_to_the_first_copy(tmp_path: Path) -> None:
    """A repeated or early release adds no wait."""
    agreement = make_agreement(rounds=3)
    parties = [Party(agreement, name, tmp_path / name) for name in ("ada", "ben", "cyd")]
    ada, reported = parties[0], list[str]()
    waits = ada.driver._waits
    ada.driver._on_wait = reported.append
    carried, late = deque[Signed](), dict[tuple[int, str], Signed]()

    def deliver(party: Party, signed: Signed) -> None:
        if party.name != signed.message.sender:
            carried.extend(party.driver.receive(signed, now))
            party.driver.run_idle_work()

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
        carried.extend(party.driver.begin(now))
    while not all(party.driver.left for party in parties):
        pass_on()
        here = ada.driver.session.state.round
        if (here, "cyd") in late:  # ben comes after a second, and again, and then cyd
            ben, cyd = late.pop((here, "ben")), late.pop((here, "cyd"))
            for signed, seconds in ((ben, 1.0), (ben, 5.0), (cyd, 15.0)):
                ada.driver.free.seconds += seconds
                deliver(ada, signed)
            continue
        now = min(party.driver.session.deadline for party in parties)
        assert now < 100.0, "nothing happens any more"
        for party in parties:
            carried.extend(party.driver.tick(now))
    for party in parties:
        party.ledger.close()
    assert reported == [f"waited 21 s for 'cyd' in round {t}" for t in (1, 2, 3)]
    assert [(one.name, one.seconds, one.last) for one in waits.all] == [
        ("cyd", 63.0, 3),
        ("ben", 3.0, 0),
    ]
