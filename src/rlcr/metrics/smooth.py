"""Smooth ECE (Błasiok and Nakkiran, 2023) for many weightings at once.

Residuals (confidence minus correct) are smoothed along the confidence axis with a Gaussian reflected at 0
and 1. With g(sigma) the integral of the result's absolute value, smooth ECE is where g(sigma) = sigma.

The reflected Gaussian is diagonal in cosines: with c_k the mean of residual x cos(pi k x), the smoothed
residual at t is c_0 + 2 sum_k exp(-(pi k sigma)^2 / 2) c_k cos(pi k t). So a bandwidth costs one small matrix
product, whatever the number of rows. relplot, by its authors, cuts the kernel at a half on either side and
stops after 10 bisections; the two agree to 2e-3 (tested).
"""

from functools import lru_cache
from math import ceil

import numpy as np

from rlcr.metrics.inputs import Floats, Ints

# Confidences are moved to the nearest multiple of 1/1000, where every verbalised one already is, and the
# smoothed residual is integrated over every fourth of these nodes.
NODES = 1000
MESH_STEP = 4
# Below this bandwidth the grids above would show. Reached only with millions of perfectly calibrated rows.
NARROWEST = 0.002
# Cosines beyond 2.4 / sigma are damped below 1e-12.
REACH = 2.4
TOLERANCE = 1e-8


def nearest_nodes(values_V: Floats) -> Ints:
    """The grid node of each confidence."""
    return np.rint(values_V * NODES).astype(np.int64)


def smooth_ece(nodes_S: Ints, residuals_RS: Floats) -> Floats:
    """The fixed point g(sigma) = sigma of each row of residuals, which carry their share of the weight."""
    # g falls from the sum of |residuals| (no smoothing) to the |sum| (total smoothing): a ready bracket.
    low_R, high_R = np.abs(residuals_RS.sum(axis=1)), np.abs(residuals_RS).sum(axis=1)
    cosines_SK = _cosines() if len(nodes_S) > NODES else _cosines()[nodes_S]
    coefficients_RK = np.empty((len(residuals_RS), 0))  # grows when a bandwidth needs more of them
    mesh_TK = _cosines()[::MESH_STEP]
    trapezoid_T = np.full(len(mesh_TK), MESH_STEP / NODES)
    trapezoid_T[[0, -1]] /= 2

    def g(sigma_R: Floats) -> Floats:
        nonlocal coefficients_RK
        sigma_R = np.maximum(sigma_R, NARROWEST)
        k = ceil(REACH / float(sigma_R.min()))
        if k > coefficients_RK.shape[1]:
            coefficients_RK = 2 * residuals_RS @ cosines_SK[:, :k]
            coefficients_RK[:, 0] /= 2
        damping_RK = np.exp(-0.5 * (np.pi * np.outer(sigma_R, np.arange(k))) ** 2)
        return np.abs((coefficients_RK[:, :k] * damping_RK) @ mesh_TK[:, :k].T) @ trapezoid_T

    # Secant steps. As g falls, the fixed point lies between any x and g(x), which keeps the steps in bounds;
    # and the slope of g(x) - x is at most -1, so the size of that excess bounds the error in x.
    sigma_R, slope_R = (low_R + high_R) / 2, np.full(len(low_R), -2.0)
    excess_R = g(sigma_R) - sigma_R
    for _ in range(50):
        low_R = np.maximum(low_R, sigma_R + np.minimum(excess_R, 0))
        high_R = np.minimum(high_R, sigma_R + np.maximum(excess_R, 0))
        last_sigma_R, last_excess_R = sigma_R, excess_R
        sigma_R = np.clip(sigma_R - excess_R / slope_R, low_R, high_R)
        if np.abs(last_excess_R).max() < TOLERANCE:
            break
        excess_R = g(sigma_R) - sigma_R
        moved_R = sigma_R - last_sigma_R
        steepness_R = np.divide(excess_R - last_excess_R, moved_R, out=slope_R.copy(), where=moved_R != 0)
        slope_R = np.minimum(steepness_R, -1)
    return sigma_R


@lru_cache(maxsize=1)
def _cosines() -> Floats:
    """cos(pi k x) at every node x (rows) for every k in reach (columns), looked up in one period."""
    period = np.cos(np.pi * np.arange(2 * NODES) / NODES)
    return period[np.outer(np.arange(NODES + 1), np.arange(ceil(REACH / NARROWEST) + 1)) % (2 * NODES)]
