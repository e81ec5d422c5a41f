"""A first agreement from the command line: currency, units, endowments, certificate."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from party import keys
from protocol.runtime.files import read_agreement
from tests.support import ROOT
from tests.support.wait import LIMIT

EXACT = ("--mode", "exact")
TOO_NOISY = (
    *("--mode", "private", "--epsilon", "0.000001", "--delta", "1e-10"),
    *("--rounds", "1000000"),
)
"""Terms with more noise than a message can carry: no party could join."""


def new(
    folder: Path, *more: Any, names: tuple[str, ...] = ("acme", "bolt")
) -> subprocess.CompletedProcess[str]:
    """Run the real command for two resources, and two members by default."""
    members = []
    for name in names:
        path = folder / f"{name}.member.toml"
        if not path.exists():
            path.write_text(keys.generate(name).member_table())
        members += ["--member", path]
    return subprocess.run(
        [
            *(sys.executable, "-m", "coordinator", "new", "--session", "first"),
            *("--resource", "hours=120:9000", "--resource", "docks=16:4000"),
            *("--address", "tcp://relay.example.org:5555", "--key", str(folder / "new.key")),
            *("--out", str(folder / "agreement.toml"), *map(str, members), *map(str, more)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


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
    """There is no currency and no endowment, and the certificate has its default terms."""
    assert new(tmp_path, *EXACT).returncode == 0
    agreement = read_agreement(tmp_path / "agreement.toml")
    assert agreement.currency == ""
    assert {m.endowment for m in agreement.members} == {()}
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
        (("--unit", "hous=h"), 2, "the resources are hours, docks"),
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
