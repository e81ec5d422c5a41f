"""A real party that commits falsely, for tests of real processes.

Usage: `python -m tests.support.false_member HOW party join ...`, where HOW is a name in `LIES`.
Never give it real data.
"""

import hashlib
import runpy
import sys
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from party.driver import Driver
from party.release import commitments
from protocol.commitment.group import IDENTITY, VALUE_BASE, add
from protocol.wire.messages import Commitment, Message, Signed

_numbers = commitments.committed_numbers
_commitment = commitments.commitment


def _more(grains: int) -> None:
    """Commit to more grains of the first resource, with a proof that holds."""

    def lying(*arguments: object) -> tuple[int, ...]:
        first, *rest = _numbers(*arguments)  # type: ignore[arg-type]
        return first + grains, *rest

    commitments.committed_numbers = lying  # type: ignore[assignment]


def _changed(change: Callable[[Commitment], Message]) -> None:
    """Send another message than the one in the ledger."""

    def lying(*arguments: Any) -> Signed:
        honest, pack = _commitment(*arguments).message, arguments[4]
        assert isinstance(honest, Commitment)
        signed: Signed = pack(change(honest))
        return signed

    commitments.commitment = lying  # type: ignore[assignment]


def _instead(answer: Callable[[Driver, Signed], list[Signed]]) -> None:
    """Withhold the own commitments, and answer each of another member with this."""
    respond, receive = Driver._respond, Driver.receive

    def silent(self: Driver) -> Iterable[Signed]:
        if self._due is not None and self._due[0].uncommitted:
            self._due = None
            return ()
        return respond(self)

    def answering(self: Driver, signed: Signed, now: float) -> list[Signed]:
        theirs = isinstance(signed.message, Commitment) and bool(signed.message.proof)
        return receive(self, signed, now) + (answer(self, signed) if theirs else [])

    Driver._respond = silent  # type: ignore[method-assign]
    Driver.receive = answering  # type: ignore[method-assign]


def _copies(of: str = "party2") -> Callable[[Driver, Signed], list[Signed]]:
    """Points and proof of another member, under the own signature."""

    def copied(driver: Driver, theirs: Signed) -> list[Signed]:
        if theirs.message.sender != of:
            return []
        return [driver._gate._pack(replace(theirs.message, sender=driver._gate._member))]

    return copied


def _with_proof(message: Commitment, proof: bytes) -> Commitment:
    return replace(message, proof=proof, proof_hash=hashlib.sha256(proof).digest())


def _first_point(point: bytes) -> Callable[[Commitment], Commitment]:
    return lambda m: replace(m, points=(point, *m.points[1:]))


LIES: dict[str, Callable[[], None]] = {
    "grains": lambda: _more(1000),
    "point": lambda: _changed(
        lambda m: replace(m, points=(add(m.points[0], VALUE_BASE), *m.points[1:]))
    ),
    "identity": lambda: _changed(_first_point(IDENTITY)),
    "small-order": lambda: _changed(_first_point(bytes(32))),
    "zero-scalars": lambda: _changed(
        lambda m: _with_proof(m, m.proof[:128] + bytes(len(m.proof) - 128))
    ),
    "no-proof": lambda: _changed(lambda m: replace(m, proof=b"")),
    "withheld": lambda: _instead(lambda *_: []),
    "copied": lambda: _instead(_copies()),
    "replayed": lambda: _instead(lambda _, theirs: [theirs] * 3),
    "another session": lambda: _changed(lambda m: replace(m, chain_hash=bytes(32))),
    "swapped": lambda: _changed(lambda m: replace(m, points=m.points[::-1])),
}


if __name__ == "__main__":
    _, how, role, *arguments = sys.argv
    LIES[how]()
    sys.argv = [role, *arguments]
    runpy.run_module(role, run_name="__main__", alter_sys=True)
