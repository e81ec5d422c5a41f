"""A claim is made from the ledger of the member that signs it."""

import errno
import os
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
import zmq
from msgspec.structs import replace

from party.abandon import abandon
from party.claim_file import forget, write_claim
from party.keys import Identity, save
from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.clearing.claims import file_name, verified
from protocol.errors import BadCommand, BadLedger, Equivocation, Unsealed
from protocol.runtime.files import create_private
from tests.support.builders import make_agreement, public_key, sign, signing_key
from tests.support.committed_sessions import CommittedSession, play_until_over


def _agreement(names: dict[str, Identity]) -> Agreement:
    members = [
        {
            "name": name,
            "signing_key": identity.signing_key.hex(),
            "transport_key": identity.transport_key.decode(),
        }
        for name, identity in names.items()
    ]
    return make_agreement(rounds=2, reveal="totals", member=members)


def _identity(name: str) -> Identity:
    public, secret = zmq.curve_keypair()
    signing = bytes(signing_key(name)) + public_key(name)
    return Identity(name, signing, public_key(name), secret, public)


def _played(tmp_path: Path) -> tuple[Agreement, CommittedSession, Path]:
    """A session with commitments whose ledgers and the key of ada are files."""
    identities = {name: _identity(name) for name in ("ada", "ben", "cyd")}
    agreement = _agreement(identities)
    save(identities["ada"], tmp_path / "ada.key")
    return agreement, play_until_over(agreement, 1, tmp_path), tmp_path / "ada.key"


def test_claim_shows_no_number_of_another_ledger(tmp_path: Path) -> None:
    """With the key of one member and the ledger of another, no file is written."""
    agreement, session, key = _played(tmp_path)
    session.sealed()
    for ledger in session.ledgers:
        ledger.close()
    out = tmp_path / "ada.claim"
    with pytest.raises(BadLedger, match="belongs to 'ben'"):
        write_claim(agreement, key=key, ledger=tmp_path / "ben.ledger", resource="r0", out=out)
    assert not out.exists()
    write_claim(agreement, key=key, ledger=tmp_path / "ada.ledger", resource="r0", out=out)
    assert out.exists()


def test_claim_is_written_where_files_cannot_have_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most USB sticks have no links. There too an existing file stays, and no draft is left."""

    def refused(*names: object) -> None:  # noqa: ARG001
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    for data in (b"first", b"second"):
        with nullcontext() if data == b"first" else pytest.raises(BadCommand, match="exists"):
            create_private(tmp_path / "ada.claim", data)
    assert [file.name for file in tmp_path.iterdir()] == ["ada.claim"]
    assert (tmp_path / "ada.claim").read_bytes() == b"first"
    assert (tmp_path / "ada.claim").stat().st_mode & 0o777 == 0o600


def test_two_seals_of_one_member_cost_no_other_member_its_claims(tmp_path: Path) -> None:
    """A member that seals towards ben, and twice towards ada, ends the session for ada only.

    Ada has sealed by then, so ben has all seals and may claim. So may ada, with ben's transcript.
    """
    agreement, session, key = _played(tmp_path)
    commitments = tuple(gate.release(session.over) for gate in session.gates)
    ada, ben, cyd = session.ledgers
    ada.record_commitments(commitments)
    other = session.sealed_with(commitments, besides=[ada])
    first = session.transcript.seals[2]
    second = sign(replace(first.message, chain_hash=bytes(32)))
    evidence = (first.data, second.data)
    ada.record_fault(Equivocation("cyd sealed twice", sender="cyd", evidence=evidence), over=True)
    theirs = tmp_path / "session.transcript"
    theirs.write_bytes(ben.transcript_file())
    for ledger in (ada, ben, cyd):
        ledger.close()
    out, where = tmp_path / "ada.claim", tmp_path / "ada.ledger"
    with pytest.raises(Unsealed):
        write_claim(agreement, key=key, ledger=where, resource="r0", out=out)
    write_claim(agreement, key=key, ledger=where, resource="r0", out=out, transcript=theirs)
    assert verified(other, out.read_bytes()).place == 0
    forget(agreement, where)
    with pytest.raises(BadCommand, match="party forget"):
        write_claim(agreement, key=key, ledger=where, resource=None, out=out, transcript=theirs)


def test_abandoning_destroys_openings_only_before_all_have_committed(tmp_path: Path) -> None:
    """An operator that gives up on a missing seal can still claim if another member has it."""
    for committed in (False, True):
        folder = tmp_path / str(committed)
        folder.mkdir()
        agreement, session, key = _played(folder)
        commitments = tuple(gate.release(session.over) for gate in session.gates)
        if committed:
            session.ledgers[0].record_commitments(commitments)
        session.sealed_with(commitments, besides=session.ledgers[:1])
        theirs, out = folder / "session.transcript", folder / "ada.claim"
        theirs.write_bytes(session.ledgers[1].transcript_file())
        for ledger in session.ledgers:
            ledger.commit()
            ledger.close()
        path = folder / "ada.ledger"
        lines = abandon(agreement, path, out=None, confirm=lambda _: None)
        assert any("party claim" in line for line in lines) == committed
        with closing(Ledger(path, agreement, "ada")) as ledger:
            assert (ledger.opening() is not None) == committed
            assert ledger.commitment() is None or committed
        with nullcontext() if committed else pytest.raises(BadCommand):
            write_claim(agreement, key=key, ledger=path, resource="r0", out=out, transcript=theirs)
        assert out.exists() == committed


def test_two_claims_never_have_the_same_name() -> None:
    """Names in an agreement may have hyphens, so a hyphen does not tell where one ends."""
    names = []
    for session in ("may", "may-a"):
        agreement = make_agreement(session=session, reveal="totals")
        for member in ("a", "a-b", "a-b-c", "a-a", "payment"):
            for what in ("b", "b-c", "c", "a-b", "a", "a-payment", None):
                names.append(file_name(agreement, member, what))
    assert len(set(names)) == len(names)
    assert file_name(agreement, "ada", None) == "may-a+ada+payment.claim"
    assert file_name(agreement, "ada", "hours") == "may-a+ada+hours.claim"
