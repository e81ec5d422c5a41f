"""An agreement is what its file says, with defaults for what the file leaves out."""

import numpy as np
import pytest
from msgspec.structs import asdict
from nacl.bindings import crypto_box_seal
from nacl.exceptions import CryptoError

from protocol.agreement.model import Pricing, Role
from protocol.agreement.parse import from_table, parse
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.agreement.schema import FINE_TICKS, TICKS
from protocol.errors import BadAgreement
from tests.support.agreement_tables import (
    CURVE,
    KEY,
    MISSING,
    centered,
    changed,
    full,
    masked,
    minimal,
    toml,
)


def test_every_stated_field_is_in_the_agreement() -> None:
    """Each field of the file has its value in the record."""
    agreement = parse(toml(full()))
    assert (agreement.session, agreement.mode, agreement.rounds) == ("spring", "clipped", 40)
    assert agreement.rehearsal is True
    assert (agreement.currency, agreement.pace_seconds) == ("EUR", 0.5)
    assert agreement.ticks == TICKS
    assert agreement.privacy is not None
    assert asdict(agreement.privacy) == {
        "epsilon": 1.0,
        "delta": 0.001,
        "accountant": "paper",
        "noise": "norm",
        "colluders": None,
        "overrun": None,
    }
    assert (agreement.reveal, agreement.masked) == ("each", False)
    assert (agreement.truncate, agreement.alpha, agreement.tau) == (True, 1.25, 0.02)
    assert agreement.objective_limit == 500.0
    assert agreement.width == 3
    assert agreement.pricing == Pricing(
        step="sqrt", step_size=0.5, momentum=0.25, nonnegative=False, start=(2.0, 3.0)
    )
    assert asdict(agreement.transport) == full()["transport"]
    left_out = {
        "span": None,
        "opposite": "",
        "operator": None,
        "overrun_price": None,
        "spare": None,
    }
    stated = [{**resource, **left_out} for resource in full()["resource"]]
    assert [asdict(r) for r in agreement.resources] == stated
    ada, ben = agreement.members
    assert (ada.name, ada.share, ada.signing_key) == ("ada", (0.5, 1.0), bytes.fromhex(KEY))
    assert (ada.transport_key, ada.address) == (CURVE, "tcp://ada.example.org:6000")
    assert (ada.endowment, ben.endowment) == ((0.25, 0.625), (0.75, 0.375))
    assert (ben.name, ben.share, ben.signing_key, ben.address) == ("ben", (0.75, 0.75), b"", "")
    assert quantities(agreement).capacity.tolist() == [12.5, 40.0]
    worth = quantities(agreement).worth
    assert worth is not None
    assert worth.tolist() == [100.0, 250.0]
    assert quantities(agreement).share.tolist() == [[0.5, 1.0], [0.75, 0.75]]
    assert quantities(agreement).share_ticks.tolist() == [[1 << 19, 1 << 20], [786432, 786432]]


def test_a_member_file_is_not_an_agreement() -> None:
    """The error says what the file is, before it misses a field."""
    with pytest.raises(BadAgreement, match="a member file, not an agreement; the convener makes"):
        parse(toml({"member": full()["member"][:1]}))


def test_missing_fields_get_the_defaults_of_the_mode() -> None:
    """A field that is left out gets the default of its mode."""
    exact, private = parse(toml(minimal())), parse(toml(minimal("private")))
    assert exact.pricing == Pricing(
        step="center",
        tolerance=1e-4,
        reserve=1e-10,
        trade_limit=0.01,
        answer_gap=1e-4,
        start=(0.0,),
    )
    assert private.pricing == Pricing(step="worth", start=(0.0,))
    assert (exact.ticks, private.ticks) == (FINE_TICKS, TICKS)
    assert exact.privacy is None
    assert private.privacy is not None
    assert (private.privacy.accountant, private.privacy.noise) == ("exact", "component")
    for agreement in (exact, private):
        assert (agreement.rehearsal, agreement.truncate, agreement.width) == (False, False, 1)
        assert (agreement.transport.topology, agreement.transport.coordinator) == ("relay", "")
        assert quantities(agreement).share.tolist() == [[1.0], [1.0]]
        assert agreement.currency == ""
        assert [member.endowment for member in agreement.members] == [(), ()]


@pytest.mark.parametrize(
    ("mode", "rehearsal", "pace"),
    [("private", False, 0.25), ("private", True, None), ("exact", False, None)],
)
def test_noise_has_a_pace_unless_it_is_a_rehearsal(
    mode: str, rehearsal: bool, pace: float | None
) -> None:
    """A session with a guarantee has a pace by default; any other only if the file states one."""
    table = minimal(mode) | {"rehearsal": rehearsal}
    assert parse(toml(table)).pace_seconds == pace
    agreed = parse(toml({**table, "pace_seconds": 2}))
    assert agreed.pace_seconds == 2.0
    assert agreed.digest != parse(toml(table)).digest


def test_stated_colluders_and_overrun_are_kept() -> None:
    """With `totals`, colluders and overrun have their stated values or their defaults."""
    stated = parse(toml(masked()))
    assert stated.masked
    assert stated.privacy is not None
    assert (stated.privacy.colluders, stated.privacy.overrun) == (2, 0.01)
    for field in ("colluders", "overrun"):
        table = changed(masked(), f"privacy.{field}", MISSING)
        privacy = parse(toml(table)).privacy
        assert privacy is not None
        assert getattr(privacy, field) == {"colluders": 1, "overrun": 0.05}[field]
    exact = changed(changed(masked(), "mode", "exact"), "privacy", {})
    assert parse(toml(exact)).masked
    assert parse(toml(exact)).pricing.step == "center"


