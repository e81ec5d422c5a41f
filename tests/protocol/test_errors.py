"""One tree of errors: each kind has a branch, an exit code, and words for the operator."""

import pytest

from protocol import errors
from protocol.errors import LocalError, PeerError, SottoError, Unavailable

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SottoError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_says_what_is_wrong_and_what_to_do(kind: type[SottoError]) -> None:
    """The first line of the docstring has two sentences or clauses: the fault, then the remedy."""
    first = (kind.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert len([part for part in first.rstrip(".").replace(": ", ". ").split(". ") if part]) >= 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_is_ours_theirs_or_try_again(kind: type[SottoError]) -> None:
    """Every kind except the root belongs to exactly one branch."""
    branches = [b for b in (LocalError, PeerError, Unavailable) if issubclass(kind, b)]
    assert len(branches) == (kind is not SottoError)
