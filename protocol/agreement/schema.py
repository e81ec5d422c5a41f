"""Choices, limits and defaults of an agreement.

No other module may state one: `parse` checks against these, `model` and `coordinator new` take
their defaults from here. Nothing here computes.
"""

from typing import NamedTuple


class Range(NamedTuple):
    """The smallest and the largest number that a field may have."""

    least: float
    most: float


class Form(NamedTuple):
    """What a text must match, and how an error describes it."""

    pattern: str
    description: str


# Choices

MODES = ("exact", "private", "clipped")
REVEALS = ("each", "totals")
ACCOUNTANTS = ("exact", "paper")
SHAPES = ("component", "norm")
STEPS = ("center", "ball", "worth", "constant", "sqrt", "theorem")
TOPOLOGIES = ("relay", "mesh")
STARTS = ("zero", "worth")

# Units of released numbers

TICKS = 1 << 20
"""Ticks in one capacity with noise. Noisy numbers need space above the capacity."""

FINE_TICKS = 1 << 40
"""Ticks in one capacity with the centre rule: finer than a solver can distinguish."""

# Limits

MAX_ROUNDS = 1_000_000
MIN_MEMBERS, MAX_MEMBERS = 2, 10_000
MAX_RESOURCES = 10_000

LEAST_MASKED = 3
"""Members that `totals` needs. With two, each can compute the other's number from the total."""

HONEST_MEMBERS = 2
"""Members that must not collude: at most all others may be `colluders`."""

EPSILON_RANGE = LEAST_EPSILON, MOST_EPSILON = Range(1e-6, 100.0)
DELTA_RANGE = Range(1e-10, 0.1)
OVERRUN_RANGE = Range(1e-6, 0.5)

LEAST_ALPHA = 1.0
"""With a smaller alpha the caps together would not reach the capacity. The largest is K."""

TAU_RANGE = Range(1e-4, 0.5)
OBJECTIVE_RANGE = Range(1e-9, 1e15)

PACE_RANGE = Range(0.001, 3600.0)
"""Seconds. A release every hour is slower than any model needs."""

PATIENCE_RANGE = Range(0.1, 1e7)
"""Seconds. The largest is about four months."""

STEP_SIZE_RANGE = Range(1e-15, 1e15)
MOMENTUM_RANGE = Range(0.0, 0.999)
"""With a momentum of 1 the prices would never settle."""

TOLERANCE_RANGE = Range(0.0, 1.0)
RESERVE_RANGE = Range(0.0, 0.5)
TRADE_LIMIT_RANGE = Range(0.0, 1.0)
ANSWER_GAP_RANGE = Range(0.0, 1.0)

MOST_EARLIER_NUMBERS = 65_536
"""In the rounds of an earlier session that an agreement carries, so that its file stays small."""

EARLIER_PRICES_RANGE = Range(0.0, 1e15)
EARLIER_TOTALS_RANGE = Range(0.0, float(MAX_MEMBERS))
"""Totals as fractions of the capacity: no member claims more than all of it."""

START_RANGE = Range(-1e12, 1e12)
"""First prices. Larger ones are beyond what solvers accept."""

CAPACITY_RANGE = Range(1e-9, 1e12)
SPARE_RANGE = Range(0.0, 0.5)
WORTH_WITHIN_RANGE = Range(1.1, 20.0)
"""Step `ball`: prices stay between a 20th of the worth and 100 times it."""

WORTH_RANGE = Range(0.0, 1e15)
OVERRUN_PRICE_RANGE = Range(0.0, 1e12)

FRACTION_RANGE = Range(0.0, 1.0)
"""A share or endowment of a member that brings nothing."""

SIGNED_FRACTION_RANGE = Range(-1.0, 1.0)
"""A floor, and the share and endowment of a member that has one. Below 0, the member brings it."""

ENDOWMENT_TOLERANCE = 1e-9
"""How far endowments may be from adding up: decimals cannot write every fraction."""

# Texts

NAME = Form(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}",
    "a name of 1 to 64 letters a to z, digits, '_', '.' and '-'",
)
"""The names of sessions, members and resources."""

_UNSEEN = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
"""Characters that control a terminal, break a line or turn the direction of text."""

CURRENCY = Form(rf"[^\s{_UNSEEN}]{{1,8}}", "one word of at most 8 characters, like EUR")
UNIT = Form(rf"[^{_UNSEEN}]{{0,80}}", "one line of at most 80 characters, none of them unseen")
ADDRESS = Form(
    r"tcp://\S{1,255}:[1-9][0-9]{0,4}",
    "an address of the form 'tcp://host:port', its port from 1 to 65535",
)
SIGNING_KEY = Form(r"[0-9a-fA-F]{64}", "a public key of 64 hexadecimal digits")
TRANSPORT_KEY = Form(
    r"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]{40}", "a public key of 40 Z85 characters"
)

_PRIME = 2**255 - 19
_SMALL_ORDER = (
    0,
    1,
    0xB8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    _PRIME - 1,
)


def is_small_order(key: bytes) -> bool:
    """Whether X25519 gives every secret key the same shared secret with this public key."""
    return int.from_bytes(key, "little") % 2**255 % _PRIME in _SMALL_ORDER


# Defaults of fields that a file may leave out

REVEAL = "each"
ACCOUNTANT = "exact"
SHAPE = "component"
STEP_EXACT, STEP_TOTALS, STEP_NOISY = "center", "ball", "worth"
START = "zero"
TOPOLOGY = "relay"

WORTH_WITHIN = 3.0
COLLUDERS = 1
OVERRUN = 0.05
ALPHA = 1.5
TAU = 0.01
MOMENTUM = 0.0
SHARE = 1.0
PATIENCE_SECONDS = 120.0
"""How long a party waits for a silent member while a session runs."""

PACE_SECONDS = 0.25
"""With noise every release is sent this many seconds after its round opens."""

TOLERANCE = 1e-4
"""The certificate at which an exact session stops, as a fraction of all worth."""

RESERVE = 1e-10
"""The fraction of each capacity that the rounds leave.

It is more than rounding takes, so that quotas cover averaged demands to the tick. It is less than
a solver can distinguish, so that all of a capacity can be used.
"""

TRADE_LIMIT = 0.01
"""Without a certificate of at most this fraction of all worth, every member keeps its endowment.

If a larger tolerance is agreed, it is the default.
"""

ANSWER_GAP = 1e-4
"""How far an answer may be from a member's best plan, as a fraction of all worth.

It covers the precision of solvers and the search for whole numbers. Contradictions between answers
are reported above it.
"""

# What a party decides for itself: no agreement states it

WAIT_SECONDS = 86_400.0
"""How long `party join` waits for people: until all members are here and the first round closes."""

WAIT_RANGE = Range(1.0, 1e7)

# What `coordinator new` writes where you give no option; every file must state these

DRAFT_MODE = "private"
DRAFT_ROUNDS = 150
DRAFT_BALL_ROUNDS = 60
"""With the step `ball`, whose noise does not depend on the number of rounds."""
DRAFT_ROUNDS_PER_RESOURCE = 4
"""Further rounds of an exact session for each resource. They cost no privacy."""

DRAFT_EPSILON = 1.0
DRAFT_DELTA = 1e-3
