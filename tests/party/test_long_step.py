"""A step that takes long is shown to people, and to nothing else."""

import io
import json
import threading

import pytest

from party.ui import long_step as steps
from party.ui.console import JsonView, ProgressView
from tests.support.sample_models import SHARED


def test_a_long_step_is_told_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is told again and again, without a number, until the step is over."""
    monkeypatch.setattr(steps, "FIRST_SECONDS", 0.01)
    told, enough = list[str](), threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 3:
            enough.set()

    with steps.long_step(tell, "solving your model"):
        assert enough.wait(60.0)
    count = len(told)
    assert told[:2] == ["solving your model ...", "still solving your model ..."]
    assert not any(letter.isdigit() for letter in "".join(told))
    assert threading.Event().wait(0.05) is False
    assert len(told) == count


def test_a_short_step_is_not_told_and_an_error_ends_it() -> None:
    """Nothing is told before the first seconds are over, and an error passes through."""
    told = list[str]()
    with pytest.raises(ValueError, match="wrong"), steps.long_step(told.append, "solving"):
        raise ValueError("wrong")
    assert told == []


def test_only_people_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A log has no line from which others could learn how long a model takes."""
    out = io.StringIO()
    JsonView(SHARED, out).privately("solving your model ...")
    assert out.getvalue() == ""
    JsonView(SHARED, out).note("a note")
    assert json.loads(out.getvalue())["text"] == "a note"
    ProgressView(SHARED).privately("solving your model ...")
    assert "solving your model ..." in capsys.readouterr().err
