"""The options of `coordinator new` about members: their files, shares, floors and endowments.

Each mistake that people make gets a sentence of its own. Never here: a secret in a message.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from coordinator.bands import matching
from protocol.agreement.schema import SHARE
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime import files

EQUAL, SHARES = "equal", "shares"
"""Endowments without a number: equal parts, or none stated, which means by shares."""

Table = dict[str, Any]


def member_table(argument: str) -> Table:
    """Return the table of one `--member`: its file, and floor and share if given."""
    path, limits = argument, ""
    if not Path(argument).exists() and ":" in argument:
        path, _, limits = argument.rpartition(":")
    member = _member_file(Path(path), f"--member {argument!r}")
    floor, _, share = limits.rpartition("..")
    for key, number in (("share", share), ("floor", floor)):
        if number:
            member[key] = _fraction(number, f"--member {argument!r}", key)
    return member


def _member_file(path: Path, where: str) -> Table:
    """The table [[member]] in a file of `party keygen`."""
    if not path.exists():
        several = ""
        if "," in str(path) or " " in str(path):
            several = ". Give each member a --member of its own"
        raise BadAgreement(f"{where}: there is no file {str(path)!r}{several}")
    text = files.read_text(path, files.KEY_BYTES, f"{where}: {str(path)!r}", BadAgreement)
    _refuse_secret(text, path, where)
    try:
        [member] = tomllib.loads(text)["member"]
        return dict(member) if "name" in member else _no_member(where)
    except (KeyError, ValueError, TypeError):
        return _no_member(where)


def _no_member(where: str) -> Table:
    raise BadAgreement(
        f"{where}: it must be a file that `party keygen` wrote, NAME.member.toml with the name and "
        "the public keys of one member, optionally followed by :SHARE or :FLOOR..SHARE"
    )


def _refuse_secret(text: str, path: Path, where: str) -> None:
    """Refuse a key file. Its content must not reach a message."""
    try:
        content = json.loads(text)
        secret = isinstance(content, dict) and any("secret" in key for key in content)
    except ValueError:
        secret = False
    if secret:
        name = path.name.removesuffix(".key")
        raise BadAgreement(
            f"{where}: this is the SECRET key of {name!r}, which only {name!r} may have. Use "
            f"{name}.member.toml. If a member sent you this file, delete it, and ask the member to "
            "make new keys with `party keygen`"
        )


def set_endowments(members: list[Table], resources: list[Table], arguments: list[str]) -> None:
    """Add the endowments to the tables of the members.

    Without options they are equal parts. Where members have floors or resources a span, an equal
    part may have no meaning: then none is stated.
    """
    stated = any("endowment" in member for member in members)
    banded = any("floor" in member for member in members) or any("span" in r for r in resources)
    if not arguments and not stated:
        arguments = [SHARES if banded else EQUAL]
    words = [argument for argument in arguments if argument in (EQUAL, SHARES)]
    if words and len(arguments) > 1:
        raise BadCommand(
            f"--endowment {words[0]!r} is for all members; leave out the other --endowment"
        )
    if words == [EQUAL]:
        _set_equal(members, resources)
    elif not words:
        _set_given(members, [resource["name"] for resource in resources], arguments)


def _set_equal(members: list[Table], resources: list[Table]) -> None:
    """Give every member an equal part of each capacity."""
    parts = {
        r["name"]: r["capacity"] / r.get("span", r["capacity"]) / len(members) for r in resources
    }
    for member in members:
        share, floor = member.get("share", SHARE), member.get("floor", 0.0)
        for resource, part in parts.items():
            if isinstance(share, float) and isinstance(floor, float) and not floor <= part <= share:
                raise BadCommand(
                    f"an equal part of {resource!r} is {part:.4g}, but member {member['name']!r} "
                    f"may have {floor:g} to {share:g} of it; say what each member has without the "
                    f"others: --endowment MEMBER=FRACTION, or --endowment {SHARES}"
                )
        same = len(set(parts.values())) == 1
        member["endowment"] = next(iter(parts.values())) if same else dict(parts)


def _set_given(members: list[Table], resources: list[str], arguments: list[str]) -> None:
    """Add the endowments that the options state. Without a resource, one is for all the others."""
    tables = {table["name"]: table for table in members}
    endowments: dict[str, dict[str, float]] = {}
    for argument in arguments:
        option = f"--endowment {argument!r}"
        target, _, number = argument.partition("=")
        who, _, what = target.partition(":")
        fraction = _fraction(number, option, "endowment")
        named = matching(option, "resource", what, resources) if what else [""]
        for member in matching(option, "member", who, list(tables)):
            for resource in named:
                if resource in endowments.setdefault(member, {}):
                    raise BadCommand(f"{option} is given twice; give it once")
                endowments[member][resource] = fraction
    for member, fractions in endowments.items():
        for resource in resources:
            if "" not in fractions and resource not in fractions:
                raise BadCommand(
                    f"--endowment has no fraction of {resource!r} for {member!r}; add "
                    f"{member}:{resource}=FRACTION, or {member}=FRACTION for all other resources"
                )
        tables[member]["endowment"] = {r: fractions.get(r, fractions.get("")) for r in resources}


def _fraction(text: str, where: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    if "," in text:
        raise BadCommand(f"{where}: write the {what} with a point: {text.replace(',', '.')}")
    if what == "endowment":
        raise BadCommand(
            f"{where}: it must be MEMBER=FRACTION or MEMBER:RESOURCE=FRACTION, such as "
            f"acme:hours=0.4, or one of {EQUAL!r} and {SHARES!r} for all members"
        )
    raise BadCommand(f"{where}: the {what} {text!r} is no number; write a fraction like 0.6")
