"""What a settlement says, as JSON, as tables for spreadsheets, and as a page to print and sign.

Every number comes from a `Clearing`. Never here: a claim that was refused as a number.
"""

from typing import Any
from xml.etree.ElementTree import Element

from protocol.clearing.settle import Clearing
from protocol.clearing.statements import Sum
from protocol.clearing.use import Use
from protocol.outcome.ball_quota import large_levy
from protocol.report.allocation import LEVY_WARNING
from protocol.report.csv import Rows, plain
from protocol.report.elements import element, page, page_header, paragraph, section, small, table
from protocol.report.format import amount_text, figure, fixed, money, percent

_PUBLIC = "Checked: every number follows from the signed releases in the transcript."
_OPENED = (
    "Checked: each claim that counts opens what its member committed to before the session was "
    "sealed. The commitments of all members add up."
)
_LIMITED = (
    "Checked: each claim that counts is signed by its member, for this session and this recipient. "
    "None is above what the member’s share and the public rounds allow."
)
_UNCHECKED = (
    "Not checked: whether a member states the quota and the payment that follow from its answers. "
    "Noise hides the answers, so a false number within these limits cannot be seen. If one member "
    "pays too little, all members bear the difference through the levy."
)


def checked(clearing: Clearing) -> list[str]:
    """What is certain about the numbers of a settlement, in words."""
    agreement = clearing.outcome.agreement
    if not agreement.masked:
        return [_PUBLIC]
    if agreement.commits:
        return [_OPENED]
    return [_LIMITED, *(_sum_in_words(clearing, one) for one in clearing.sums)]


def _sum_in_words(clearing: Clearing, one: Sum) -> str:
    """What members state together, and the limits of what it can be."""
    if one.what:
        return (
            f"The quotas of {one.what} that were claimed are {percent(one.stated, digits=4)} of "
            f"the capacity. At most {percent(one.highest, digits=4)} is available."
        )
    agreement = clearing.outcome.agreement
    total, lowest, highest = (
        money(agreement, figure(amount)) for amount in (one.stated, one.lowest, one.highest)
    )
    levy, amount = _in_money(clearing, clearing.levy), clearing.levy / 10**clearing.places
    large = large_levy(agreement, clearing.outcome.prices, amount)
    return (
        f"All payments as stated add up to {total}. By the public totals and their noise the sum "
        f"is between {lowest} and {highest}. The levy, {levy}, makes it zero; it is spread in "
        f"proportion to what the members bring.{f' {LEVY_WARNING}' if large else ''}"
    )


def unchecked(clearing: Clearing) -> list[str]:
    """What no recipient can check, in words."""
    agreement = clearing.outcome.agreement
    return [_UNCHECKED] if agreement.masked and not agreement.commits else []


def _amount(clearing: Clearing, coins: int) -> str:
    """Coins as a plain number with the decimals of the currency."""
    whole, rest = divmod(abs(coins), 10**clearing.places)
    decimals = f".{rest:0{clearing.places}}" if clearing.places else ""
    return f"{'-' if coins < 0 else ''}{whole}{decimals}"


def _in_money(clearing: Clearing, coins: int) -> str:
    """Coins as people read them."""
    return money(clearing.outcome.agreement, fixed(coins, clearing.places))


def settlement_figures(clearing: Clearing, used: list[Use]) -> dict[str, Any]:
    """Everything, for programs. Amounts of money are texts with the decimals of the currency."""
    agreement, state = clearing.outcome.agreement, clearing.outcome.state

    def amounts(coins: dict[str, int]) -> dict[str, str]:
        return {name: _amount(clearing, own) for name, own in coins.items()}

    return {
        "session": agreement.session,
        "agreement": agreement.digest.hex(),
        "head": state.chain_hash.hex(),
        "currency": agreement.currency,
        "quotas": clearing.quotas,
        "payments": amounts(clearing.payments),
        "balanced": clearing.balanced,
        "checked": checked(clearing),
        "unchecked": unchecked(clearing),
        "stated": amounts(clearing.stated),
        "levy": _amount(clearing, clearing.levy),
        "sums": [
            {
                "of": one.what or "payment",
                "stated": one.stated,
                "lowest": one.lowest,
                "highest": one.highest,
                "fits": one.fits,
            }
            for one in clearing.sums
        ],
        "transfers": [
            {"from": t.payer, "to": t.payee, "amount": _amount(clearing, t.coins)}
            for t in clearing.transfers
        ],
        "missing": {what or "payment": names for what, names in clearing.missing.items()},
        "refused": clearing.refused,
        "use": [
            {
                "member": use.member,
                "resource": use.resource,
                "used": use.used,
                "allowed": use.allowed,
                "above": use.above,
                "charge": _amount(clearing, use.coins),
            }
            for use in used
        ],
    }


def payments_csv(clearing: Clearing) -> str:
    """One line for each member, with noise one for what it states, and one for each transfer."""
    rows, currency = Rows(), plain(clearing.outcome.agreement.currency)
    rows.add("kind", "from", "to", "amount", "currency")
    for kind, amounts in (("account", clearing.payments), ("stated", clearing.stated)):
        for name, coins in amounts.items():
            sides = (name, "") if coins >= 0 else ("", name)
            rows.add(kind, *sides, _amount(clearing, abs(coins)), currency)
    for each in clearing.transfers:
        rows.add("transfer", each.payer, each.payee, _amount(clearing, each.coins), currency)
    return "".join(rows)


