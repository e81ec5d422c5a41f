"""Our data classes behave as those of the standard library: every test runs with both."""

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from protocol import records


@records.dataclass(frozen=True)
class Stored:
    """A record that a pickle can name."""

    number: int


@pytest.fixture(params=[dataclasses.dataclass, records.dataclass], ids=["standard", "ours"])
def dataclass(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def point(dataclass: Any) -> Any:
    """A frozen class with a default."""

    @dataclass(frozen=True)
    class Point:
        """A place."""

        x: int
        y: int = 2

    return Point


def test_values_go_to_fields_by_place_by_name_or_by_default(point: Any) -> None:
    """All three ways give equal records with equal hashes."""
    same = [point(1), point(1, 2), point(x=1), point(y=2, x=1), point(1, y=2)]
    assert {(p.x, p.y) for p in same} == {(1, 2)}
    assert len(set(same)) == 1
    assert same[0] != point(1, 3)
    assert same[0] != (1, 2)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1}), ((), {"y": 1})],
)
def test_a_wrong_field_is_refused(
    point: Any, arguments: tuple[int, ...], names: dict[str, int]
) -> None:
    """A field that is missing, unknown or given twice is an error."""
    with pytest.raises(TypeError):
        point(*arguments, **names)


def test_a_frozen_record_cannot_change(point: Any) -> None:
    """Neither a field nor anything else can be assigned or deleted."""
    one = point(1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x


def test_a_record_shows_its_fields_unless_told_not_to(dataclass: Any, point: Any) -> None:
    """Secrets have a class without a printed form."""

    @dataclass(frozen=True, repr=False, eq=False)
    class Secret:
        """Not shown."""

        key: str

    assert repr(point(1)).endswith("Point(x=1, y=2)")
    assert "s3cret" not in repr(Secret("s3cret"))
    assert Secret("a") != Secret("a")


def test_a_record_that_can_change_has_no_hash(dataclass: Any) -> None:
    """Its fields can be assigned, and each instance has its own default."""

    @dataclass
    class Basket:
        """What was bought."""

        items: list[int] = field(default_factory=list)

    one, other = Basket(), Basket()
    one.items.append(1)
    assert other.items == []
    other.items = [1]
    assert one == other
    with pytest.raises(TypeError):
        hash(one)


def test_a_subclass_adds_fields_and_checks(dataclass: Any) -> None:
    """Fields of the parent come first, and the check runs with all values in place."""

    @dataclass(frozen=True, kw_only=True)
    class Message:
        """Who says something."""

        sender: str

    @dataclass(frozen=True, kw_only=True)
    class Number(Message):
        """A message with a number."""

        number: int = 0

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(self.sender)

    assert [f.name for f in dataclasses.fields(Number)] == ["sender", "number"]
    with pytest.raises(ValueError, match="ada"):
        Number(sender="ada", number=-1)
    with pytest.raises(TypeError):
        Number("ada")
    assert Number(sender="ada") != Message(sender="ada")


def test_the_functions_of_the_standard_library_work(point: Any) -> None:
    """`replace` and `astuple` read our fields."""
    assert dataclasses.astuple(dataclasses.replace(point(1), y=5)) == (1, 5)


def test_a_record_survives_copies_and_pickles() -> None:
    """The solver's process gets its model this way."""
    one = Stored(3)
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
