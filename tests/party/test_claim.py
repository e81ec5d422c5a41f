"""A claim is made from the ledger of the member that signs it."""

from pathlib import Path

import pytest
import zmq

from party.claim import write_claim
from party.keys import Identity, save
from protocol.agreement.model import Agreement
from protocol.errors import BadLedger
from tests.support.builders import make_agreement, public_key, signing_key
from tests.support.committed_sessions import play_until_over


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


def test_claim_shows_no_number_of_another_ledger(tmp_path: Path) -> None:
    """With the key of one member and the ledger of another, no file is written."""
    identities = {name: _identity(name) for name in ("ada", "ben", "cyd")}
    agreement = _agreement(identities)
    session = play_until_over(agreement, 1, tmp_path)
    session.sealed()
    for ledger in session.ledgers:
        ledger.close()
    key, out = tmp_path / "ada.key", tmp_path / "ada.claim"
    save(identities["ada"], key)
    with pytest.raises(BadLedger, match="belongs to 'ben'"):
        write_claim(agreement, key=key, ledger=tmp_path / "ben.ledger", resource="r0", out=out)
    assert not out.exists()
    write_claim(agreement, key=key, ledger=tmp_path / "ada.ledger", resource="r0", out=out)
    assert out.exists()
