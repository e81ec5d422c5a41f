"""A company's problem as a program for HiGHS: its matrix, bounds and quadratic terms.

Everything here is secret. Never here: a run of the solver.
"""

import math

import highspy
import numpy as np

from party.model.company_model import CompanyModel
from protocol.numeric import Floats


def model(data: CompanyModel, ceiling: Floats, floor: Floats | None = None) -> highspy.HighsLp:
    """The subproblem at prices 0, without its quadratic terms.

    Columns: x, then s. Rows: shared, then private.
    """
    n, m, r = data.columns, data.resources, data.private_rows
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + m, m + r
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.offset_ = data.offset
    lp.col_cost_ = np.concatenate([data.utility, np.zeros(m)])
    lowest = np.minimum(ceiling, 0.0) if floor is None else floor
    lp.col_lower_ = np.concatenate([data.lower, lowest])
    lp.col_upper_ = np.concatenate([data.upper, ceiling])
    lp.row_lower_ = np.concatenate([np.full(m, -math.inf), data.row_lower])
    lp.row_upper_ = np.concatenate([np.zeros(m), data.row_upper])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    extra = np.arange(1, m + 1, dtype=np.int32) + data.start[-1]
    lp.a_matrix_.start_ = np.concatenate([data.start, extra])
    lp.a_matrix_.index_ = np.concatenate([data.index, np.arange(m, dtype=np.int32)])
    lp.a_matrix_.value_ = np.concatenate([data.value, np.full(m, -1.0)])
    if data.integer is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[i] for i in data.integer.tolist()] + [kinds[0]] * m
    return lp


def hessian(data: CompanyModel) -> highspy.HighsHessian | None:
    """The quadratic terms of a model for HiGHS, if it has any; columns as in `model`."""
    if data.quadratic is None:
        return None
    start = data.quadratic.start
    terms = highspy.HighsHessian()
    terms.dim_ = data.columns + data.resources
    terms.format_ = highspy.HessianFormat.kTriangular
    terms.start_ = np.concatenate([start, np.full(data.resources, start[-1], dtype=np.int32)])
    terms.index_, terms.value_ = data.quadratic.index, data.quadratic.value
    return terms
