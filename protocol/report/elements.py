"""Building blocks of pages: HTML elements with the style inside the page, which loads nothing.

Every text goes through an element tree, which escapes it: no name can become markup.
Never here: anything about sessions or companies, or an address to fetch something from.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

Content = Element | str

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(
    title: str, *content: Content, kind: str = "public", notice: Content = "", script: str = ""
) -> str:
    """A complete page as text. A printed `private` page says so on every sheet.

    Its content is the main part, and `notice` stands above it. Only `script` runs on the page, and
    it can reach only the page's own server.
    """
    policy, scripts = _POLICY, list[Element]()
    if script:
        digest = b64encode(sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{digest}'; connect-src 'self'"
        scripts = [element("script", script)]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("title", title),
        element("style", "\n" + _style()),
    )
    body = element("body", notice, element("main", *content), *scripts, class_=kind)
    root = element("html", head, body, lang="en")
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


@cache
def _style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def element(tag: str, *content: Content, **attributes: str) -> Element:
    """An element with texts and elements in it; `http_equiv` is the attribute `http-equiv`."""
    parent = Element(tag)
    for name, value in attributes.items():
        parent.set(name.rstrip("_").replace("_", "-"), value)
    for child in content:
        if isinstance(child, Element):
            parent.append(child)
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + child
        else:
            parent.text = (parent.text or "") + child
    return parent


def section(heading: str, *content: Content) -> Element:
    """A heading and what follows it; every text becomes a paragraph."""
    elements = (paragraph(part) if isinstance(part, str) else part for part in content)
    return element("section", element("h2", heading), *elements)


def paragraph(*content: Content) -> Element:
    return element("p", *content)


def lead(*content: Content) -> Element:
    """The first, larger paragraph of a section."""
    return element("p", *content, class_="lead")


def small(*content: Content) -> Element:
    """A footnote."""
    return element("p", *content, class_="small")


def callout(*content: Content) -> Element:
    """A paragraph in a frame, for what the reader must not overlook."""
    return element("p", *content, class_="callout", role="note")


def page_header(eyebrow: str, title: str, *content: Content) -> Element:
    """The top of a page."""
    top = element("p", eyebrow, class_="eyebrow")
    return element("header", top, element("h1", title), *content)


def facts(*pairs: tuple[str, Content]) -> Element:
    """A row of figures, each under its name."""
    return _definitions("facts", pairs)


def verdicts(*pairs: tuple[str, Content]) -> Element:
    """Answers in words, each next to its question."""
    return _definitions("verdicts", pairs)


def _definitions(kind: str, pairs: Sequence[tuple[str, Content]]) -> Element:
    groups = (element("div", element("dt", n), element("dd", v)) for n, v in pairs)
    return element("dl", *groups, class_=kind)


def grid(elements: Sequence[Element]) -> Element:
    """Elements of one kind side by side, as many as fit."""
    return element("div", *elements, class_="grid")


def code(*content: Content) -> Element:
    """Text to compare or to type; it wraps at the end of any line."""
    return element("code", *content)


def number(text: str) -> Element:
    """A figure that is never broken over two lines."""
    return element("span", text, class_="n")


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[Content]],
    *,
    foot: Sequence[Content] = (),
    caption: Content = "",
    kind: str = "wide",
) -> Element:
    """A table whose first column names its rows; all other columns hold figures.

    If the foot has fewer cells than a row, its first cell spans the missing columns.
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


def bar(fraction: float, kind: str = "full", *, mark: float | None = None) -> Element:
    """A bar filled to a fraction from 0 to 1; its figure stands beside it.

    A mark shows another fraction to compare with. What is above the mark looks different.
    """
    end = min(max(fraction, 0.0), 1.0)
    within = end if mark is None else min(max(mark, 0.0), end)

    def rect(kind: str, left: float, right: float) -> Element:
        x, width = f"{100.0 * left:.2f}", f"{100.0 * (right - left):.2f}"
        return element("rect", class_=kind, x=x, width=width, height="8")

    shapes = [rect("track", 0.0, 1.0), rect(kind, 0.0, within)]
    if within < end:
        shapes.append(rect("above", within, end))
    if mark is not None:
        x = f"{100.0 * min(max(mark, 0.0), 1.0):.2f}"
        shapes.append(element("line", class_="mark", x1=x, x2=x, y1="0", y2="8"))
    return element(
        "svg", *shapes, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar",
        aria_hidden="true",
    )  # fmt: skip
