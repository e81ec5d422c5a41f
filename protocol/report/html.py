"""Pages that stand alone: HTML with its style and charts inside, and nothing to load from anywhere.

Every text goes through an element tree, which escapes it, so that no name can turn into
markup; markup is never put together as text. Nothing here knows of sessions or companies.
How a page looks is in `style.css`, which may name nothing that would have to be fetched.
"""

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

Content = Element | str

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH, _HEIGHT = 320.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 314.0, 10.0, 128.0
_POINTS = 400  # no line of a chart has more corners: a page of many rounds stays small
_MINUS, _THIN = "\u2212", "\u202f"
_POINT, _DIGIT = "\u2008", "\u2007"  # blanks as wide as these


def page(title: str, *content: Content, kind: str = "public", script: str = "") -> str:
    """A whole page as one text. On paper a `private` one says so on every sheet.

    Nothing runs on it but `script`, which may ask the page's own server and nobody else.
    """
    policy, scripts = _POLICY, list[Element]()
    if script:
        seal = b64encode(sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{seal}'; connect-src 'self'"
        scripts = [element("script", script)]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", "\n" + _style()),
    )
    whole = element("html", head, element("body", *content, *scripts, class_=kind), lang="en")
    return "<!DOCTYPE html>\n" + tostring(whole, encoding="unicode", method="html") + "\n"


@cache
def _style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """An element with texts and elements in it; `http_equiv` is the attribute `http-equiv`."""
    made = Element(tag)
    for name, value in attributes.items():
        made.set(name.rstrip("_").replace("_", "-"), value)
    for part in content:
        if isinstance(part, Element):
            made.append(part)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + part
        else:
            made.text = (made.text or "") + part
    return made


def section(heading: str, *content: Content) -> Element:
    return element("section", element("h2", heading), *content)


def paragraph(*content: Content) -> Element:
    return element("p", *content)


def callout(*content: Content) -> Element:
    """What nobody may overlook."""
    return element("p", *content, class_="callout", role="note")


def facts(*pairs: tuple[str, Content]) -> Element:
    """A row of figures, each under its name."""
    groups = [element("div", element("dt", n), element("dd", v)) for n, v in pairs]
    return element("dl", *groups, class_="facts")


def verdicts(*pairs: tuple[str, Content]) -> Element:
    """Answers in words, each beside the question."""
    groups = [element("div", element("dt", n), element("dd", v)) for n, v in pairs]
    return element("dl", *groups, class_="verdicts")


def aligned(texts: Sequence[str]) -> list[str]:
    """Figures of one column, filled up so that their decimal points stand below each other."""
    behind = [len(text) - text.index(".") if "." in text else 0 for text in texts]
    most = max(behind, default=0)
    blanks = [
        _DIGIT * (most - n) if n or not most else _POINT + _DIGIT * (most - 1) for n in behind
    ]
    return [text + blank for text, blank in zip(texts, blanks, strict=True)]


def grid(parts: Sequence[Element]) -> Element:
    """Parts of one kind side by side, as many as there is room for."""
    return element("div", *parts, class_="grid")


def code(*content: Content) -> Element:
    """Something to compare or to type, wrapped wherever the line ends."""
    return element("code", *content)


def number(text: str) -> Element:
    """A figure that is not broken over two lines."""
    return element("span", text, class_="n")


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Content]],
    *,
    foot: Sequence[Content] = (),
    caption: Content = "",
    kind: str = "wide",
) -> Element:
    """A table whose first column names its rows; all others hold figures.

    A foot with fewer cells than a row has a name that spans the columns without a total.
    """

    def row(cells: Sequence[Content], span: int = 1) -> Element:
        first = element("th", cells[0], scope="row", colspan=str(span))
        return element("tr", first, *(element("td", cell) for cell in cells[1:]))

    made = element("table", class_=kind)
    if caption != "":
        made.append(element("caption", caption))
    if head:
        names = (element("th", name, scope="col") for name in head)
        made.append(element("thead", element("tr", *names)))
    made.append(element("tbody", *map(row, rows)))
    if foot:
        made.append(element("tfoot", row(foot, 1 + len(rows[0]) - len(foot))))
    return made


