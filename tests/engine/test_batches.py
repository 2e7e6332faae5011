"""How an update is cut into passes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rlcr.engine.batches import Sample, cut_plain, cut_shared


def sample(group: int, prompt: int, completion: int, advantage: float = 1.0) -> Sample:
    counted = np.ones(completion, dtype=bool)
    return Sample(group, range(prompt), range(completion), np.full(completion, advantage), counted)


def tokens(samples: list[Sample]) -> int:
    prompts = {s.group: len(s.prompt) for s in samples}
    return sum(prompts.values()) + sum(s.read for s in samples)


def test_groups_stay_together_and_passes_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 40, size=(20, 4))
    samples = [sample(g, 10 + g, int(n)) for g, row in enumerate(lengths) for n in row]
    passes = cut_shared(samples, 400)
    assert sorted(map(id, samples)) == sorted(id(s) for part in passes for s in part)
    for part in passes:
        assert tokens(part) <= 400
        assert all(len([s for s in part if s.group == group]) == 4 for group in {s.group for s in part})
    # Two passes in a row would not fit into one.
    assert all(tokens(a) + tokens(b) > 400 for a, b in pairwise(passes))


def test_similar_lengths_go_together() -> None:
    lengths = [5, 50, 6, 51, 7, 52]
    samples = [sample(g, 10, n) for g, n in enumerate(lengths) for _ in range(2)]
    first, second = cut_shared(samples, 350)
    assert {len(s.completion) for s in first} == {50, 51, 52}
    assert {len(s.completion) for s in second} == {5, 6, 7}


def test_a_group_above_the_budget_is_cut_and_brings_its_prompt_again() -> None:
    samples = [sample(0, 20, n) for n in (11, 21, 31, 41)]
    passes = cut_shared(samples, 80)
    assert [sorted(s.read for s in part) for part in passes] == [[40], [10, 20, 30]]
    assert [len(part) for part in cut_shared(samples, 1)] == [1, 1, 1, 1]


def test_short_completions_of_a_long_prompt_do_not_repeat_its_keys_without_end() -> None:
    one = [sample(0, 100, 2) for _ in range(64)]  # 164 tokens, but 64 x 101 keys
    assert [len(part) for part in cut_shared(one, 200)] == [9] * 7 + [1]
    # A long prompt beside many short ones would be the width of them all.
    mixed = [sample(0, 100, 2)] + [sample(1, 2, 2) for _ in range(30)]
    assert sorted(len(part) for part in cut_shared(mixed, 200)) == [1, 30]


def test_prompts_of_different_lengths_do_not_make_a_mask_without_end() -> None:
    unlike = [sample(group, 3000 + group, 1500) for group in range(4) for _ in range(4)]
    assert [{s.group for s in part} for part in cut_shared(unlike, 100_000)] == [{3}, {2}, {1}, {0}]
    alike = [sample(group, 3000, 1500) for group in range(4) for _ in range(4)]
    assert len(cut_shared(alike, 100_000)) == 1


def test_plain_passes_keep_the_order() -> None:
    samples = [sample(0, 3, n) for n in (4, 9, 2)]
    assert cut_plain(samples, 2) == [samples[:2], samples[2:]]


def test_what_teaches() -> None:
    assert sample(0, 3, 4).teaches
    assert not sample(0, 3, 4, advantage=0.0).teaches
    masked = Sample(0, [1], [1, 2], np.ones(2), np.zeros(2, dtype=bool))
    assert not masked.teaches
