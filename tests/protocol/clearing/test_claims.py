"""Claims against a sealed session, what they add up to, and use against quota."""

import json
import os
import random
from collections.abc import Callable
from contextlib import nullcontext
from fractions import Fraction
from functools import cache

import pytest
from msgspec.structs import replace
from nacl.public import PrivateKey

from party.ledger.secret_records import Opening
from protocol.agreement.quantities import amounts
from protocol.clearing.claims import (
    CLAIM_BYTES,
    MOST_BYTES,
    NO_RECIPIENT,
    Claim,
    decrypted,
    packed,
    recipient_of,
    verified,
)
from protocol.clearing.settle import coin_places, from_claims, from_transcript, netted
from protocol.clearing.use import compare, overrun_price, read_use
from protocol.commitment.group import ORDER
from protocol.errors import BadClaim, BadCommand
from protocol.outcome.outcome import Outcome, outcome
from protocol.outcome.private_quota import Allocation
from protocol.report.public import public_page
from protocol.report.settlement import (
    overruns,
    payments_csv,
    problems,
    quotas_csv,
    settlement_figures,
    settlement_page,
)
from tests.support.builders import make_agreement, play, public_key, signing_key
from tests.support.committed_sessions import CommittedSession, play_until_over

OFFICE, DEPOT = PrivateKey(b"o" * 32), PrivateKey(b"d" * 32)


def role(name: str, key: PrivateKey) -> dict[str, str]:
    return {"name": name, "key": bytes(key.public_key).hex()}


AGREEMENT = make_agreement(
    members=4,
    rounds=4,
    reveal="totals",
    currency="EUR",
    prices={"step": "constant", "step_size": 0.01, "start": "worth"},  # random answers trade
    clearing=role("office", OFFICE),
    resource=[
        {"name": "trucks", "capacity": 240.0, "unit": "hours", "worth": 9000.0,
         "operator": role("depot", DEPOT)},
        {"name": "docks", "capacity": 30.0, "worth": 500.0, "overrun_price": 7.0},
    ],
)  # fmt: skip
PAYMENT = 2


@cache
def session(seed: int) -> tuple[list[tuple[Opening, Allocation]], Outcome]:
    """What each member keeps after a session, and the outcome."""
    played = play_until_over(AGREEMENT, seed)
    known = played.sealed()
    kept = [(ledger.opening(), ledger.allocation()) for ledger in played.ledgers]
    return [(o, a) for o, a in kept if o is not None and a is not None], known


def claim(place: int, index: int, seed: int = 1) -> Claim:
    """The true claim of a member to one of its numbers."""
    kept, known = session(seed)
    return opened(kept[place][0], known, place, index)


def opened(opening: Opening, known: Outcome, place: int, index: int) -> Claim:
    """The claim that an opening gives."""
    return Claim(
        agreement=known.agreement.digest,
        chain_hash=known.state.chain_hash,
        place=place,
        index=index,
        recipient=recipient_of(known.agreement, index),
        number=opening.numbers[index],
        blinding=opening.blindings[index],
    )


def claim_of(played: CommittedSession, known: Outcome, place: int, index: int) -> Claim:
    """The true claim of a member of any session."""
    opening = played.ledgers[place].opening()
    assert opening is not None
    return opened(opening, known, place, index)


def in_file(one: Claim) -> bytes:
    name = AGREEMENT.members[one.place].name
    return packed(one, lambda text: signing_key(name).sign(text).signature)


@pytest.mark.parametrize("index", range(3))
def test_true_claim_is_verified(index: int) -> None:
    """A claim that a member makes from its openings passes for its recipient."""
    secret = {0: bytes(DEPOT), 1: None, PAYMENT: bytes(OFFICE)}[index]
    one = claim(2, index)
    assert verified(session(1)[1], decrypted(in_file(one), secret)) == one


def test_all_claims_have_one_length() -> None:
    """The length of a claim says nothing about its number, its kind or its member."""
    files = {len(in_file(claim(place, index))) for place in range(4) for index in (0, PAYMENT)}
    assert files == {MOST_BYTES}
    assert len(in_file(claim(0, 1))) == CLAIM_BYTES


