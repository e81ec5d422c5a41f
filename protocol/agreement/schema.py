"""Limits, choices and defaults of an agreement. No other module may state one."""

MODES = ("exact", "private", "clipped")
REVEALS = ("each", "totals")
ACCOUNTANTS = ("exact", "paper")
SHAPES = ("component", "norm")
STEPS = ("center", "worth", "constant", "sqrt", "theorem")
TOPOLOGIES = ("relay", "mesh")

TICKS = 1 << 20
"""Ticks in one whole capacity with noise, which needs room above the capacity."""

FINE_TICKS = 1 << 40
"""Ticks in one whole capacity with the centre rule: finer than any solver can tell apart."""

MAX_ROUNDS = 1_000_000
MAX_MEMBERS = 10_000
MAX_RESOURCES = 10_000
MAX_START = 1e12
LEAST_CAPACITY, MOST_CAPACITY = 1e-9, 1e12
LEAST_EPSILON, MOST_EPSILON = 1e-6, 100.0

LEAST_MASKED = 3
"""Members that `totals` needs: of two, each knows the other's number from the total."""

COLLUDERS = 1
OVERRUN = 0.05

PACE_SECONDS = 0.25
"""Every release is sent this many seconds after its round opens, with noise."""

TOLERANCE = 1e-4
"""The certificate at which an exact session stops, as a part of what all capacities are worth."""

RESERVE = 1e-10
"""The part of each capacity that the rounds leave. It is more than rounding takes, so that quotas
cover averaged demands to the tick. It is less than a solver can tell apart, so that all of a
capacity can be used."""
