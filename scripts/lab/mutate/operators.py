"""Which changes there are: comparisons, arithmetic, constants, conditions, missing statements.

Texts are never changed: no test should depend on each word of a message. Nor is `strict=` of a zip,
which checks what the code around it has made sure of. Never here: running tests.
"""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip


class Mutant(Struct, frozen=True):
    """One change of one file."""

    path: Path
    #: Where it is: the statement's lines, and the function around it ("" for none).
    lines: range
    function: str
    #: The changed code, and what takes its place.
    before: str
    after: str
    #: The unchanged file, the part of it that goes, and what comes.
    tree: ast.Module
    old: ast.AST | None
    new: ast.AST | None

    @property
    def source(self) -> str:
        """The text of the whole changed file, which takes a while."""
        if self.old is None or self.new is None:
            return ast.unparse(self.tree)
        return ast.unparse(_replaced(self.tree, self.old, self.new))

    def __str__(self) -> str:
        place = f"{self.path}:{self.lines.start}"
        return f"{place} {self.function or 'module'}: {self.before} -> {self.after}"


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """Every change of a file, in the order of its text."""
    tree = ast.parse((root / path).read_text())
    for function, statement, node in list(_places(tree)):
        for changed in _changes(node):
            before, after = ast.unparse(node), ast.unparse(changed)
            if before != after:
                end = statement.end_lineno or statement.lineno
                if isinstance(statement, ast.If | ast.While | ast.For | ast.With | ast.Try):
                    end = statement.body[0].lineno - 1  # its own line, not its body
                lines = range(statement.lineno, max(statement.lineno, end) + 1)
                names = function, _short(before), _short(after)
                yield Mutant(path, lines, *names, tree, node, changed)


def placebo(path: Path, root: Path) -> Mutant:
    """A file that is written anew without any change: every test must pass with it."""
    tree = ast.parse((root / path).read_text())
    return Mutant(path, range(0), "", "nothing", "nothing", tree, None, None)


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
    """Every node that may change, with its function and its statement."""

    def walk(
        node: ast.AST, function: str, statement: ast.stmt | None
    ) -> Iterator[tuple[str, ast.stmt, ast.AST]]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name == "__repr__":
                return
            function = f"{function}.{node.name}".lstrip(".")
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.stmt):
            statement = node
        if statement is not None:
            yield function, statement, node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            if isinstance(node, ast.Raise):
                continue  # the words of an error
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom):
                    continue
                if isinstance(child, ast.AST):
                    yield from walk(child, function, statement)

    for statement in tree.body:
        yield from walk(statement, "", None)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in _COMPARE:
        new.ops[0] = _COMPARE[type(new.ops[0])]()
        yield new
    elif isinstance(new, ast.BinOp | ast.AugAssign) and type(new.op) in _BINARY:
        new.op = _BINARY[type(new.op)]()
        yield new
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        yield new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not | ast.USub):
        yield new.operand
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        yield ast.Constant(not new.value)
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        yield ast.Constant(new.value + 1)
    elif isinstance(new, ast.If | ast.IfExp | ast.While):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield new
    elif isinstance(new, ast.Return) and new.value is not None:
        if not isinstance(new.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
    elif isinstance(new, ast.Raise) or (
        isinstance(new, ast.Expr) and isinstance(new.value, ast.Call)
    ):
        yield ast.Pass()


def _replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    """A copy of the tree with one node replaced."""

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    memo: dict[int, object] = {id(old): old}
    copied = copy.deepcopy(tree, memo)
    Replace().visit(copied)
    return ast.fix_missing_locations(copied)