def test_encrypted_claim_is_for_its_recipient_only() -> None:
    """Another recipient, or no key, cannot read it."""
    data = in_file(claim(0, 0))
    for secret in (bytes(OFFICE), None):
        with pytest.raises(BadClaim):
            decrypted(data, secret)


COMMITTED, SESSION, RECIPIENT = "than it committed to", "another session", "another recipient"
LIES: dict[str, tuple[str, Callable[[Claim], Claim]]] = {
    "one grain more": (COMMITTED, lambda c: replace(c, number=c.number + 1)),
    "one grain less": (COMMITTED, lambda c: replace(c, number=c.number - 1)),
    "another blinding": (COMMITTED, lambda c: replace(c, blinding=(c.blinding + 1) % ORDER)),
    "no blinding": (COMMITTED, lambda c: replace(c, blinding=0)),
    "another resource": (COMMITTED, lambda c: replace(c, index=1, recipient=NO_RECIPIENT)),
    "payment as a quota": (COMMITTED, lambda c: replace(c, number=claim(c.place, 2).number)),
    "opening of another member": (
        COMMITTED,
        lambda c: replace(c, number=claim(3, 0).number, blinding=claim(3, 0).blinding),
    ),
    "no recipient": (RECIPIENT, lambda c: replace(c, recipient=NO_RECIPIENT)),
    "office": (RECIPIENT, lambda c: replace(c, recipient=bytes(OFFICE.public_key))),
    "session": (SESSION, lambda c: replace(c, chain_hash=bytes(32))),
    "agreement": (SESSION, lambda c: replace(c, agreement=bytes(32))),
    "no such member": ("does not have", lambda c: replace(c, place=4)),
    "no such resource": ("does not have", lambda c: replace(c, index=3)),
}


@pytest.mark.parametrize(("why", "lie"), LIES.values(), ids=LIES.keys())
def test_false_claim_is_refused_though_signed(why: str, lie: Callable[[Claim], Claim]) -> None:
    """A member that signs anything else than its committed number does not pass."""
    false = lie(claim(1, 0))
    data = false.text + signing_key("ben").sign(false.text).signature
    with pytest.raises(BadClaim, match=why):
        verified(session(1)[1], data)


@pytest.mark.parametrize("seed", range(1, 7))
def test_in_any_session_only_the_committed_number_passes(seed: int) -> None:
    """Random sessions, members and numbers: the true claim passes, and each false one does not."""
    chance, (_, known) = random.Random(seed), session(seed)
    place, index = chance.randrange(4), chance.randrange(3)
    one = claim(place, index, seed)
    others = [
        replace(one, number=one.number + chance.choice((1, -1)) * (1 << chance.randrange(30))),
        replace(one, blinding=chance.randrange(ORDER)),
        replace(one, place=(place + 1) % 4),
        replace(one, index=(index + 1) % 3, recipient=recipient_of(AGREEMENT, (index + 1) % 3)),
        replace(one, chain_hash=session(seed % 6 + 1)[1].state.chain_hash),
        replace(one, recipient=chance.randbytes(32)),
    ]
    for other in (one, *others):
        key = signing_key(AGREEMENT.members[other.place].name)
        data = other.text + key.sign(other.text).signature if other.number >= 0 else b""
        with nullcontext() if other is one else pytest.raises(BadClaim):
            assert verified(known, data) == one


def test_claim_that_another_member_signed_is_refused() -> None:
    """A recipient that shows a claim on cannot change it, and no one can sign for a member."""
    one = claim(1, 0)
    with pytest.raises(BadClaim, match="did not sign"):
        verified(session(1)[1], one.text + signing_key("ada").sign(one.text).signature)


def test_claim_of_another_session_of_the_same_agreement_is_refused() -> None:
    """Openings of one session open nothing in another."""
    old = replace(claim(1, 0, seed=2), chain_hash=session(1)[1].state.chain_hash)
    data = old.text + signing_key("ben").sign(old.text).signature
    with pytest.raises(BadClaim, match=COMMITTED):
        verified(session(1)[1], data)


