"""Approvals: who agreed to what beforehand, and what passes for that and must not."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement, Role
from protocol.agreement.render import written as agreement_text
from protocol.errors import BadApproval, MissingApprovals
from protocol.runtime.approvals import read_approvals
from protocol.wire.approval import (
    Approval,
    approve,
    beyond,
    in_series,
    number_in_series,
    parse,
    require_signed,
    written,
)
from protocol.wire.messages import Hello
from tests.reference.make_approval_vectors import vectors
from tests.support import ROOT
from tests.support.builders import make_agreement, sign, signing_key

VECTORS = json.loads((ROOT / "tests" / "reference" / "vectors" / "approvals.json").read_text())
AGREEMENT = make_agreement(session="trucks-42")


def signs(name: str) -> Callable[[bytes], bytes]:
    key = signing_key(name)
    return lambda text: key.sign(text).signature


def approved(name: str, agreement: Agreement = AGREEMENT, **limits: float) -> Approval:
    last = int(limits.pop("last", 0))
    return approve(agreement, name, signs(name), last=last, **limits)


def test_reference_makes_these_vectors() -> None:
    """The file is what the reference implementation writes."""
    assert vectors() == VECTORS


def test_text_and_signature_are_those_of_the_reference() -> None:
    """The product signs the same bytes, and accepts the reference's signatures."""
    for case in VECTORS["approvals"]:
        members = tuple(
            replace(AGREEMENT.members[0], name=f"m{i}", signing_key=bytes.fromhex(case["key"]))
            for i in range(4)
        )
        agreement = replace(AGREEMENT, members=members)
        agreement.__dict__["digest"] = bytes.fromhex(VECTORS["digest"])  # a cached property
        approval = Approval(
            agreement=agreement.digest,
            session="trucks-42",
            member=f"m{case['place']}",
            place=case["place"],
            last=case["last"],
            within=case["within"],
            signature=bytes.fromhex(case["signature"]),
        )
        assert approval.text.hex() == case["text"]
        require_signed(approval, agreement)
        with pytest.raises(BadApproval, match="did not sign"):
            require_signed(replace(approval, last=case["last"] + 1), agreement)


def test_a_file_says_what_was_signed() -> None:
    """Writing and reading an approval gives the same one, standing or not."""
    for one in (approved("ada"), approved("ben", last=94, within=0.1)):
        assert parse(written(one)) == one
        require_signed(parse(written(one)), AGREEMENT)


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (lambda a: replace(a, member="ben", place=1), "'ben' did not sign it"),
        (lambda a: replace(a, member="ben"), "'ben' is not member 0"),
        (lambda a: replace(a, place=9), "is not member 9"),
        (lambda a: replace(a, last=99), "'ada' did not sign it"),
        (lambda a: replace(a, within=0.9), "'ada' did not sign it"),
        (lambda a: replace(a, signature=bytes(64)), "'ada' did not sign it"),
        (lambda a: replace(a, agreement=bytes(32)), "it is for agreement 00"),
    ],
)
def test_a_changed_approval_does_not_count(forge: Callable[[Approval], Approval], why: str) -> None:
    """Another member, place, limit, signature or digest is refused."""
    with pytest.raises(BadApproval, match=why):
        require_signed(forge(approved("ada", last=94, within=0.2)), AGREEMENT)


def test_an_approval_of_another_agreement_does_not_count() -> None:
    """A replayed approval of last week's terms is refused, also if only a key was exchanged."""
    for other in (
        make_agreement(session="trucks-41"),
        replace(
            AGREEMENT,
            members=(replace(AGREEMENT.members[0], signing_key=b"\7" * 32), *AGREEMENT.members[1:]),
        ),
    ):
        with pytest.raises(BadApproval, match="it is for agreement"):
            require_signed(approved("ada"), other)


def test_a_substituted_key_does_not_count() -> None:
    """Who replaces a member's key in the agreement cannot show that member's approval."""
    key = signing_key("mallory")
    members = (
        replace(AGREEMENT.members[0], signing_key=bytes(key.verify_key)),
        *AGREEMENT.members[1:],
    )
    other = replace(AGREEMENT, members=members)
    forged = approve(other, "ada", signs("mallory"))
    require_signed(forged, other)  # valid there, which is no agreement that ada has
    with pytest.raises(BadApproval, match="it is for agreement"):
        require_signed(forged, AGREEMENT)
    with pytest.raises(BadApproval, match="did not sign"):
        require_signed(replace(forged, agreement=AGREEMENT.digest), AGREEMENT)


def test_no_message_of_a_session_is_an_approval() -> None:
    """What members sign in a session begins with other bytes, so it cannot be shown as one."""
    signed = sign(
        Hello(
            sender="ada", agreement=AGREEMENT.digest, round=0, chain_hash=bytes(32),
            nonce=b"1" * 16, wants_reply=True, recorded=0, nonce_digest=bytes(32), echo=bytes(16),
            known_ahead=b"",
        )
    )  # fmt: skip
    forged = replace(approved("ada"), signature=signed.data[-64:])
    with pytest.raises(BadApproval, match="did not sign"):
        require_signed(forged, AGREEMENT)


def test_random_files_are_refused_in_words() -> None:
    """No text raises anything but `BadApproval`."""
    chance, text = random.Random(5), written(approved("ada", last=94, within=0.2))
    for _ in range(300):
        place = chance.randrange(len(text))
        changed = text[:place] + chr(chance.randrange(1, 0x250)) + text[place + 1 :]
        try:
            require_signed(parse(changed), AGREEMENT)
        except BadApproval:
            continue
        assert parse(changed).text == approved("ada", last=94, within=0.2).text


