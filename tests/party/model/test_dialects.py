"""Random models, written as programs and people write them, are read back number for number."""

import math
import random
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct, field

from party.model import model_file
from party.model.linear_program import LinearProgram

INFINITY = ("inf", "Inf", "infinity", "1e30", "1E+30", "1e20")


class Written(Struct):
    """A model as numbers, which a file must give back. Numbers are whole quarters."""

    maximise: bool
    cost: list[float]
    offset: float
    #: For each column its bounds and whether it is integer.
    lower: list[float]
    upper: list[float]
    integer: list[bool]
    #: For each row its coefficients and limits.
    rows: list[list[float]]
    limits: list[tuple[float, float]] = field(default_factory=list)


def drawn(rng: random.Random) -> Written:
    """A model of up to five columns and four rows. Every column is in the objective or a row."""
    n, m = rng.randint(1, 5), rng.randint(1, 4)

    def number() -> float:
        return rng.choice([-1, 1]) * rng.randint(1, 399) / 4.0

    model = Written(
        maximise=rng.random() < 0.5,
        cost=[number() for _ in range(n)],
        offset=rng.choice([0.0, number()]),
        lower=[],
        upper=[],
        integer=[rng.random() < 0.2 for _ in range(n)],
        rows=[[number() if rng.random() < 0.7 else 0.0 for _ in range(n)] for _ in range(m)],
    )
    for _ in range(n):
        low = rng.choice([0.0, 0.0, -math.inf, number()])
        high = rng.choice([math.inf, math.inf, max(low, 0.0) + abs(number())])
        model.lower.append(low)
        model.upper.append(high)
    for row in model.rows:
        if not any(row):
            row[0] = number()
        limit = number()
        model.limits.append(
            rng.choice(
                [
                    (-math.inf, limit),
                    (limit, math.inf),
                    (limit, limit),
                    (limit, limit + abs(number())),
                ]
            )
        )
    return model


class LpWriter:
    """Writes a model in the LP format, with another choice of spelling each time."""

    def __init__(self, rng: random.Random, model: Written) -> None:
        self.rng, self.model = rng, model
        self.names = [f"{rng.choice(['x', 'e', 'St', '_y', 'inf_', 'max'])}{i}" for i in range(5)]

    def text(self) -> str:
        pick = self.rng.choice
        model = self.model
        senses = ("Maximize", "max", "MAXIMISE") if model.maximise else ("Minimize", "min:", "MIN")
        parts = [
            pick(["", "\\ a comment: x <= 3\n", "\ufeff"]),
            pick(senses) + "\n",
            self._objective(),
            pick(["Subject To", "subject  to", "st", "s.t.", "such that", "ST:", "SUBJECT\tTO"]),
            "\n",
            *(self._row(i) for i in range(len(model.rows))),
            self._bounds(),
            self._integers(),
            pick(["End", "END", "end\n", "End \\ of it\n\n"]),
        ]
        return "".join(parts).replace("\n", pick(["\n", "\r\n"]))

    def _break(self) -> str:
        return self.rng.choice([" ", " ", "  ", "\t", "\n  ", " \\ so far\n "])

    def _number(self, value: float) -> str:
        return self.rng.choice([f"{value:.3f}", f"{value!r}", f"{value:.6e}", f"{value:.4E}"])

    def _sum(self, factors: list[float], constant: float = 0.0) -> str:
        terms, pick = [], self.rng.choice
        for name, factor in zip(self.names, factors, strict=False):
            halves = [factor / 2.0] * 2 if factor and pick([0, 0, 0, 1]) else [factor]
            for part in halves:  # a column may be repeated
                size = "" if abs(part) == 1.0 else self._number(abs(part)) + pick([" ", " * "])
                if part or factor:
                    terms.append(("-" if part < 0.0 else "+", size + name))
        if constant:
            at = self.rng.randint(0, len(terms))
            terms.insert(at, ("-" if constant < 0.0 else "+", self._number(abs(constant))))
        return "".join(f"{self._break()}{sign}{pick(['', ' '])}{term}" for sign, term in terms)

    def _objective(self) -> str:
        label = self.rng.choice(["", " obj:", " profit :"])
        return f"{label}{self._sum(self.model.cost, self.model.offset)}\n"

    def _row(self, number: int) -> str:
        pick, (low, high) = self.rng.choice, self.model.limits[number]
        terms = self._sum(self.model.rows[number])
        less, more = pick(["<=", "=<", "<", "< ="]), pick([">=", "=>", ">"])
        label = f" row{number}{pick([':', ' :'])}"
        if low == high:
            text = f"{terms} {pick(['=', '=='])} {self._number(low)}"
        elif math.isinf(low):
            text = f"{terms} {less} {self._number(high)}"
            text = pick([text, f"{self._number(high)} {more}{terms}"])
        elif math.isinf(high):
            text = f"{terms} {more} {self._number(low)}"
            text = pick([text, f"{self._number(low)} {less}{terms}"])
        else:
            text = f"{self._number(low)} {less} {terms} {less} {self._number(high)}"
        return f"{label} {text}\n"

    def _bounds(self) -> str:
        lines, pick = [], self.rng.choice
        for name, low, high in zip(self.names, self.model.lower, self.model.upper, strict=False):
            infinite = pick(INFINITY)
            bottom = f"-{infinite}" if math.isinf(low) else self._number(low)
            top = pick(["", "+"]) + infinite if math.isinf(high) else self._number(high)
            if math.isinf(low) and math.isinf(high):
                lines.append(pick([f"{name} free", f"{bottom} <= {name} <= {top}"]))
            elif low == 0.0 and math.isinf(high):
                lines += pick([[], [f"{name} >= 0"], [f"{name} <= {top}"]])
            else:
                both = [f"{bottom} <= {name} <= {top}"]
                apart = [f"{name} >= {bottom}", f"{name} <= {top}"]
                lines += pick([both, apart, [f"{top} >= {name} >= {bottom}"]])
        self.rng.shuffle(lines)
        return "".join(f" {line}\n" for line in [*(["\nBounds"] if lines else []), *lines])

    def _integers(self) -> str:
        model = self.model
        whole = [i for i, integer in enumerate(model.integer) if integer]
        names = [self.names[i] for i in whole]
        heading = self.rng.choice(["Generals", "gen", "General", "INTEGERS"])
        if any(model.lower[i] == 0.0 and math.isinf(model.upper[i]) for i in whole):
            heading = "General"  # under Integers a column must have bounds
        return f"{heading}\n {self._break().join(names)}\n" if names else ""