@pytest.mark.parametrize("at", [0, 20, 60, 100, 150, 200, -1])
def test_changed_byte_is_found(at: int) -> None:
    """Any changed byte of a claim makes it invalid."""
    one = claim(1, 1)
    data = bytearray(in_file(one))
    data[at] ^= 4
    with pytest.raises(BadClaim):
        verified(session(1)[1], bytes(data))


def test_payments_are_zero_together_to_the_cent() -> None:
    """With the claims of all members the payments add up to zero, and each is as computed."""
    for seed in range(1, 6):
        kept, known = session(seed)
        claims = [claim(place, PAYMENT, seed) for place in range(4)]
        clearing = from_claims(known, claims, {})
        assert clearing.balanced
        assert not clearing.missing
        assert sum(clearing.payments.values()) == 0
        assert all(clearing.payments.values())
        for (_, own), cents in zip(kept, clearing.payments.values(), strict=True):
            assert abs(Fraction(own.payment) * 100 - cents) < 2


CURRENCIES = {"EUR": 2, "JPY": 0, "KWD": 3, "kEUR": 6, "": 6}
"""With the decimals of a coin; those of a currency that people do not pay in follow from prices."""


@pytest.mark.parametrize(("currency", "places"), CURRENCIES.items())
def test_payments_are_in_coins_of_the_currency(currency: str, places: int) -> None:
    """No payment has a fraction of a coin. None vanishes where a unit of money is much."""
    small = places == 6
    agreement = make_agreement(
        members=4,
        rounds=4,
        resources=1,
        reveal="totals",
        currency=currency,
        prices={"step": "constant", "step_size": 1e-6, "start": "worth"},
        resource=[{"name": "trucks", "capacity": 240.0, "worth": 3.0 if small else 9000.0}],
    )
    played = play_until_over(agreement, 1)
    known = played.sealed()
    assert coin_places(known) == places
    claims, exact = [], []
    for place, ledger in enumerate(played.ledgers):
        claims.append(claim_of(played, known, place, 1))
        own = ledger.allocation()
        assert own is not None
        exact.append(Fraction(own.payment))
    clearing = from_claims(known, claims, {})
    shown = settlement_figures(clearing, [])["payments"].values()
    assert sum(map(Fraction, shown)) == 0
    assert {len(text.partition(".")[2]) for text in shown} == {places}
    for text, paid in zip(shown, exact, strict=True):
        assert abs(Fraction(text) - paid) < 2 * Fraction(1, 10**places)
        assert paid
    assert payments_csv(clearing).count("transfer,") == len(clearing.transfers) > 0


def test_session_without_trade_is_settled_too() -> None:
    """All payments are known and 0. The sheet does not say that any is missing."""
    agreement = make_agreement(members=3, rounds=2, reveal="totals", prices={"step": "center"})
    played = play_until_over(agreement, 1)
    known = played.sealed()
    claims = [claim_of(played, known, place, 2) for place in range(3)]
    clearing = from_claims(known, claims, {})
    assert clearing.balanced
    assert set(clearing.payments.values()) == {0}
    page = settlement_page(clearing, [])
    assert "No member pays, and none is paid." in page
    assert "Not all payments are known" not in page


def test_name_of_a_refused_file_cannot_damage_the_sheet() -> None:
    """A member chooses the name of its file: it may be no text, or hold codes for a terminal."""
    _, known = session(1)
    name = os.fsdecode(b"x\xff\x1b[2J.claim")
    clearing = from_claims(known, [claim(0, PAYMENT)], {name: "it is damaged"})
    assert "it is damaged" in settlement_page(clearing, []).encode().decode()
    assert all(line.isprintable() for line in problems(clearing))
    assert json.loads(json.dumps(settlement_figures(clearing, [])))["refused"]