@pytest.mark.parametrize(
    ("first", "number", "name"),
    [
        ("trucks-42", 43, "trucks-43"),
        ("week-09", 10, "week-10"),
        ("week-08", 9, "week-09"),
        ("2026-W46", 47, "2026-W47"),
        ("trucks", 2, "trucks-2"),
        ("trucks", 1, "trucks"),
        ("x99", 100, "x100"),
    ],
)
def test_sessions_of_a_series_are_counted_up(first: str, number: int, name: str) -> None:
    """The number at the end counts, with its digits; without one the first is number 1."""
    assert in_series(first, number) == name
    assert number_in_series(first, name) == number


@pytest.mark.parametrize("other", ["trucks", "trucks-043", "truck-43", "trucks-43a", "43"])
def test_other_names_are_not_in_the_series(other: str) -> None:
    """A number has one name, so that no session is played twice under two names."""
    assert number_in_series("trucks-42", other) is None


def next_week(**changes: object) -> Agreement:
    return replace(AGREEMENT, session="trucks-43", **changes)


def _resource(**changes: object) -> dict[str, object]:
    first, *rest = AGREEMENT.resources
    return {"resources": (replace(first, **changes), *rest)}


@pytest.mark.parametrize(
    "change",
    [{}, _resource(capacity=12.0), _resource(capacity=8.0),
     {"pricing": replace(AGREEMENT.pricing, start=(1.0, 2.0))}],
)  # fmt: skip
def test_a_standing_approval_covers_capacities_within_its_limit(change: dict[str, object]) -> None:
    """The next session may have other capacities, up to the limit, and other first prices."""
    standing = approved("ada", last=94, within=0.2)
    assert beyond(standing, AGREEMENT, next_week(**change)) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_resource(capacity=12.1), "capacity of resource 'r0': 12.1 is more than 20 % from 10"),
        (_resource(capacity=7.9), "more than 20 %"),
        (_resource(worth=5.0), "worth of resource 'r0'"),
        (_resource(unit="kg"), "unit of resource 'r0'"),
        (_resource(operator=Role("thief", b"\5" * 32)), "operator of resource 'r0'"),
        ({"rounds": 4}, "rounds: 3 -> 4"),
        ({"mode": "private"}, "mode: exact -> private"),
        ({"reveal": "totals"}, "reveal: each -> totals"),
        ({"currency": "USD"}, "currency"),
        ({"clearing": Role("thief", b"\5" * 32)}, "clearing"),
        ({"members": AGREEMENT.members[:2]}, "member 'cyd' is left out"),
        ({"members": AGREEMENT.members[::-1]}, "the members, in this order"),
        ({"members": (replace(AGREEMENT.members[0], signing_key=b"\2" * 32),
                      *AGREEMENT.members[1:])}, "signing_key of member 'ada'"),
        ({"members": (replace(AGREEMENT.members[0], share=(0.1, 0.1)),
                      *AGREEMENT.members[1:])}, "share of member 'ada'"),
        ({"pricing": replace(AGREEMENT.pricing, step_size=9.0)}, "prices.step_size"),
        ({"session": "trucks-42"}, "is not one of 'trucks-43' to 'trucks-94'"),
        ({"session": "trucks-95"}, "is not one of"),
        ({"session": "trucks-41"}, "is not one of"),
        ({"session": "carts-43"}, "is not one of"),
    ],
)  # fmt: skip
def test_a_standing_approval_covers_nothing_else(change: dict[str, object], why: str) -> None:
    """Other terms, members, keys, recipients or sessions are not covered, and named."""
    standing = approved("ada", last=94, within=0.2)
    other = replace(AGREEMENT, **{"session": "trucks-43"} | change)
    assert why in " / ".join(beyond(standing, AGREEMENT, other))


def test_a_folder_shows_who_approved(tmp_path: Path) -> None:
    """Approvals of these terms and standing ones count; forged ones are named; others ignored."""
    later = next_week(**_resource(capacity=11.0))
    (tmp_path / "trucks-42.toml").write_text(agreement_text(AGREEMENT))
    files = {
        "ada": approved("ada", last=94, within=0.2),
        "ben": approved("ben", later),
        "cyd": replace(approved("ada", later), member="cyd", place=2),
        "old": approved("cyd"),
        "narrow": approved("cyd", last=94, within=0.01),
    }
    for name, approval in files.items():
        (tmp_path / f"{name}.approval.toml").write_text(written(approval))
    found = read_approvals(tmp_path, later)
    assert list(found.given) == ["ada", "ben"]
    assert found.missing == ["cyd"]
    assert "'cyd' did not sign it" in found.refused[0]
    assert "11 is more than 1 % from 10" in found.refused[1]
    assert found.lines()[0].endswith("up to 'trucks-94' with capacities within 20 %")
    with pytest.raises(MissingApprovals, match="no approval of 'cyd' for 'trucks-43'"):
        found.require_all()
    (tmp_path / "new.approval.toml").write_text(written(approved("cyd", later)))
    read_approvals(tmp_path, later).require_all()


def test_an_agreement_that_was_edited_after_approvals_is_named(tmp_path: Path) -> None:
    """An approval of other terms of the same session does not count, and both digests are told."""
    (tmp_path / "ada.approval.toml").write_text(written(approved("ada")))
    edited = replace(AGREEMENT, rounds=AGREEMENT.rounds + 1)
    found = read_approvals(tmp_path, edited)
    assert not found.given
    [line] = found.refused
    assert "ada.approval.toml: it is for other terms of 'trucks-42'" in line
    assert AGREEMENT.digest.hex() in line
    assert edited.digest.hex() in line
