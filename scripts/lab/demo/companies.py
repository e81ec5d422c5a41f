"""The companies of the demonstration: eight food makers of one valley, and what they share.

Invented, small enough to read, and different from each other: some need cold stores, some
lorries, some docks. That is why sharing pays. Nothing here is random.
"""

import math

import numpy as np

from party.model.company_model import CompanyModel, dense
from scripts.lab.common.instances import Instance

CURRENCY = "EUR"
RESOURCES = {"lorries": (960.0, "h"), "cold-store": (1_800.0, "pallets"), "docks": (330.0, "slots")}
"""Capacities of a week, and their units."""

WORTH = (48_000.0, 28_000.0, 30_000.0)
"""Public estimates of what each whole capacity is worth in a week."""

_COMPANIES: dict[str, dict[str, tuple[float, ...]]] = {
    # a batch of: earns EUR, takes lorry hours, pallets, dock slots, hours of its own plant
    "alder-dairy": {
        "milk": (470.0, 3.0, 7.0, 1.0, 2.0),
        "butter": (560.0, 2.0, 14.0, 0.6, 4.0),
        "cheese": (830.0, 1.5, 22.0, 0.5, 7.0),
    },
    "brook-bakery": {
        "bread": (390.0, 5.5, 0.5, 2.0, 3.0),
        "rolls": (300.0, 4.0, 0.3, 1.4, 2.2),
        "cakes": (520.0, 4.5, 4.0, 1.6, 5.0),
    },
    "cedar-brewery": {
        "casks": (620.0, 9.0, 2.0, 1.5, 5.0),
        "bottles": (480.0, 5.0, 1.0, 2.2, 4.0),
        "cider": (540.0, 6.0, 3.0, 1.2, 6.0),
    },
    "dale-fruit": {
        "apples": (280.0, 2.5, 12.0, 0.8, 1.0),
        "berries": (610.0, 3.0, 8.0, 1.5, 3.0),
        "juice": (350.0, 3.5, 2.0, 1.0, 2.5),
    },
    "elm-meats": {
        "ham": (900.0, 4.0, 16.0, 1.2, 6.0),
        "sausage": (570.0, 3.0, 10.0, 1.0, 4.0),
        "pies": (460.0, 3.5, 5.0, 1.3, 4.5),
    },
    "fen-fish": {
        "fresh": (720.0, 7.0, 6.0, 2.5, 2.0),
        "smoked": (640.0, 3.0, 8.0, 0.9, 5.0),
        "frozen": (500.0, 2.0, 18.0, 0.5, 3.0),
    },
    "glen-flour": {
        "flour": (345.0, 4.5, 0.0, 1.0, 1.5),
        "oats": (260.0, 4.0, 0.0, 1.2, 2.0),
    },
    "hill-honey": {
        "honey": (430.0, 1.0, 0.5, 0.4, 6.0),
        "wax": (210.0, 0.8, 0.1, 0.3, 4.0),
        "mead": (510.0, 2.2, 2.0, 0.8, 7.0),
    },
}

_PLANT = (190.0, 170.0, 230.0, 150.0, 260.0, 200.0, 110.0, 120.0)
"""Hours a week of each company's own plant, which is not shared."""

_MARKET = 40.0
"""Batches of one product that can be sold in a week."""

NAMES = tuple(_COMPANIES)


def valley() -> Instance:
    """The shared capacities and each company's private linear program."""
    capacity = np.array([amount for amount, _ in RESOURCES.values()])
    data = tuple(_company(*pair) for pair in zip(_COMPANIES.values(), _PLANT, strict=True))
    share = np.full((len(data), len(capacity)), 0.4)
    return Instance(capacity, share, data, tuple(RESOURCES))


def _company(products: dict[str, tuple[float, ...]], plant: float) -> CompanyModel:
    table = np.array(list(products.values())).T
    count = table.shape[1]
    return dense(
        A=table[1:4],
        B=table[4:],
        u=table[0],
        row_lower=np.array([-math.inf]),
        row_upper=np.array([plant]),
        lower=np.zeros(count),
        upper=np.full(count, _MARKET),
        names=tuple(products),
    )