def test_quotas_are_those_of_the_members_and_fit_the_capacity() -> None:
    """What a depot may serve is each member's quota, up to a grain, and fits the capacity."""
    kept, known = session(1)
    clearing = from_claims(known, [claim(place, 0) for place in range(4)], {})
    shown = clearing.quotas["trucks"]
    assert sum(map(Fraction, shown.values())) <= 240
    for place, ((_, own), amount) in enumerate(zip(kept, shown.values(), strict=True)):
        exact = amounts(AGREEMENT, own.quota, place)[0]
        assert 0.0 <= exact - amount <= 240.0 / (1 << 24)


def test_missing_claims_are_named() -> None:
    """Of what is claimed by some, those who did not claim are named, and nothing is netted."""
    _, known = session(1)
    clearing = from_claims(known, [claim(0, PAYMENT), claim(2, PAYMENT), claim(1, 0)], {})
    assert clearing.missing == {"": ("ben", "dan"), "trucks": ("ada", "cyd", "dan")}
    assert not clearing.balanced
    assert clearing.transfers == ()


def test_public_releases_need_no_claims() -> None:
    """Where single releases are public, quotas and payments follow from the transcript."""
    agreement = make_agreement(members=3, prices={"step": "center"}, rounds=9)
    known = outcome(agreement, play(agreement)[0])
    clearing = from_transcript(known)
    assert sum(clearing.payments.values()) == 0
    assert set(clearing.quotas) == {"r0", "r1"}
    assert sum(map(Fraction, clearing.quotas["r0"].values())) <= 10


@pytest.mark.parametrize("seed", range(20))
def test_transfers_settle_every_account(seed: int) -> None:
    """Transfers bring every member to what it pays, and are fewer than there are members."""
    chance = random.Random(seed)
    coins = [chance.randrange(-1000, 1000) for _ in range(chance.randrange(1, 9))]
    payments = {f"m{i}": c for i, c in enumerate([*coins, -sum(coins)])}
    left = dict(payments)
    transfers = netted(payments)
    for transfer in transfers:
        assert transfer.coins > 0
        left[transfer.payer] -= transfer.coins
        left[transfer.payee] += transfer.coins
    assert not any(left.values())
    assert len(transfers) < len(payments)


def test_use_above_the_quota_is_priced() -> None:
    """What is above a quota costs the agreed price, or twice the price of the outcome."""
    _, known = session(1)
    clearing = from_claims(known, [claim(p, i) for p in range(4) for i in (0, 1)], {})
    quota = clearing.quotas["docks"]["ada"]
    text = f"member,resource,amount\nada,docks,{quota}\nada,docks,2\n\nben,trucks,0\n"
    ben, ada = compare(clearing, read_use(known, text))
    assert (ada.member, round(ada.above, 9), ada.coins) == ("ada", 2.0, 1400)
    assert (ben.member, ben.above, ben.coins) == ("ben", 0.0, 0)
    assert overrun_price(known, 0) == 2.0 * known.prices[0] > 0.0
    (line,) = overruns(clearing, [ben, ada])
    assert line == "ada used 2.000 units of docks above its quota. That costs 14.00 EUR."


def test_use_of_a_member_without_a_claim_is_all_above() -> None:
    """A member that shows no quota may use nothing."""
    _, known = session(1)
    clearing = from_claims(known, [claim(0, 1)], {})
    (use,) = compare(clearing, {("dan", "docks"): 3.0})
    assert (use.allowed, use.above, use.coins) == (0.0, 3.0, 2100)


