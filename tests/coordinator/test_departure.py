"""The next session without a member that does not pay or is gone."""

from pathlib import Path

import pytest

from coordinator.departure import without
from protocol.agreement.parse import parse
from protocol.agreement.render import written
from protocol.errors import BadAgreement, BadCommand
from protocol.runtime.files import read_agreement
from protocol.wire.transcript import Transcript
from tests.support.builders import dump, make_agreement, play, public_key
from tests.support.commands import run_module

ENDOWMENTS = (0.5, 0.25, 0.125, 0.125)


def members(**terms: tuple[float, ...]) -> list[dict[str, object]]:
    """Four members, with these terms of each."""
    return [
        {
            "name": name,
            "signing_key": public_key(name).hex(),
            **{key: values[k] for key, values in terms.items()},
        }
        for k, name in enumerate(("ada", "ben", "cyd", "dan"))
    ]


def test_member_takes_along_what_it_brought() -> None:
    """Capacities shrink by its endowment, and the others keep their amounts."""
    old = make_agreement(members=4, member=members(endowment=ENDOWMENTS))
    new = parse(written(without(old, ["ada"])))
    assert [r.capacity for r in new.resources] == [5.0, 10.0]
    assert [m.name for m in new.members] == ["ben", "cyd", "dan"]
    assert [m.endowment[0] for m in new.members] == [0.5, 0.25, 0.25]


def test_capacities_stay_where_nobody_brings_anything() -> None:
    """Without endowments the others share what there is."""
    old = make_agreement(members=4)
    new = parse(written(without(old, ["ben", "dan"])))
    assert [r.capacity for r in new.resources] == [10.0, 20.0]
    assert [m.name for m in new.members] == ["ada", "cyd"]


def test_caps_keep_their_amounts() -> None:
    """A share is scaled with its capacity, to at most all of it."""
    shares = (1.0, 0.25, 0.75, 0.5)
    old = make_agreement(members=4, member=members(endowment=ENDOWMENTS, share=shares))
    assert [m.share[0] for m in without(old, ["ada"]).members] == [0.5, 1.0, 1.0]


def test_only_owner_of_a_resource_cannot_be_left_out() -> None:
    """A resource that no other member brings has no capacity left."""
    old = make_agreement(members=4, member=members(endowment=(1.0, 0.0, 0.0, 0.0)))
    with pytest.raises(BadCommand, match="r0"):
        without(old, ["ada"])


def test_unknown_member_is_refused() -> None:
    """A misspelt name changes nothing."""
    with pytest.raises(BadAgreement, match="zoe"):
        without(make_agreement(members=4), ["zoe"])


@pytest.mark.parametrize("rounds", [0, 1, None], ids=["before", "middle", "after"])
def test_command_begins_at_the_prices_reached(tmp_path: Path, rounds: int | None) -> None:
    """Before the first round, in the middle, or after the last, the others go on."""
    old = make_agreement(members=4, member=members(endowment=ENDOWMENTS))
    transcript, states = play(old, rounds=rounds) if rounds != 0 else (Transcript(()), [])
    (tmp_path / "a.toml").write_text(written(old))
    (tmp_path / "t").write_bytes(dump(old, transcript))
    done = run_module(
        *("coordinator", "new", "--session", "next", "--from", tmp_path / "t"),
        *("--agreement", tmp_path / "a.toml", "--without", "ada", "--out", tmp_path / "b.toml"),
        *("--key", tmp_path / "k", "--address", "tcp://127.0.0.1:5555"),
    )
    assert done.returncode == 0, done.stderr
    new = read_agreement(tmp_path / "b.toml")
    assert [m.name for m in new.members] == ["ben", "cyd", "dan"]
    if rounds == 1:
        assert list(new.pricing.start) == states[-1].prices.current.tolist()


@pytest.mark.parametrize("leaves", [(), ("--without", "ada")], ids=["all", "without one"])
def test_rounds_of_other_members_do_not_steer_the_next_session(
    tmp_path: Path, leaves: tuple[str, ...]
) -> None:
    """Totals of the earlier rounds include the member that left, so they are not carried over."""
    old = make_agreement(members=4, rounds=9, prices={"step": "center"})
    (tmp_path / "a.toml").write_text(written(old))
    (tmp_path / "t").write_bytes(dump(old, play(old, rounds=3)[0]))
    done = run_module(
        *("coordinator", "new", "--session", "next", "--from", tmp_path / "t", *leaves),
        *("--agreement", tmp_path / "a.toml", "--out", tmp_path / "b.toml"),
        *("--key", tmp_path / "k", "--address", "tcp://127.0.0.1:5555"),
    )
    assert done.returncode == 0, done.stderr
    assert bool(read_agreement(tmp_path / "b.toml").pricing.earlier) != bool(leaves)