class MpsWriter:
    """Writes a model in the MPS format, with another choice of spelling each time."""

    def __init__(self, rng: random.Random, model: Written) -> None:
        self.rng, self.model = rng, model
        self.fixed = rng.random() < 0.4
        gap = " " if self.fixed else "_"
        self.names = [f"{rng.choice(['x', 'RHS', 'y' + gap])}{i}" for i in range(5)]
        self.rows = [f"{rng.choice(['r', 'c' + gap])}{i}" for i in range(4)]

    def _line(self, *fields: str) -> str:
        """Kind, name, name, number, name, number, of which the last may be missing."""
        if self.fixed:
            text = " {:<2} {:<8}  {:<8}  {:>12}   {:<8}  {:>12}".format(
                *fields, *[""] * (6 - len(fields))
            )
            return text.rstrip() + "\n"
        gap = self.rng.choice([" ", "   ", "\t"])
        return " " + gap.join(f for f in fields if f) + "\n"

    def _number(self, value: float) -> str:
        if math.isinf(value):
            text = self.rng.choice(INFINITY)
            return f"-{text}" if value < 0.0 else text
        return self.rng.choice([f"{value:.3f}", f"{value!r}", f"{value:.5E}", f"{value:.5e}"])

    def text(self) -> str:
        pick, model = self.rng.choice, self.model
        word = pick(["MAX", "MAXIMIZE", "max"] if model.maximise else ["MIN", "MINIMIZE"])
        sense = pick([f"OBJSENSE\n    {word}\n", f"OBJSENSE {word}\n", f"OBJSENSE:\n\t{word}\n"])
        if not model.maximise:
            sense = pick([sense, ""])
        kinds = [self._kind(*limits) for limits in model.limits]
        lines = [
            pick(["", "* a comment\n"]),
            pick(["NAME          model\n", "NAME\n"]),
            sense,
            "ROWS\n",
            self._line("N", "obj"),
            *(self._line(k, r) for k, r in zip(kinds, self.rows, strict=False)),
            "COLUMNS\n",
            *self._columns(),
            "RHS\n",
            *self._sides(kinds),
            *self._ranges(kinds),
            *self._bounds(),
            "ENDATA\n",
        ]
        return "".join(lines).replace("\n", pick(["\n", "\r\n"]))

    def _kind(self, low: float, high: float) -> str:
        if low == high or math.isinf(low) or math.isinf(high):
            return "E" if low == high else "L" if math.isinf(low) else "G"
        return self.rng.choice("LGE")

    def _columns(self) -> list[str]:
        lines, marked = [], False
        for j, whole in enumerate(self.model.integer):
            if whole != marked:
                lines.append(self._marker(begin=whole))
                marked = whole
            entries = [("obj", self.model.cost[j])]
            entries += [(r, a[j]) for r, a in zip(self.rows, self.model.rows, strict=False) if a[j]]
            self.rng.shuffle(entries)
            while entries:
                pair = [entries.pop() for _ in range(min(len(entries), self.rng.randint(1, 2)))]
                words = [word for r, value in pair for word in (r, self._number(value))]
                lines.append(self._line("", self.names[j], *words))
        if marked:
            lines.append(self._marker(begin=False))
        return lines

    def _marker(self, *, begin: bool) -> str:
        word = "'INTORG'" if begin else "'INTEND'"
        return f"    MARKER                 'MARKER'                 {word}\n"

    def _sides(self, kinds: list[str]) -> list[str]:
        vector, lines = self.rng.choice(["RHS", "b"]), []
        for name, kind, (low, high) in zip(self.rows, kinds, self.model.limits, strict=False):
            side = high if kind == "L" else low
            if kind == "E" and low != high:
                side = self.rng.choice([low, high])
            lines.append(self._line("", vector, name, self._number(side)))
        self.written = lines
        if self.model.offset:
            lines.append(self._line("", vector, "obj", self._number(-self.model.offset)))
        self.rng.shuffle(lines)
        return lines

    def _ranges(self, kinds: list[str]) -> list[str]:
        lines = []
        for i, (kind, (low, high)) in enumerate(zip(kinds, self.model.limits, strict=False)):
            if math.isinf(low) or math.isinf(high) or low == high:
                continue
            size = high - low
            if kind == "E":  # upwards from the lower limit, downwards from the upper
                at_low = any(
                    self.rows[i] in line and self._side_of(line) == low for line in self.written
                )
                size = size if at_low else -size
            else:
                size *= self.rng.choice([-1.0, 1.0])
            lines.append(self._line("", "RNG", self.rows[i], self._number(size)))
        return (["RANGES\n"] if lines else []) + lines

    def _side_of(self, line: str) -> float:
        return float(line.split()[-1])

    def _bounds(self) -> list[str]:
        lines, pick = [], self.rng.choice
        columns = zip(
            self.names, self.model.lower, self.model.upper, self.model.integer, strict=False
        )
        for name, low, high, whole in columns:
            own = []
            if math.isinf(low) and math.isinf(high):
                own.append(self._line("FR", "BND", name))
            elif math.isinf(low):
                own.append(self._line("MI", "BND", name))
            elif low:
                own.append(self._line("LI" if whole else "LO", "BND", name, self._number(low)))
            if not math.isinf(high):
                own.append(self._line("UI" if whole else "UP", "BND", name, self._number(high)))
            elif whole or (own and not math.isinf(low) and pick([0, 1])):
                own.append(self._line("PL", "BND", name))
            lines += own
        return (["BOUNDS\n"] if lines else []) + lines