def test_stated_tolerance_and_reserve_are_kept() -> None:
    """Tolerance and reserve have their stated values, 0 included."""
    pricing = parse(toml(centered())).pricing
    assert (pricing.tolerance, pricing.reserve, pricing.start) == (0.01, 0.001, (8.0,))
    exact = changed(changed(centered(), "prices.tolerance", 0), "prices.reserve", 0)
    assert parse(toml(exact)).pricing.tolerance == parse(toml(exact)).pricing.reserve == 0.0


@pytest.mark.parametrize("mode", ["exact", "private"])
@pytest.mark.parametrize(
    "shares", [[0.1] * 10, [1 / 3] * 3, [0.3, 0.3, 0.4], [0.7, 0.2, 0.1], [1e-4] * 10_000]
)
def test_shares_that_add_up_to_one_cover_every_tick(mode: str, shares: list[float]) -> None:
    """Rounding to ticks leaves no tick of a capacity uncovered."""
    members = [{"name": f"p{k}", "share": share} for k, share in enumerate(shares)]
    agreement = parse(toml(changed(minimal(mode), "member", members)))
    ticks = quantities(agreement).share_ticks[:, 0]
    assert ticks.sum() >= agreement.ticks
    assert np.abs(ticks - np.array(shares) * agreement.ticks).max() < 1.0


def test_one_endowment_may_stand_for_all_resources() -> None:
    """A single number is the endowment in every resource, and may equal the share."""
    table = changed(changed(full(), "member.0.endowment", 0.25), "member.1.endowment", 0.75)
    ada, ben = parse(toml(table)).members
    assert (ada.endowment, ben.endowment) == ((0.25, 0.25), (0.75, 0.75))


@pytest.mark.parametrize("count", [3, 7, 10, 1000])
def test_endowments_may_miss_one_by_rounding(count: int) -> None:
    """Equal endowments that floats cannot represent are accepted."""
    members = [{"name": f"p{k}", "endowment": 1 / count} for k in range(count)]
    agreement = parse(toml(changed(minimal(), "member", members)))
    assert agreement.members[0].endowment == (1 / count,)


def test_start_at_worth_is_the_worth_of_one_unit() -> None:
    """`start = "worth"` gives worth over capacity."""
    table = changed(full(), "prices.start", "worth")
    assert parse(toml(table)).pricing.start == (100.0 / 12.5, 250.0 / 40.0)


def test_objective_limit_is_by_default_the_sum_of_worths() -> None:
    """Without a limit, a shared objective is cut at the worth of all resources."""
    table = changed(full(), "privacy.objective_limit", MISSING)
    assert parse(toml(table)).objective_limit == 350.0


def test_a_member_is_found_by_name() -> None:
    """A name gives its row in the roster; an unknown name gives an error with the members."""
    agreement = parse(toml(full()))
    assert (agreement.place("ada"), agreement.place("ben")) == (0, 1)
    with pytest.raises(BadAgreement) as caught:
        agreement.place("cyd")
    assert str(caught.value) == "'cyd' is not a member of 'spring'; the members are 'ada', 'ben'"


def test_arrays_are_read_only() -> None:
    """A caller cannot change the arrays of an agreement."""
    agreement = parse(toml(full()))
    for array in (
        quantities(agreement).capacity,
        quantities(agreement).share,
        quantities(agreement).share_ticks,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_roles_that_receive_claims() -> None:
    """A clearing office and an operator are part of the digest, and survive being written."""
    plain_table, table = full(), full()
    table["clearing"] = {"name": "office", "key": "cd" * 32}
    table["resource"][0] |= {"operator": {"name": "depot", "key": KEY}, "overrun_price": 7.5}
    agreement = from_table(table)
    assert agreement.clearing == Role("office", bytes.fromhex("cd" * 32))
    assert agreement.resources[0].operator == Role("depot", bytes.fromhex(KEY))
    assert agreement.resources[0].overrun_price == 7.5
    assert agreement.digest != from_table(plain_table).digest
    assert parse(written(agreement)) == agreement


@pytest.mark.parametrize(
    "role", [{"name": "office"}, {"key": KEY}, {"name": "o", "key": "12"}, "office", {"x": 1}]
)
def test_incomplete_role_is_refused(role: object) -> None:
    """A role has a name and a key, and nothing else."""
    with pytest.raises(BadAgreement, match="clearing"):
        from_table(full() | {"clearing": role})


@pytest.mark.parametrize(
    "key",
    [
        "00" * 32,
        "01" + "00" * 31,
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 31,
    ],
)
def test_role_key_of_small_order_is_refused(key: str) -> None:
    """Nothing can be encrypted for such a key, so claims to it would fail after the session."""
    with pytest.raises(CryptoError):
        crypto_box_seal(b"claim", bytes.fromhex(key))
    with pytest.raises(BadAgreement, match=r"clearing\.key"):
        from_table(full() | {"clearing": {"name": "office", "key": key}})
