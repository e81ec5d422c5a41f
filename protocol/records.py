"""Data classes that are cheap to define, because a process defines fifty of them when it starts.

`dataclasses.dataclass` compiles up to six functions for each class. Here all classes share the
functions below. The standard module still collects the fields, so that its `replace`, `fields`,
`astuple` and `field(default_factory=...)` work, and a type checker sees its decorator.
Never here: a check or a conversion of values.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class _Layout:
    """What the shared functions need to know about one class."""

    def __init__(self, cls: type) -> None:
        every = dataclasses.fields(cls)
        self.owner = cls
        self.names = {field.name: None for field in every}.keys()
        self.positional = [field.name for field in every if not field.kw_only]
        self.defaults = {f.name: f.default for f in every if f.default is not dataclasses.MISSING}
        self.factories: dict[str, Callable[[], Any]] = {
            f.name: f.default_factory for f in every if f.default_factory is not dataclasses.MISSING
        }
        self.values = attrgetter(*self.names) if every else lambda _: ()
        self.checked = hasattr(cls, "__post_init__")

    def complete(self, arguments: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        """The values of all fields, by name."""
        if len(arguments) > len(self.positional):
            raise TypeError(f"{self.owner.__name__}() takes {len(self.positional)} arguments")
        placed = dict(zip(self.positional, arguments, strict=False))
        made = {n: make() for n, make in self.factories.items() if n not in given}
        values = self.defaults | made | placed | given
        wrong = sorted((placed.keys() & given.keys()) | (values.keys() ^ self.names))
        if wrong:
            raise TypeError(f"{self.owner.__name__}() needs each field once: {', '.join(wrong)}")
        return values


def _init(self: Any, /, *arguments: Any, **given: Any) -> None:
    layout: _Layout = self.__layout__
    if not arguments and given.keys() == layout.names:
        self.__dict__.update(given)
    elif not given and len(arguments) == len(layout.names) == len(layout.positional):
        self.__dict__.update(zip(layout.positional, arguments, strict=True))
    else:
        self.__dict__.update(layout.complete(arguments, given))
    if layout.checked:
        self.__post_init__()


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__layout__.names)
    return f"{type(self).__qualname__}({fields})"


def _eq(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    values = self.__layout__.values
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self.__layout__.values(self))


def _setattr(self: Any, name: str, value: Any) -> None:
    layout: _Layout = self.__layout__
    if type(self) is layout.owner or name in layout.names:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delattr(self: Any, name: str) -> None:  # noqa: ARG001
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _define(cls: type[T], *, frozen: bool, kw_only: bool, repr: bool, eq: bool) -> type[T]:  # noqa: A002
    methods: dict[str, Any] = {"__init__": _init}
    methods |= {"__repr__": _repr} if repr else {}
    methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None} if eq else {}
    methods |= {"__setattr__": _setattr, "__delattr__": _delattr} if frozen else {}
    own = set(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # or the standard module computes a signature
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    cls.__layout__ = _Layout(cls)  # type: ignore[attr-defined]
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False, repr=True, eq=True):  # noqa: A002
        """As `dataclasses.dataclass`, with the options that this project uses."""

        def define(cls):
            return _define(cls, frozen=frozen, kw_only=kw_only, repr=repr, eq=eq)

        return define if cls is None else define(cls)