def require_same(program: LinearProgram, model: Written, names: list[str]) -> None:
    """The program has the numbers of the model, whatever the order of its columns."""
    order = [program.columns.index(name) for name in names[: len(model.cost)]]
    matrix = np.zeros((len(program.rows), len(program.columns)))
    columns = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    np.add.at(matrix, (program.index, columns), program.value)
    assert program.maximise == model.maximise
    assert program.offset == pytest.approx(model.offset)
    assert program.cost[order].tolist() == pytest.approx(model.cost)
    assert program.lower[order].tolist() == model.lower
    assert program.upper[order].tolist() == model.upper
    assert program.integer[order].tolist() == model.integer
    assert matrix[:, order].tolist() == [pytest.approx(row) for row in model.rows]
    assert program.row_lower.tolist() == [low for low, _ in model.limits]
    assert program.row_upper.tolist() == [high for _, high in model.limits]


@pytest.mark.parametrize(("ending", "writer"), [("lp", LpWriter), ("mps", MpsWriter)])
def test_every_spelling_gives_the_same_model(
    tmp_path: Path, ending: str, writer: type[LpWriter] | type[MpsWriter]
) -> None:
    """400 models in spellings of several programs keep their sense, bounds, limits and numbers."""
    path = tmp_path / f"model.{ending}"
    for seed in range(400):
        rng = random.Random(seed)
        model = drawn(rng)
        dialect = writer(rng, model)
        text = dialect.text()
        path.write_bytes(text.encode())
        try:
            require_same(model_file.read(path), model, dialect.names)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{text}") from error
