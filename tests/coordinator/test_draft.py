"""A first agreement from the command line: currency, units, endowments, certificate."""

import os
import re
from pathlib import Path

import pytest

from party import keys
from protocol.agreement.endowment import endowment
from protocol.runtime.files import read_agreement
from tests.support.drafts import EXACT, new

TOO_NOISY = (
    *("--mode", "private", "--epsilon", "0.000001", "--delta", "1e-10"),
    *("--rounds", "1000000"),
)
"""Terms with more noise than a message can carry: no party could join."""


def test_agreement_has_money_units_and_endowments(tmp_path: Path) -> None:
    """Currency, units, endowments and the certificate's terms are in the file, with comments."""
    done = new(
        tmp_path, *EXACT, "--currency", "EUR", "--unit", "hours=h",
        "--endowment", "acme=0.25", "--endowment", "bolt=0.75", "--endowment", "acme:docks=0.5",
        "--endowment", "bolt:docks=0.5", "--tolerance", 1e-5, "--reserve", 0,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert agreement.currency == "EUR"
    assert [r.unit for r in agreement.resources] == ["h", ""]
    assert [m.endowment for m in agreement.members] == [(0.25, 0.5), (0.75, 0.5)]
    assert agreement.pricing.step == "center"
    assert (agreement.pricing.tolerance, agreement.pricing.reserve) == (1e-5, 0.0)
    text = (tmp_path / "agreement.toml").read_text()
    for term in ("currency", "unit", "endowment", "tolerance", "reserve"):
        line = next(line for line in text.splitlines() if line.startswith(f"{term} = "))
        assert " # " in line


def test_agreement_has_defaults_for_options_that_are_left_out(tmp_path: Path) -> None:
    """There is no currency, endowments are equal, and the certificate has its default terms."""
    assert new(tmp_path, *EXACT).returncode == 0
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert agreement.currency == ""
    assert {m.endowment for m in agreement.members} == {(0.5, 0.5)}
    assert (agreement.pricing.tolerance, agreement.pricing.reserve) == (1e-4, 1e-10)


@pytest.mark.parametrize(
    ("names", "options", "reveal"),
    [
        (("acme", "bolt"), (), "each"),
        (("acme", "bolt", "coil"), (), "totals"),
        (("acme", "bolt", "coil"), ("--mode", "exact"), "totals"),
        (("acme", "bolt", "coil"), ("--mode", "clipped"), "each"),
        (("acme", "bolt", "coil"), ("--reveal", "each"), "each"),
    ],
)
def test_masks_are_the_default_where_they_are_possible(
    tmp_path: Path, names: tuple[str, ...], options: tuple[str, ...], reveal: str
) -> None:
    """From three members on only totals can be read, unless an option says otherwise."""
    done = new(tmp_path, *options, names=names)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_agreement(tmp_path / "agreement.toml").reveal == reveal


def test_a_byte_order_mark_changes_nothing(tmp_path: Path) -> None:
    """Some editors put it before the first letter of a file."""
    assert new(tmp_path, *EXACT, "--currency", "€").returncode == 0
    path, member = tmp_path / "agreement.toml", tmp_path / "acme.member.toml"
    before = read_agreement(path)
    for file in (path, member):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_agreement(path) == before
    path.unlink()
    assert new(tmp_path, *EXACT, "--currency", "€").returncode == 0
    assert read_agreement(path) == before


def test_colluders_and_risk_are_in_the_agreement(tmp_path: Path) -> None:
    """The options for totals with noise are in the file."""
    names = ("acme", "bolt", "coil", "dyna")
    assert new(tmp_path, "--colluders", 2, "--overrun", 0.01, names=names).returncode == 0
    privacy = read_agreement(tmp_path / "agreement.toml").privacy
    assert privacy is not None
    assert (privacy.colluders, privacy.overrun) == (2, 0.01)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--unit", "hous=h"), 2, "there is no resource 'hous'; there are hours, docks"),
        (("--unit", "hours"), 2, "it must be RESOURCE=UNIT"),
        (("--unit", "hours=h", "--unit", "hours=d"), 2, "hours has the unit 'h' already"),
        (("--endowment", "acm=1"), 2, "there is no member 'acm'; there are acme, bolt"),
        (("--endowment", "acme:x=1"), 2, "there is no resource 'x'; there are hours, docks"),
        (
            ("--endowment", "acme:docks=1"),
            2,
            "no fraction of 'hours' for 'acme'; add acme:hours=FRACTION",
        ),
        (("--endowment", "acme=half"), 2, "it must be MEMBER=FRACTION or MEMBER:RESOURCE=FRACTION"),
        (("--endowment", "acme=1", "--endowment", "acme=0"), 2, "is given twice"),
        (("--endowment", "acme=0.4"), 3, "'bolt' has none"),
        (("--endowment", "acme=0.4", "--endowment", "bolt=0.4"), 3, "add up to 0.8"),
        (("--currency", "a" * 9), 3, "at most 8 characters, like EUR"),
        (("--currency", os.fsdecode(b"\xa3")), 3, "it must be text in UTF-8"),
        (("--unit", "hours=" + os.fsdecode(b"St\xfcck")), 3, "it must be text in UTF-8"),
        (("--tolerance", "0.1", "--mode", "private"), 2, "--tolerance belongs to the certificate"),
        (("--reserve", "0.1", "--mode", "clipped"), 2, "--reserve belongs to the certificate"),
        (("--resource", "trucks=3", "--mode", "private"), 3, "'trucks=3' has no worth"),
        (("--reveal", "totals"), 3, "reveal is 'totals' with 2 members"),
        (("--colluders", "1"), 3, "privacy.colluders has no meaning where mode is 'exact'"),
        (("--mode", "private", "--overrun", "0.1"), 3, "no meaning where reveal is 'each'"),
        (TOO_NOISY, 3, "choose fewer rounds, or a larger epsilon or delta"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(
    tmp_path: Path, options: tuple[str, ...], code: int, text: str
) -> None:
    """The message says what to change, and nothing is written."""
    refused = new(tmp_path, *EXACT, *options)
    assert refused.returncode == code
    assert text in refused.stderr
    assert not (tmp_path / "agreement.toml").exists()
    assert not (tmp_path / "new.key").exists()


def test_a_share_that_does_not_bind_moves_no_money(tmp_path: Path) -> None:
    """With a cap on one member the endowments stay equal, which file and output explain."""
    member = tmp_path / "dart.member.toml"
    member.write_text(keys.generate("dart").member_table())
    done = new(tmp_path, *EXACT, "--member", f"{member}:0.6", names=("acme", "bolt", "coil"))
    assert done.returncode == 0
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert {m.endowment for m in agreement.members} == {(0.25, 0.25)}
    parts = endowment(agreement)
    assert (parts == agreement.ticks // 4).all()
    text = " ".join((tmp_path / "agreement.toml").read_text().replace("#", " ").split())
    for said in (" ".join(done.stdout.split()), text):
        assert "what a member has without the others" in said
        assert "equal parts, so that a share limits what a member may claim" in said


def test_endowments_by_shares_are_a_choice(tmp_path: Path) -> None:
    """With the word `shares` none is stated, and the file says what follows from that."""
    member = tmp_path / "dart.member.toml"
    member.write_text(keys.generate("dart").member_table())
    done = new(tmp_path, *EXACT, "--member", f"{member}:0.5", "--endowment", "shares")
    assert done.returncode == 0
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert {m.endowment for m in agreement.members} == {()}
    text = " ".join((tmp_path / "agreement.toml").read_text().replace("#", " ").split())
    assert "a member with a smaller share starts with less, and pays more" in text


def test_three_equal_parts_add_up(tmp_path: Path) -> None:
    """Thirds are no decimals, and still make an agreement."""
    assert new(tmp_path, *EXACT, names=("acme", "bolt", "coil")).returncode == 0
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert endowment(agreement).sum(axis=0).tolist() == [agreement.ticks] * 2
    assert endowment(agreement).max() - endowment(agreement).min() <= 1


@pytest.mark.parametrize(
    ("file", "code", "text"),
    [
        ("acme.key", 3, "this is the SECRET key of 'acme', which only 'acme' may have"),
        ("acme.key", 3, "ask the member to make new keys with `party keygen`"),
        ("gone.member.toml", 3, "there is no file"),
        ("acme.member.toml,bolt.member.toml", 3, "Give each member a --member of its own"),
        ("acme.member.toml:0,6", 2, "write the share with a point: 0.6"),
        ("acme.member.toml:half", 2, "the share 'half' is no number"),
        ("acme.member.toml:0.2", 2, "an equal part of 'hours' is 0.3333, but member 'acme' may"),
        ("latin.member.toml", 3, "it is not UTF-8 text"),
        ("empty.member.toml", 3, "it must be a file that `party keygen` wrote"),
    ],
)
def test_each_mistake_about_a_member_has_its_sentence(
    tmp_path: Path, file: str, code: int, text: str
) -> None:
    """A secret key, a missing file, a comma and a wrong encoding are named; nothing is written."""
    keys.keygen("acme", tmp_path)
    (tmp_path / "latin.member.toml").write_bytes('name = "Müller"'.encode("latin-1"))
    (tmp_path / "empty.member.toml").write_text("")
    secret = (tmp_path / "acme.key").read_text()
    refused = new(tmp_path, *EXACT, "--member", tmp_path / file, names=("bolt", "coil"))
    assert (refused.returncode, refused.stdout) == (code, "")
    assert text in refused.stderr
    assert not any(part in refused.stderr for part in re.findall(r'"([^"]{32,})"', secret))
    assert not (tmp_path / "agreement.toml").exists()


@pytest.mark.parametrize("resource", ["lifts=1,5", "lifts=1.200,50:9"])
def test_a_comma_in_a_capacity_has_its_sentence(tmp_path: Path, resource: str) -> None:
    """Decimals have a point in every file and option."""
    refused = new(tmp_path, *EXACT, "--resource", resource)
    assert refused.returncode == 3
    assert "write decimals with a point" in refused.stderr


def test_noise_that_leaves_nothing_to_gain_is_said_at_once(tmp_path: Path) -> None:
    """With four members and the default budget nothing is traded, and the convener reads it."""
    done = new(tmp_path, names=("acme", "bolt", "coil", "dyna"))
    assert done.returncode == 0
    assert "the noise leaves nothing to gain" in done.stdout