def bar(part: float, kind: str = "full", *, mark: float | None = None) -> Element:
    """A bar filled to a part from 0 to 1; the figure that it shows stands beside it.

    A mark stands for another part, to compare; what is above it looks different.
    """
    end = min(max(part, 0.0), 1.0)
    within = end if mark is None else min(max(mark, 0.0), end)

    def rect(kind: str, left: float, right: float) -> Element:
        x, width = f"{100.0 * left:.2f}", f"{100.0 * (right - left):.2f}"
        return element("rect", class_=kind, x=x, width=width, height="8")

    parts = [rect("track", 0.0, 1.0), rect(kind, 0.0, within)]
    if within < end:
        parts.append(rect("above", within, end))
    if mark is not None:
        x = f"{100.0 * min(max(mark, 0.0), 1.0):.2f}"
        parts.append(element("line", class_="mark", x1=x, x2=x, y1="0", y2="8"))
    return element(
        "svg", *parts, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar",
        aria_hidden="true",
    )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line of a chart: a value for each round, and how it is drawn."""

    values: Sequence[float]
    kind: str = "main"


def chart(
    caption: str,
    note: str,
    lines: Sequence[Line],
    *,
    first: int,
    last: int | None = None,
    suffix: str = "",
    level: str = "",
    write: Callable[[float], str] | None = None,
) -> Element:
    """Lines over the rounds from `first` on, with zero in sight, where `level` stands for it.

    There is a value for every round, or as many as there are for those up to `last`, evenly.
    `write` says what a height stands for where that is not the height itself.
    """
    write = _brief if write is None else write
    low = min(0.0, *(min(line.values) for line in lines))
    high = max(0.0, *(max(line.values) for line in lines))
    high = high if high > low else low + 1.0

    def height(value: float) -> float:
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    drawing = element("svg", viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img", class_="chart")
    drawing.append(element("title", f"{caption}: {note}"))
    for step in round_numbers(low, high):
        y, kind, label = f"{height(step):.1f}", "rule", write(step) + suffix
        if step == 0.0:
            kind, label = "zero", level or label
        drawing.append(element("line", class_=kind, x1=f"{_LEFT:g}", x2=f"{_RIGHT:g}", y1=y, y2=y))
        drawing.append(_text(_LEFT - 6.0, height(step) + 3.5, label, "end"))
    drawing.extend(_path(line, height) for line in lines)
    last = first + len(lines[0].values) - 1 if last is None else last
    drawing.append(_text(_LEFT, _HEIGHT - 6.0, str(first), "start"))
    drawing.append(_text(_RIGHT, _HEIGHT - 6.0, f"round {last}", "end"))
    texts = [element("strong", caption), element("span", note)]
    return element("figure", element("figcaption", *texts), drawing)


def _text(x: float, y: float, text: str, anchor: str) -> Element:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _brief(value: float) -> str:
    """A round number in little room."""
    text = f"{value:.5g}" if abs(value) < 1e5 else f"{value:.2g}"
    return text.replace("e+0", "e").replace("e+", "e").replace("-", _MINUS)


def _path(line: Line, height: Callable[[float], float]) -> Element:
    count = len(line.values)
    every = math.ceil(count / _POINTS)
    places = sorted({*range(0, count, every), count - 1})
    width = (_RIGHT - _LEFT) / max(1, count - 1)
    points = [f"{_LEFT + width * i:.1f},{height(line.values[i]):.1f}" for i in places]
    if count == 1:
        points.append(f"{_RIGHT:.1f},{height(line.values[0]):.1f}")
    return element("polyline", class_=line.kind, points=" ".join(points))


def round_numbers(low: float, high: float) -> list[float]:
    """Two to six round numbers from `low` to `high`, which are not the same; 0 if it is there."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if (high - low) / (s * power) <= 5.0)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def figure(value: float, *, digits: int = 4) -> str:
    """A number for people: so many significant digits, thousands apart, a true minus."""
    if value == 0.0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -5 <= size < 15:
        return f"{value:.{digits - 1}e}".replace("-", _MINUS)
    return fixed(round(value * 10.0 ** max(0, digits - 1 - size)), max(0, digits - 1 - size))


def fixed(count: int, decimals: int) -> str:
    """`count` units of the last of so many decimals: 1234567 with two is 12 345.67."""
    whole, rest = divmod(abs(count), 10**decimals)
    text = f"{whole:,}".replace(",", _THIN) + (f".{rest:0{decimals}}" if decimals else "")
    return _MINUS + text if count < 0 else text
