"""The phases of a session as a page: a Mermaid diagram and a table, made from `TRANSITIONS`.

Never here: a phase or a transition that the table does not have.
"""

from protocol.session.phases import TRANSITIONS, Phase

_START = Phase.HANDSHAKE


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


def mermaid() -> str:
    """The diagram as Mermaid text."""
    lines = [f"    [*] --> {_words(_START.name)}"]
    for (phase, event), following in TRANSITIONS.items():
        arrow = f"{_words(phase.name)} --> {_words(following.name)}"
        lines.append(f"    {arrow}: {_words(event.name)}")
    left = {phase for phase, _ in TRANSITIONS}
    lines += [f"    {_words(phase.name)} --> [*]" for phase in Phase if phase not in left]
    return "\n".join(["stateDiagram-v2", *lines])


def page() -> str:
    """The page docs/phases.md."""
    rows = [
        f"| {_words(phase.name)} | {_words(event.name)} | {_words(following.name)} |"
        for (phase, event), following in TRANSITIONS.items()
    ]
    return "\n".join(
        [
            "# Phases of a session",
            "",
            "`scripts/phases` makes this page from the table in `protocol/session/phases.py`.",
            "A transition that is not listed here cannot happen.",
            "",
            "```mermaid",
            mermaid(),
            "```",
            "",
            "| phase | event | next phase |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(page(), end="")
