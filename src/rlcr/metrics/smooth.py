"""Smooth ECE (Błasiok and Nakkiran, 2023) for many weightings at once.

Residuals (confidence minus correct) are smoothed along the confidence axis with a Gaussian reflected at 0
and 1. With g(sigma) the integral of the result's absolute value, smooth ECE is where g(sigma) = sigma.

The reflected Gaussian is diagonal in cosines: with c_k the sum of residual x cos(pi k x), the smoothed
residual at t is c_0 + 2 sum_k exp(-(pi k sigma)^2 / 2) c_k cos(pi k t). So a bandwidth costs one short FFT,
whatever the number of rows.

relplot, by the authors of smooth ECE, agrees to 2e-3 except for confidences of exactly 0 or 1: it does not
reflect its outermost grid points, which halves their weight (by up to 0.03 in the result). Here they count in
full, as in the definition.
"""

from math import ceil

import numpy as np

from rlcr.metrics.inputs import Floats

# Confidences are moved to the nearest multiple of 1/1000, where every verbalised one already is, and the
# smoothed residual is integrated over every second of these nodes.
NODES = 1000
MESH = 500
# Below this bandwidth the mesh would show. Reached only with millions of perfectly calibrated rows.
NARROWEST = 0.003
# Cosines beyond 2.4 / sigma are damped below 1e-12.
REACH = 2.4
TOLERANCE = 1e-8


def smooth_ece(residuals_RS: Floats) -> Floats:
    """The fixed point g(sigma) = sigma of each row of residuals, given as their sums / n at every node."""
    # g falls from the sum of |residuals| (no smoothing) to the |sum| (total smoothing): a ready bracket.
    low_R, high_R = np.abs(residuals_RS.sum(axis=1)), np.abs(residuals_RS).sum(axis=1)
    cosines_RK = np.fft.rfft(residuals_RS, n=2 * NODES)[:, : MESH + 1].real

    def g(sigma_R: Floats) -> Floats:
        sigma_R = np.maximum(sigma_R, NARROWEST)
        k = min(ceil(REACH / float(sigma_R.min())), MESH + 1)
        damping_RK = np.exp(-0.5 * (np.pi * np.outer(sigma_R, np.arange(k))) ** 2)
        smoothed_RT = np.fft.irfft(cosines_RK[:, :k] * damping_RK, n=2 * MESH, norm="forward")[:, : MESH + 1]
        sizes_RT = np.abs(smoothed_RT)
        return (sizes_RT.sum(axis=1) - (sizes_RT[:, 0] + sizes_RT[:, -1]) / 2) / MESH  # trapezoid rule

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
