# pyright: basic
"""The next token of each row: reproducible random choice, insensitive to rounding.

Random numbers are a function of (seed, key, sample, position), made by a counter-based generator
(SplitMix64 over a keyed hash): no generator has a state, so a token does not depend on which other rows
were in the batch, on their order, or on how often a run was interrupted.

The choice is Gumbel-max: add standard Gumbel noise to the logits and take the greatest. Rounding errors
move scores by about 1e-5, so two ways of batching differ only where the two best scores are that close;
an inverse distribution function would have no such statement. Noise for a whole vocabulary of 50,000 would
cost as much as a third of the model, so the vocabulary is cut into blocks: first choose a block by noise on
its log-sum-exp, then a token inside it by noise on its logits. The distribution is the same, by the chain
rule, for the price of a few hundred random numbers a token.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlcr.sample import Sampling

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Rows are treated in lots of about this many logits, which stay in the processor's cache.
_LOT = 1 << 21


def stream(seed: int, key: str, sample: int) -> int:
    """The 64-bit name of a sample's random numbers, the same on every machine and in every process."""
    text = f"{seed}\x1f{key}\x1f{sample}"
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def _mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser: every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def gumbel(streams_B: np.ndarray, positions_B: np.ndarray, count: int) -> np.ndarray:
    """Standard Gumbel noise, ``count`` numbers for each row's stream and position."""
    with np.errstate(over="ignore"):
        states_B = _mix(streams_B.astype(np.uint64) + _mix(positions_B.astype(np.uint64) * _GOLDEN + _GOLDEN))
        bits_BN = _mix(states_B[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)
    # 52 bits and a half are exact in a float64 and never 0 or 1.
    uniform_BN = ((bits_BN >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return -np.log(-np.log(uniform_BN))


def block_shape(vocabulary: int) -> tuple[int, int]:
    """How a vocabulary is cut: (blocks, tokens in each), about equally many, padded at the end if need be.

    >>> block_shape(49152), block_shape(151936), block_shape(50257), block_shape(400)
    ((192, 256), (1187, 128), (197, 256), (25, 16))
    """
    widths = sorted((2**k for k in range(18)), key=lambda width: abs(math.log(width / math.sqrt(vocabulary))))
    # One that divides the vocabulary saves a copy of all logits.
    width = next((width for width in widths[:4] if vocabulary % width == 0), widths[0])
    return -(-vocabulary // width), width


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen tokens, and their log-probabilities."""

    tokens_B: np.ndarray
    logprobs_B: np.ndarray


def choose(
    logits_BV: Tensor,
    streams_B: np.ndarray,
    positions_B: np.ndarray,
    sampling: Sampling,
    *,
    tempered: bool = False,
) -> Choice:
    """Choose the next token of each row; greedy where the temperature is 0.

    Log-probabilities are those of the untempered model, or, if ``tempered``, those by which it was chosen.
    """
    rows, vocabulary = logits_BV.shape
    blocks, width = block_shape(vocabulary)
    noise_BN = None
    if sampling.temperature > 0:
        drawn_BN = gumbel(streams_B, positions_B, blocks + width).astype(np.float32)
        noise_BN = torch.from_numpy(drawn_BN).to(logits_BV.device)
    tokens, logprobs = [], []
    step = max(1, _LOT // vocabulary)
    for start in range(0, rows, step):
        lot_BV = logits_BV[start : start + step].float()
        peak_B1 = lot_BV.amax(-1, keepdim=True)
        shifted_BV = lot_BV - peak_B1
        stated_BV = shifted_BV
        if noise_BN is None:
            tokens_B = lot_BV.argmax(-1)
        else:
            scaled_BV = shifted_BV / sampling.temperature if sampling.temperature != 1 else shifted_BV
            if sampling.top_p < 1:
                scaled_BV = nucleus(scaled_BV, sampling.top_p)
            tokens_B = _gumbel_max(scaled_BV, noise_BN[start : start + step], blocks, width)
            stated_BV = scaled_BV if tempered else shifted_BV
        chosen_B = stated_BV.gather(1, tokens_B[:, None])[:, 0]
        logprobs.append(chosen_B - stated_BV.exp_().sum(-1).log())
        tokens.append(tokens_B)
    return Choice(torch.cat(tokens).cpu().numpy(), torch.cat(logprobs).cpu().numpy())


def _gumbel_max(scaled_BV: Tensor, noise_BN: Tensor, blocks: int, width: int) -> Tensor:
    rows, vocabulary = scaled_BV.shape
    if blocks * width > vocabulary:
        scaled_BV = torch.nn.functional.pad(scaled_BV, (0, blocks * width - vocabulary), value=-torch.inf)
    scaled_BKW = scaled_BV.view(rows, blocks, width)
    if blocks == 1:
        block_B = torch.zeros(rows, dtype=torch.long, device=scaled_BV.device)
    else:
        # The greatest logit is 0 here, so nothing overflows, and a block that underflows to probability
        # zero is never chosen.
        block_B = (scaled_BKW.exp().sum(-1).log() + noise_BN[:, :blocks]).argmax(-1)
    inside_BW = scaled_BKW[torch.arange(rows, device=block_B.device), block_B] + noise_BN[:, blocks:]
    return block_B * width + inside_BW.argmax(-1)


def nucleus(scaled_BV: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most probable tokens that together reach ``top_p``; the others become -inf.

    Tokens as probable as the last one kept stay too, so that the result does not depend on how ties are
    sorted. Only as many tokens as needed are sorted.
    """
    probabilities_BV = scaled_BV.softmax(-1)
    vocabulary = scaled_BV.shape[1]
    width = min(vocabulary, 256)
    while True:
        top_BK = probabilities_BV.topk(width, dim=-1).values
        before_BK = top_BK.cumsum(-1) - top_BK
        needed_B = (before_BK < top_p).sum(-1)
        if width == vocabulary or bool((needed_B < width).all()):
            break
        width = min(vocabulary, width * 8)
    last_B1 = top_BK.gather(1, (needed_B - 1)[:, None])
    return scaled_BV.masked_fill(probabilities_BV < last_B1, -torch.inf)
