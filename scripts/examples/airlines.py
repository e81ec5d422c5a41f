"""An airline alliance: three airlines sell seats on 30 shared legs.

Every itinerary takes a seat on each of its legs. What it earns and how many customers ask for it
is private; the seats of each leg are shared. Run `python -m scripts.examples.airlines`.
"""

import random
from typing import Any

import pulp

from scripts.examples.together import Example, show

HUB = "HUB"
CITIES = [f"C{number:02}" for number in range(1, 16)]
LEGS = [(city, HUB) for city in CITIES] + [(HUB, city) for city in CITIES]
SEATS = 120.0


def leg_name(leg: tuple[str, str]) -> str:
    return f"{leg[0]}_{leg[1]}"


def itineraries(seed: int) -> list[tuple[str, list[tuple[str, str]], float, float]]:
    """Name, legs, fare and demand of what an airline sells: direct flights and connections."""
    draw = random.Random(seed)
    sold = []
    for number in range(40):
        start, end = draw.sample(CITIES, 2)
        legs = [(start, HUB), (HUB, end)]
        kind = draw.choice(["connection", "connection", "to_hub", "from_hub"])
        legs = {"connection": legs, "to_hub": legs[:1], "from_hub": legs[1:]}[kind]
        fare = draw.uniform(60.0, 140.0) * len(legs) ** 0.8
        sold.append((f"{kind}_{number}", legs, fare, draw.uniform(10.0, 60.0)))
    return sold


def airline(name: str, seed: int) -> pulp.LpProblem:
    """One airline: how many of each itinerary to sell."""
    model = pulp.LpProblem(name, pulp.LpMaximize)
    sold = itineraries(seed)
    seats = {
        key: model.add_variable(key, lowBound=0.0, upBound=demand) for key, _, _, demand in sold
    }
    model += pulp.lpSum(fare * seats[key] for key, _, fare, _ in sold)
    for leg in LEGS:
        # An airline without an itinerary on a leg has an empty row: it never takes a seat.
        used = pulp.lpSum(seats[key] for key, legs, _, _ in sold if leg in legs)
        model += used <= SEATS, leg_name(leg)
    # Private: the airline's own crews.
    model += pulp.lpSum(seats.values()) <= 700.0, "crews"
    return model


def models() -> dict[str, Any]:
    return {name: airline(name, seed) for seed, name in enumerate(("albatros", "bora", "condor"))}


EXAMPLE = Example(
    resources=[{"name": leg_name(leg), "capacity": SEATS, "unit": "seats"} for leg in LEGS],
    models=models,
)

if __name__ == "__main__":
    show(EXAMPLE)
