"""Small LP and MPS files, good, odd and wrong. The first line of each says what must happen."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from party.model import company_model
from party.model.best_response import Subproblem
from protocol.errors import BadData
from tests.support.sample_models import FILES, PLANTED, SHARED, agree

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
HOURS = np.array([10.0])
"""All files share `hours`, of which the company may have 10."""


def expected(path: Path) -> tuple[str, str]:
    """What must happen: `optimum NUMBER`, `unbounded`, or `refused: WORDS`."""
    line = path.read_text(encoding="utf-8-sig").splitlines()[0]
    kind, _, rest = line.lstrip("\\* ").partition(" ")
    return kind.rstrip(":"), rest


def test_the_corpus_is_complete() -> None:
    """There are at least 60 files, and both formats have good and wrong ones."""
    kinds = {(path.suffix, expected(path)[0]) for path in CORPUS}
    assert len(CORPUS) >= 60
    assert {(s, k) for s in (".lp", ".mps") for k in ("optimum", "refused")} <= kinds


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_a_file_is_read_as_its_author_meant_or_refused(path: Path) -> None:
    """The best plan is the one of the author's model, or the error names the line and the cure."""
    kind, rest = expected(path)
    if kind == "optimum":
        answer = Subproblem(company_model.read(path, agree("hours")), HOURS).answer(np.zeros(1))
        assert answer is not None
        assert answer.objective == pytest.approx(float(rest), abs=1e-6)
        return
    with pytest.raises(BadData) as refused:
        Subproblem(company_model.read(path, agree("hours")), HOURS)
    assert (rest or "the model is unbounded") in str(refused.value)


def refusal(path: Path) -> str:
    """The text of the error, if there is one."""
    try:
        company_model.read(path, SHARED)
    except BadData as error:
        return str(error)
    return ""


@given(st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_damaged_file_is_a_model_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A file whose words are moved, lost or doubled raises nothing but BadData without numbers."""
    name = data.draw(st.sampled_from(["plan.lp", "plan.mps"]))
    words = re.split(r"(\s+)", str(FILES[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
        words[i] = data.draw(st.sampled_from(["", words[j], f"{words[i]} {words[j]}", "*", "="]))
    path = tmp_path_factory.getbasetemp() / name
    path.write_text("".join(words))
    assert PLANTED not in refusal(path)
