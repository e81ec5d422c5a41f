"""A real party that commits falsely, for tests of real processes.

Usage: `python -m tests.support.false_member HOW party join ...`, where HOW is a name in `LIES`.
Never give it real data.
"""

import hashlib
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace

from party.release import commitments
from protocol.commitment.group import IDENTITY, VALUE_BASE, add
from protocol.rounds import RoundState
from protocol.wire.messages import Commitment, Message, Signed

_numbers = commitments.committed_numbers
_message = commitments.Commitments.message


def _more(grains: int) -> None:
    """Commit to more grains of the first resource, with a proof that holds."""

    def lying(*arguments: object) -> tuple[int, ...]:
        first, *rest = _numbers(*arguments)  # type: ignore[arg-type]
        return first + grains, *rest

    commitments.committed_numbers = lying  # type: ignore[assignment]


def _changed(change: Callable[[Commitment], Message]) -> None:
    """Send another message than the one in the ledger."""

    def lying(self: commitments.Commitments, state: RoundState) -> Signed:
        honest = _message(self, state).message
        assert isinstance(honest, Commitment)
        return self._pack(change(honest))

    commitments.Commitments.message = lying  # type: ignore[method-assign]


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
    "swapped": lambda: _changed(lambda m: replace(m, points=m.points[::-1])),
}


if __name__ == "__main__":
    _, how, role, *arguments = sys.argv
    LIES[how]()
    sys.argv = [role, *arguments]
    runpy.run_module(role, run_name="__main__", alter_sys=True)