def test_members_that_bring_something_may_use_their_quota_to_the_last_unit() -> None:
    """With floors a grain is part of all that is above them: rounding it off costs nothing.

    One that was to bring something, and is in no figure, brought nothing: that costs. Without a
    claim it costs no less.
    """
    members = [
        {"name": name, "signing_key": public_key(name).hex(), "floor": -1.0, "share": 1.0}
        | {"endowment": own}
        for name, own in (("ada", -0.3), ("ben", 0.31), ("cyd", 0.33), ("dan", 0.33), ("eve", 0.33))
    ]
    steel = {"name": "steel", "capacity": 1e9, "overrun_price": 9.0}
    agreement = make_agreement(
        rounds=3, reveal="totals", prices={"step": "center"}, resource=[steel], member=members
    )
    played = play_until_over(agreement, 3)
    known, claims, text = played.sealed(), [], "member,resource,amount\n"
    for place, ledger in enumerate(played.ledgers):
        own = ledger.allocation()
        assert own is not None
        claims.append(claim_of(played, known, place, 0))
        used = float(amounts(agreement, own.quota, place)[0])
        text += f"{agreement.members[place].name},steel,{used!r}\n"
    clearing = from_claims(known, claims, {})
    uses = compare(clearing, read_use(known, text))
    assert min(use.used for use in uses) < 0.0 < max(use.used - use.allowed for use in uses)
    assert [use.coins for use in uses] == [0] * 5
    seller = min(clearing.quotas["steel"], key=clearing.quotas["steel"].__getitem__)
    due = -clearing.quotas["steel"][seller]
    others = [use for use in uses if use.member != seller]
    figures = {(use.member, "steel"): use.used for use in others}
    (silent,) = [use for use in compare(clearing, figures) if use.above]
    assert (silent.member, silent.used, silent.above) == (seller, 0.0, due)
    unclaimed = from_claims(known, [c for c in claims if members[c.place]["name"] != seller], {})
    (hidden,) = [use for use in compare(unclaimed, figures) if use.above]
    assert (hidden.member, hidden.above) == (seller, 1e9)
    assert hidden.coins > silent.coins > 0


@pytest.mark.parametrize(
    "text",
    ["", "a,b,c\n", "member,resource,amount\nzoe,docks,1", "member,resource,amount\nada,sea,1",
     "member,resource,amount\nada,docks,x", "member,resource,amount\nada,docks,1_0",
     "member,resource,amount\nada,docks,\uff11", "member,resource,amount\nada,docks,-1",
     "member,resource,amount\nada,docks,nan", "member,resource,amount\nada,docks,inf",
     "member,resource,amount\nada,docks,1e308\nada,docks,1e308",
     "member,resource,amount\nada,docks", "member,resource,amount\n" + "a" * 200_000],
    ids=lambda text: repr(text[-20:]),
)  # fmt: skip
def test_wrong_figures_of_use_are_refused(text: str) -> None:
    """A file of use that cannot be read is refused as a whole."""
    with pytest.raises(BadCommand):
        read_use(session(1)[1], text)


@pytest.mark.parametrize(
    ("line", "named"),
    [("zoe,docks,1", "'zoe' is not a member"), ("ada,sea,1", "'sea' is not a re")],
)
def test_wrong_name_in_figures_of_use_is_shown(line: str, named: str) -> None:
    """The message says which name of which line is unknown."""
    with pytest.raises(BadCommand, match=f"line 2: {named}"):
        read_use(session(1)[1], f"member,resource,amount\n{line}\n")


def test_sheets_show_payments_transfers_quotas_and_problems() -> None:
    """Page, tables and JSON say the same amounts, and what is not settled."""
    _, known = session(1)
    claims = [claim(p, PAYMENT) for p in range(4)] + [claim(p, 0) for p in range(3)]
    clearing = from_claims(known, claims, {"x.claim": "it belongs to another session"})
    used = compare(clearing, {("ada", "trucks"): 500.0})
    page, figures = settlement_page(clearing, used), settlement_figures(clearing, used)
    assert "x.claim: it belongs to another session" in page
    assert "No valid claim to a quota of trucks: dan" in page
    assert figures["missing"] == {"trucks": ("dan",)}
    assert sum(Fraction(text) for text in figures["payments"].values()) == 0
    assert payments_csv(clearing).count("account,") == 4
    assert quotas_csv(clearing, used).count("trucks,") == 3


def test_public_page_says_where_claims_go() -> None:
    """The page of a finished session, which the live page ends with, names each recipient."""
    page = public_page(session(1)[1])
    assert "Claims go to office (payments); depot (trucks); a recipient that" in page
    assert "does not name (docks), so these claims are not encrypted" in page