def quotas_csv(clearing: Clearing, used: list[Use]) -> str:
    """One line for each resource and member; with figures of use beside the quota if there are."""
    rows = Rows()
    rows.add("resource", "member", "quota", "unit", "used", "above", "charge")
    uses = {(use.resource, use.member): use for use in used}
    units = {r.name: plain(r.unit) for r in clearing.outcome.agreement.resources}
    keys = [(r, m) for r, quotas in clearing.quotas.items() for m in quotas]
    for resource, member in [*keys, *(key for key in uses if key not in keys)]:
        quota = clearing.quotas.get(resource, {}).get(member, 0.0)
        use = uses.get((resource, member))
        more = ("", "", "")
        if use is not None:
            more = (repr(use.used), repr(use.above), _amount(clearing, use.coins))
        rows.add(resource, member, repr(quota), units[resource], *more)
    return "".join(rows)


def settlement_page(clearing: Clearing, used: list[Use]) -> str:
    """A page to print and sign."""
    agreement = clearing.outcome.agreement
    title = f"Settlement of {agreement.session}"
    seal = clearing.outcome.state.chain_hash.hex()
    return page(
        title,
        page_header("Settlement", agreement.session, paragraph(f"Final chain hash {seal}")),
        *_payments(clearing),
        *_quotas(clearing),
        *_use(clearing, used),
        section("What was checked", *map(paragraph, (*checked(clearing), *unchecked(clearing)))),
        *_problems(clearing),
        section(
            "Signed",
            paragraph("Date: ______________________"),
            paragraph("Name and signature: ______________________________________"),
        ),
        kind="private",
    )


def _payments(clearing: Clearing) -> list[Element]:
    if not clearing.payments:
        return []

    def shown(coins: int) -> str:
        return _in_money(clearing, abs(coins))

    rows = [
        (name, shown(coins) if coins > 0 else "", shown(coins) if coins < 0 else "")
        for name, coins in clearing.payments.items()
    ]
    content = [table(("Member", "pays", "is paid"), rows)]
    if clearing.balanced and clearing.stated:
        levied = [
            (name, *(_in_money(clearing, c) for c in (coins, clearing.payments[name] - coins)))
            for name, coins in clearing.stated.items()
        ]
        content += [
            paragraph("What each member states, and its part of the levy (below 0: it is paid):"),
            table(("Member", "states", "levy"), levied),
        ]
    if clearing.transfers:
        transfers = [(f"{t.payer} to {t.payee}", shown(t.coins)) for t in clearing.transfers]
        content += [
            paragraph("Through one account: each member pays or is paid as above. Or directly:"),
            table(("Transfer", "amount"), transfers),
        ]
    elif clearing.balanced:
        content.append(small("No member pays, and none is paid."))
    else:
        content.append(small("Not all payments are known, so they do not add up to zero."))
    return [section("Payments", *content)]


def _quotas(clearing: Clearing) -> list[Element]:
    resources = {r.name: r for r in clearing.outcome.agreement.resources}
    sections = []
    for name, quotas in clearing.quotas.items():
        resource = resources[name]
        rows = [(member, amount_text(resource, amount)) for member, amount in quotas.items()]
        head = ("Member", f"may use, in {resource.unit or 'units'}")
        sections.append(section(f"Quotas of {name}", table(head, rows)))
    return sections


def _use(clearing: Clearing, used: list[Use]) -> list[Element]:
    if not used:
        return []
    agreement = clearing.outcome.agreement
    resources = {r.name: r for r in agreement.resources}
    rows = []
    for use in used:
        amounts = (
            amount_text(resources[use.resource], a) for a in (use.used, use.allowed, use.above)
        )
        charge = _in_money(clearing, use.coins) if use.coins else ""
        rows.append((f"{use.member}, {use.resource}", *amounts, charge))
    head = ("Member and resource", "used", "allowed", "above", "charge")
    return [section("Use against quota", table(head, rows))]


def overruns(clearing: Clearing, used: list[Use]) -> list[str]:
    """Who used more than it may, in words."""
    resources = {r.name: r for r in clearing.outcome.agreement.resources}
    return [
        f"{use.member} used {amount_text(resources[use.resource], use.above)} "
        f"{resources[use.resource].unit or 'units'} of {use.resource} above its quota. That costs "
        f"{_in_money(clearing, use.coins)}."
        for use in used
        if use.above
    ]


def problems(clearing: Clearing) -> list[str]:
    """Which files do not count and which claims are missing, in words."""
    lines = [f"{_legible(file)}: {why}" for file, why in clearing.refused.items()]
    lines += [
        f"No valid claim to {f'a quota of {what}' if what else 'a payment'}: {', '.join(names)}"
        for what, names in clearing.missing.items()
    ]
    return lines + [_misfit(clearing, one) for one in clearing.sums if not one.fits]


def _legible(file: str) -> str:
    """The name of a file that a member chose, without characters that a terminal obeys."""
    return file if file.isprintable() else ascii(file)


def _misfit(clearing: Clearing, one: Sum) -> str:
    """What a sum that does not fit means."""
    if not one.what:
        return (
            "The payments as stated do not add up to what the public totals tell: at least one "
            "member states a false payment, or did not add its noise"
        )
    risk = percent(clearing.outcome.quota_risk)
    return (
        f"The quotas of {one.what} are above what is available. By noise that happens in at most "
        f"{risk} of all sessions; or a member states too much"
    )


def _problems(clearing: Clearing) -> list[Element]:
    lines = problems(clearing)
    if not lines:
        return []
    return [section("Not settled", element("ul", *(element("li", line) for line in lines)))]
