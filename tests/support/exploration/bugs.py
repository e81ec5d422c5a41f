"""Bugs that an exploration must find: what each replaces in the real code, and within which bounds.

Never here: a bug that no promise forbids.
"""

from typing import Any, NamedTuple

from party.release.masks import Masks, MaskSecret, announcement
from protocol.session.exchange import RoundBuffer
from protocol.session.faults import FaultDetector
from protocol.session.handshake import Handshake
from protocol.session.outbox import Outbox
from protocol.session.sealing import Sealing
from protocol.wire.messages import Signed
from tests.support.exploration.case import Case
from tests.support.exploration.party import Players
from tests.support.simulated_disk import Disk


class Bug(NamedTuple):
    """A part of the code, what replaces it, and a case in which that breaks a promise."""

    where: type
    name: str
    replacement: Any
    case: Case


def _never(*_: Any, **__: Any) -> None:
    return None


def _closed_with_one_missing(buffer: RoundBuffer) -> tuple[Signed, ...]:
    members = buffer._agreement.members
    if len(buffer.current) < len(members) - 1 or buffer._me not in buffer.current:
        return ()
    own = buffer.current[buffer._me]
    return tuple(buffer.current.get(member.name, own) for member in members)


def _sealed_with_one_missing(sealing: Sealing) -> bool:
    own = sealing.seals.get(sealing._me)
    if own is None or len(sealing.seals) < len(sealing._names) - 1:
        return False
    sealing.seals = {name: sealing.seals.get(name, own) for name in sealing._names}
    return True


def _fresh_key(masks: Masks, state: Any) -> Signed:
    secret = MaskSecret(masks._random())
    key = masks._pack(announcement(masks._agreement, masks._member, state.chain_hash, secret))
    masks._ledger.record_mask_key(secret.seed, key)
    return key


def _keep_secret(disk: Disk, seals: tuple[Signed, ...]) -> None:
    disk._write(seals=seals)
    disk.commit()


def _seal_only(outbox: Outbox, _: Signed) -> None:
    outbox.messages = ()


def _late_commit(disk: Disk, release: Signed, *_: Any, **__: Any) -> None:
    disk._write(releases=(*disk.pending.releases, release))


def _any_seal(_: Sealing, __: Any) -> list[Signed]:
    return []


def _accuses_all(_: FaultDetector, messages: tuple[Signed, ...]) -> tuple[Signed, ...]:
    return messages[1:3] if len(messages) > 2 else ()


_MASKED: dict[str, Any] = {"members": 3, "reveal": "noise", "greeted": True}
_LIED_TO: dict[str, Any] = {"members": 3, "greeted": True}

BUGS = {
    "a release leaves without being recorded": Bug(Disk, "record_release", _never, Case()),
    "a release leaves before it is durable": Bug(*(Disk, "commit", _never), Case()),
    "a recorded release is made again": Bug(Disk, "release", _never, Case(crashes=1)),
    "a nonce is used again after a restart": Bug(
        *(Players, "nonce", lambda _, party, __: bytes([party + 1]) * 16), Case(crashes=1)
    ),
    "a party does not wait for the answers of its peers": Bug(
        *(Handshake, "complete", property(lambda _: True)), Case(members=3)
    ),
    "a round is closed with one release missing": Bug(
        *(RoundBuffer, "complete", _closed_with_one_missing), Case()
    ),
    "a session ends with one seal missing": Bug(
        *(Sealing, "everyone_sealed", property(_sealed_with_one_missing)), Case()
    ),
    "seals are not recorded": Bug(Disk, "record_seals", _never, Case()),
    "nothing is sent again": Bug(Outbox, "add", _seal_only, Case()),
    "different chain hashes are not noticed": Bug(
        *(RoundBuffer, "diverges", lambda *_: False), Case(**_LIED_TO, lies=("second-release",))
    ),
    "a seal counts on another chain hash": Bug(
        *(Sealing, "recheck", _any_seal), Case(greeted=True, lies=("wrong-seal",))
    ),
    "a Halt convicts without proof": Bug(
        *(FaultDetector, "proof_in", _accuses_all), Case(**_LIED_TO, lies=("false-accusation",))
    ),
    "a mask key is made again after a crash": Bug(
        *(Masks, "key", _fresh_key), Case(**_MASKED, crashes=1)
    ),
    "the mask secret survives the seals": Bug(
        *(Disk, "record_seals", _keep_secret), Case(**_MASKED)
    ),
}
"""Every seeded bug by what it does wrong."""
