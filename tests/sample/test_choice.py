"""The choice of a token: frequencies against the softmax, the fewest tokens of top_p, noise by name."""

import math
from collections import Counter

import numpy as np
import torch
from scipy.stats import chisquare

from rlcr.sample import Sampling
from rlcr.sample.choice import choose, gumbel, nucleus, stream


def test_sampled_frequencies_match_the_softmax() -> None:
    torch.manual_seed(0)
    for vocabulary, sampling in (
        (11, Sampling(temperature=1.0)),
        (64, Sampling(temperature=0.7)),
        (50, Sampling(temperature=1.3, top_p=0.8)),
    ):
        logits_V = torch.randn(vocabulary) * 1.5
        draws = 40_000
        streams = np.array([stream(0, "k", i) for i in range(draws)], dtype=np.uint64)
        choice = choose(logits_V.expand(draws, -1), streams, np.full(draws, 3), sampling)
        scaled_1V = nucleus((logits_V / sampling.temperature)[None], sampling.top_p)
        wanted = scaled_1V.softmax(-1)[0].double().numpy()
        counts = np.bincount(choice.tokens_B, minlength=vocabulary)
        assert not counts[wanted == 0].any()
        possible = wanted > 0
        expected = wanted[possible] / wanted[possible].sum() * draws
        assert chisquare(counts[possible], expected).pvalue > 1e-3
        assert np.allclose(choice.logprobs_B, logits_V.log_softmax(-1)[choice.tokens_B].numpy(), atol=1e-5)
        same = choose(logits_V.expand(100, -1), streams[:100], np.full(100, 3), sampling, tempered=True)
        assert (same.tokens_B == choice.tokens_B[:100]).all()
        by_which = np.log(wanted[same.tokens_B])
        assert np.allclose(same.logprobs_B, by_which, atol=1e-5)


def test_top_p_keeps_the_fewest_tokens_that_reach_it() -> None:
    torch.manual_seed(0)
    for vocabulary in (20, 3000):
        logits_BV = torch.randn(40, vocabulary)
        for top_p in (0.01, 0.5, 0.9, 0.999):
            kept_BV = nucleus(logits_BV, top_p).isfinite()
            for logits_V, kept_V in zip(logits_BV, kept_BV, strict=True):
                sorted_V, order_V = logits_V.double().softmax(-1).sort(descending=True)
                count = int((sorted_V.cumsum(-1) < top_p).sum()) + 1
                assert abs(int(kept_V.sum()) - count) <= (vocabulary > 100)  # rounding at the edge
                assert bool(kept_V[order_V[: count - 1]].all())


def test_noise_depends_on_every_part_of_its_name_and_looks_like_noise() -> None:
    names = [stream(s, k, i) for s in (0, 1) for k in ("a", "b", "a\x1f1") for i in (0, 1)]
    assert len(set(names)) == len(names)
    assert stream(0, "key", 3) == stream(0, "key", 3) == 7758514353832239289
    streams = np.array(names, dtype=np.uint64)
    noise = gumbel(np.repeat(streams, 50), np.tile(np.arange(50), len(names)), 100)
    assert np.isfinite(noise).all()
    assert abs(noise.mean() - 0.5772) < 0.02
    assert abs(noise.std() - math.pi / math.sqrt(6)) < 0.02
    assert np.abs(np.corrcoef(noise[:40]) - np.eye(40)).max() < 0.5
    assert max(Counter(noise.ravel().tolist()).values()) == 1
