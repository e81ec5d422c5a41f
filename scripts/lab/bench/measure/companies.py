"""Companies of any size, drawn only for measurements."""

import math

import numpy as np

from party.model.company_model import CompanyModel

SHARED, PRIVATE = 2, 5
"""Resources that each product uses, and private rows that it may use."""


def draw_sparse(seed: int, rows: int, columns: int, resources: int) -> CompanyModel:
    """A company with many products: each uses two shared resources and a few private rows."""
    rng = np.random.default_rng([seed, rows, columns])
    taken = min(SHARED, resources)
    shared = np.argsort(rng.random((columns, resources)), axis=1)[:, :taken]
    private = rng.integers(0, rows, (columns, PRIVATE)) + resources
    height = resources + rows
    cells = np.unique(
        np.arange(columns)[:, None] * height + np.hstack([shared, private])
    )  # column by column, and no cell twice
    index = cells % height
    value = np.where(
        index < resources, rng.uniform(0.5, 5.0, len(index)), rng.uniform(0.1, 1.0, len(index))
    )
    counts = np.bincount(cells // height, minlength=columns)
    return CompanyModel(
        names=tuple(f"x{i}" for i in range(columns)),
        utility=rng.uniform(50.0, 150.0, columns),
        offset=0.0,
        lower=np.zeros(columns),
        upper=np.full(columns, math.inf),
        resources=resources,
        row_lower=np.full(rows, -math.inf),
        row_upper=rng.uniform(1.0, 10.0, rows),
        start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        index=index.astype(np.int32),
        value=value,
    )
