# pyright: basic
"""One update of GRPO as the paper trains, top to bottom in :func:`update`.

    sample   completions of each prompt, and of other prompts for groups that teach nothing (``refill``);
             random numbers depend only on (seed, update, problem, sample), so that a resumed run samples
             what the first would have
    score    parse, verify and reward each completion, part by part: the core library
    credit   an advantage for each token
    replay   earlier completions, whose confidence is learned once more (``confidence_replay``)
    weigh    the weight of each token in the loss of the whole update
    cut      what goes through the model together: as little as need be, in as few passes as memory allows
    loss_of  the policy gradient, with entropy bonus and KL term where asked for; backward, pass by pass

What GRPO usually has and this leaves out: division by the group's standard deviation (it makes models
overconfident), and ratio clipping (each batch is used once, so the ratio is 1). The loss divides by the
active tokens of the whole update, over all passes and processes, so that the update does not depend on how
it is cut; ``loss: micro-batch`` divides as TRL's ``bnpo`` does.

Whatever flows from one step to the next is a value returned by the one and given to the other. Processes meet
in five places: the rewards of a group, the active tokens, the number of passes, whether prompts can be shared
(:mod:`rlcr.engine.learning`), and the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import DistributedType, gather_object
from numpy.typing import NDArray

from rlcr.engine.batches import Sample, cut_plain, cut_shared
from rlcr.engine.learning import Sharing
from rlcr.errors import RlcrError
from rlcr.response import parse
from rlcr.reward import Reward
from rlcr.sample.tokens import token_spans
from rlcr.training.batch import Batch, Drawn, Example, SampledBatch, ScoredBatch
from rlcr.training.credit import confidence_choice, number_tokens, part_advantages, token_credit
from rlcr.training.early_verdicts import EarlyVerdicts
from rlcr.training.mismatch import Mismatch, importance
from rlcr.training.recipes.settings import Recipe
from rlcr.training.refill import refill
from rlcr.training.replay import Replay
from rlcr.training.rollouts import Rollout, rollouts_of
from rlcr.verify import Grading, Verifier

#: How tokens become text.
_AS_TEXT = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}


#: Gets the number of an update and its completions, of all processes, before anything is learned from them.
Examiner = Callable[[int, list[Rollout]], None]

#: Samples a batch: yields its completions as they are finished, in any order.
Sampler = Callable[[Batch], Iterator[Drawn]]


@dataclass
class Learner:
    """What updates have in common: who samples, who learns, and what is rewarded."""

    recipe: Recipe
    reward: Reward
    grading: Grading
    sampler: Sampler
    model: Any
    """As the optimiser's loop wraps it, for one process or many."""
    reference: Any
    """The start, towards which a KL term pulls; None where it is the model without its adapters."""
    sharing: Sharing
    accelerator: Any
    tokenizer: Any
    ends: frozenset[int]
    """Tokens that end a response."""
    verifies_early: bool
    """Whether answers are verified while others are still being sampled."""
    own: Mapping[str, Verifier] | None = None
    """Verifiers of the user, by their names."""
    pool: Sequence[Example] = ()
    """All problems of the run."""
    examine: Examiner = lambda update, rollouts: None
    """May raise, and so end the run before its weights change."""
    replay: Replay = field(default_factory=Replay)
    """Earlier completions that go on teaching their confidence."""

    def everywhere(self, number: int) -> torch.Tensor:
        """A number of this process, gathered from all."""
        return self.accelerator.gather(torch.tensor(number, device=self.accelerator.device))


@dataclass(frozen=True)
class Pass:
    """What goes through the model together, and whether a group's prompt goes once."""

    samples: list[Sample]
    shared: bool

    @property
    def teaches(self) -> bool:
        """Whether it is not only there because something must pass."""
        return any(sample.weight for sample in self.samples)


class Bonus(NamedTuple):
    """What is added to the objective for each nat of entropy."""

    token: float
    """Of every token."""
    confidence: float
    """Of the first decimal of a confidence, among the ten digits."""


class Sums(NamedTuple):
    """Sums over the counted tokens of a pass, of which the log shows means."""

    entropy: float
    kl: float
    tokens: float
    mismatch: Mismatch

    @staticmethod
    def of(parts: Iterable[Sums]) -> Sums:
        """All of them together."""
        rows = [Sums(0.0, 0.0, 0.0, Mismatch()), *parts]
        entropy, kl, tokens = (sum(values) for values in zip(*(row[:3] for row in rows), strict=True))
        return Sums(entropy, kl, tokens, Mismatch.of(row.mismatch for row in rows))


@dataclass(frozen=True)
class Updated:
    """What an update leaves besides its gradient."""

    rollouts: list[Rollout]
    taught: int
    """Completions of this process with an advantage on a token that counts, replayed ones included."""
    loss: torch.Tensor
    bonus: Bonus
    learned: list[Sums]
    """One for each pass that something was learned from."""
    spare: list[Sums]
    """Of passes that only fill up."""
    refilled: int
    """Groups that made room for others, of all processes."""


def update(learner: Learner, batch: Batch, bonus: Bonus) -> Updated:
    """One update, from prompts to the gradient; the optimiser's step comes after it."""
    # Each prompt is continued ``group`` times; reward of a response: the weighted sum of its parts, such as
    # format, correctness, calibration.
    scored = sample_and_score(learner, batch)
    # Nothing has changed yet, and all processes have the same rollouts: whoever watches may end the run here.
    learner.examine(batch.update, scored.rollouts)
    # Groups from which nothing can be learned make room for other problems, so many times at most.
    recipe, sample_more = learner.recipe, partial(sample_and_score, learner)
    scored, refilled = refill(scored, learner.pool, sample_more, times=recipe.refill, seed=recipe.seed)
    # Advantage of a token: the parts of the reward that act on it, each minus its mean in the group.
    samples = credit(learner, scored)
    # Confidences of earlier completions, whose verdicts are known, are learned once more.
    again = learner.replay.draw(batch.update, group=recipe.prompts)
    learner.replay.keep(samples)
    taught = sum(sample.teaches for sample in samples + again)
    # Weight of a token: 1 / number of tokens that count in the whole update.
    samples = weigh(learner, samples + again)
    passes = cut(learner, samples, everything=bool(bonus.token or learner.recipe.kl))
    total, learned, spare = torch.zeros((), device=learner.accelerator.device), [], []
    for number, part in enumerate(passes, start=1):
        with synchronising(learner, last=number == len(passes)):
            # The sum over tokens of weight x (-advantage x ratio - bonus x entropy + kl x KL).
            loss, sums = loss_of(learner, part, bonus)
            learner.accelerator.backward(loss, **_backward_options(learner))
        total += loss.detach()
        (learned if part.teaches else spare).append(sums)
    return Updated(scored.rollouts, taught, total, bonus, learned, spare, refilled)


# --- sample and score -------------------------------------------------------------------------------


def sample_and_score(learner: Learner, batch: Batch) -> ScoredBatch:
    """Completions of the batch and what they are worth; slow verdicts are begun while sampling goes on."""
    with EarlyVerdicts(learner.grading, learner.own) as verdicts:
        return score(learner, sample(learner, batch, verdicts), verdicts)


def sample(learner: Learner, batch: Batch, verdicts: EarlyVerdicts) -> SampledBatch:
    """Completions of the batch. Answers whose verification takes long go to it as soon as they are there."""
    completions: list[list[int]] = [[] for _ in batch.examples]
    logps_B: list[NDArray[np.float64] | None] = [None] * len(completions)
    for row, ids, logps in learner.sampler(batch):
        completions[row], example = ids, batch.examples[row]
        if logps:
            logps_B[row] = np.array(logps, dtype=np.float64)
        if learner.verifies_early and verdicts.takes_long(example.problem):
            text = learner.tokenizer.decode(ids, **_AS_TEXT)
            response = parse(text, learner.reward.format, think_open=example.think_open)
            verdicts.begin(example.problem, response.answer)
    if not all(completions):
        raise RlcrError(
            f"update {batch.update}: a completion has no tokens, not even one that ends it;"
            f" look at the sampler ({learner.recipe.sampler})"
        )
    truncated = [ids[-1] not in learner.ends for ids in completions]
    return SampledBatch(batch, completions, logps_B, truncated)


def score(learner: Learner, sampled: SampledBatch, verdicts: EarlyVerdicts) -> ScoredBatch:
    """Parse, verify and reward each completion; verdicts that were begun early are waited for."""
    completions, examples = sampled.completions, sampled.batch.examples
    if learner.recipe.credit == "all":
        # Every token is treated alike, so where each lies does not matter.
        # A process may have none, of which transformers would make one empty text.
        texts = learner.tokenizer.batch_decode(completions, **_AS_TEXT) if completions else []
        spans = [[(0, 0)] * len(ids) for ids in completions]
    else:
        read = [token_spans(learner.tokenizer, ids) for ids in completions]
        texts, spans = [text for text, _ in read], [spans for _, spans in read]
    scored = learner.reward.score(
        texts,
        [example.problem for example in examples],
        think_open=any(example.think_open for example in examples[:1]),
        grading=learner.grading,
        verifying=verdicts.verify,
    )
    own = rollouts_of(
        update=sampled.batch.update,
        problems=[example.problem for example in examples],
        samples=sampled.batch.numbers,
        scored=scored,
        tokens=[len(ids) for ids in completions],
        truncated=sampled.truncated,
    )
    return ScoredBatch(sampled, scored.responses, spans, gather_object(own))


# --- credit -----------------------------------------------------------------------------------------


def credit(learner: Learner, scored: ScoredBatch) -> list[Sample]:
    """The completions of this process, with an advantage for each token and which of them count."""
    sampled, recipe, weights = scored.sampled, learner.recipe, learner.reward.weights
    batch = sampled.batch
    parts = {name: np.array([rollout.parts[name] for rollout in scored.rollouts]) for name in weights}
    scorable = np.array([rollout.reward is not None for rollout in scored.rollouts])
    advantages = part_advantages(parts, weights, scorable, batch.group)
    numbers = number_tokens(learner.tokenizer) if recipe.credit == "expected" else {}
    samples = []
    for row, ids in enumerate(sampled.completions):
        place, response, spans = batch.places[row], scored.responses[row], scored.spans[row]
        own = {name: float(values[place]) for name, values in advantages.items()}
        advantages_T, counted_T = token_credit(recipe.credit, own, response, spans)
        choice = None
        if numbers and scorable[place]:
            right = scored.rollouts[place].verdict == "correct"
            choice = confidence_choice(learner.reward, response, right, spans, numbers)
        if recipe.mask_truncated and sampled.truncated[row]:
            counted_T, choice = np.zeros_like(counted_T), None
        if choice:
            # Calibration acts there by its expectation, and by nothing else.
            advantages_T[choice.at] -= own["calibration"]
        prompt = batch.examples[row].prompt.ids
        samples.append(
            Sample(
                place // batch.group,
                prompt,
                ids,
                advantages_T,
                counted_T,
                choice=choice,
                sampled_T=sampled.logps[row],
            )
        )
    return samples


def weigh(learner: Learner, samples: list[Sample]) -> list[Sample]:
    """Each completion with the weight of its tokens in the loss of the whole update, and of its choice.

    Tokens are averaged over tokens, choices over the completions that have one: a confidence is one token in
    hundreds, and its exact gradient would drown in the noise of the others.
    """
    counted_B = np.array([sample.counted for sample in samples])
    chosen_B = np.array([int(sample.choice is not None) for sample in samples])
    if learner.recipe.loss == "update":
        weights_B, choices_B = (np.full(len(samples), _share(learner, n_B)) for n_B in (counted_B, chosen_B))
    else:
        # As TRL does: shuffle the rows and divide each micro-batch by its own tokens.
        order_B = torch.randperm(len(samples)).numpy()
        weights_B, choices_B = np.zeros(len(samples)), np.zeros(len(samples))
        micro_batches = learner.recipe.accumulation(learner.accelerator.num_processes)
        for rows in order_B.reshape(micro_batches, -1):
            weights_B[rows] = 1 / max(int(counted_B[rows].sum()), 1) / micro_batches
            choices_B[rows] = 1 / max(int(chosen_B[rows].sum()), 1) / micro_batches
    return [
        replace(s, weight=float(weight), choice=s.choice and replace(s.choice, weight=float(of_choice)))
        for s, weight, of_choice in zip(samples, weights_B, choices_B, strict=True)
    ]


def _share(learner: Learner, counted_B: NDArray[np.int64]) -> float:
    """One divided by what is counted in all processes; DDP averages over them, hence times their number."""
    everywhere = int(learner.everywhere(int(counted_B.sum())).sum())
    return learner.accelerator.num_processes / max(everywhere, 1)


# --- passes and loss --------------------------------------------------------------------------------


def cut(learner: Learner, samples: list[Sample], *, everything: bool) -> list[Pass]:
    """The passes of this process. Unless ``everything`` is needed, what teaches nothing is left out."""
    recipe = learner.recipe
    if recipe.shared_prompts and not everything:
        teaching = [sample for sample in samples if sample.teaches]
        needed = [s if s.has_advantage else s.choice_alone() for s in teaching]
        if teaching and not any(sample.has_advantage for sample in teaching):
            # Entropy is what shows that a run has collapsed: one completion goes whole, to be measured.
            needed[0] = teaching[0]
    else:
        needed = [sample for sample in samples if sample.counted or sample.choice]
    # Something must pass, or the optimiser would find no gradient at all, not even zero.
    shortest = min(samples, key=lambda s: (not s.counted, len(s.prompt) + len(s.completion)))
    nothing = replace(shortest, weight=0.0, choice=None)
    with learner.accelerator.autocast():
        shared, plain = learner.sharing.split(learner.model, needed or [nothing], trial=samples)
    passes = [Pass(part, shared=True) for part in cut_shared(shared, recipe.pass_tokens)]
    passes += [Pass(part, shared=False) for part in cut_plain(plain, recipe.micro_batch)]
    if learner.accelerator.num_processes > 1:
        # Processes may meet in a forward pass, so each makes as many as the others.
        missing = int(learner.everywhere(len(passes)).max()) - len(passes)
        passes = [Pass([nothing], passes[0].shared)] * missing + passes
    return passes


def loss_of(learner: Learner, part: Pass, bonus: Bonus) -> tuple[torch.Tensor, Sums]:
    """The sum over counted tokens of ``weight (-advantage * ratio - entropy bonus + KL)``.

    Where importance is corrected, the ratio is that of the trainer's probability to the sampler's, at most
    ``importance_cap``; otherwise it is 1. It is held constant, and has the gradient of the log-probability.
    """
    samples, recipe = part.samples, learner.recipe
    call = learner.sharing.inputs(samples, shared=part.shared)
    with learner.accelerator.autocast():
        logps_N, entropy_N = learner.model(**call)
    counted = sum(sample.counted for sample in samples)
    expected = choice_loss(samples, logps_N[counted:], bonus.confidence)
    logps_N, entropy_N = logps_N[:counted], entropy_N[:counted]
    advantages_N, weights_N, sampled_N = (
        torch.from_numpy(np.concatenate(arrays)).to(logps_N)
        for arrays in (
            [s.advantages_T[s.counted_T] for s in samples],
            [np.full(s.counted, s.weight) for s in samples],
            [
                np.full(s.counted, np.nan) if s.sampled_T is None else s.sampled_T[s.counted_T]
                for s in samples
            ],
        )
    )
    importance_N, mismatch = importance(logps_N, sampled_N, recipe.importance)
    ratio_N = importance_N * torch.exp(logps_N - logps_N.detach())  # the latter is 1, but has the gradient
    objective_N, pull = -advantages_N * ratio_N, 0.0
    if bonus.token:
        objective_N = objective_N - bonus.token * entropy_N
    if recipe.kl:
        towards_N = _reference(learner, call)[:counted] - logps_N
        kl_N = torch.exp(towards_N) - towards_N - 1
        objective_N, pull = objective_N + recipe.kl * kl_N, kl_N.detach().sum().item()
    sums = Sums(entropy_N.detach().sum().item(), pull, float(len(entropy_N)), mismatch)
    return (weights_N * objective_N).sum() + expected, sums


def choice_loss(samples: Sequence[Sample], logps_N: torch.Tensor, bonus: float) -> torch.Tensor:
    """The sum over samples with a choice of ``-weight sum_k p_k (r_k - b) log p_k``, p and b held constant.

    Its gradient is that of the expected reward: what the policy gradient of one sampled token is on average.
    b is the mean reward under p. A bonus for entropy is a reward of ``-bonus log p_k``: at its optimum p is
    proportional to exp(r / bonus), so that the digits beside the best one stay alive.
    """
    total, first = logps_N.new_zeros(()), 0
    for sample in samples:
        if choice := sample.choice:
            logps_K = logps_N[first : first + len(choice.tokens)]
            first += len(choice.tokens)
            p_K = logps_K.detach().exp()
            rewards_K = torch.from_numpy(choice.rewards_K).to(logps_K) - bonus * logps_K.detach()
            mean = (p_K * rewards_K).sum() / p_K.sum()
            total = total - choice.weight * (p_K * (rewards_K - mean) * logps_K).sum()
    return total


def _reference(learner: Learner, call: dict[str, Any]) -> torch.Tensor:
    """The log-probabilities of the start, from which the KL term pulls back."""
    with torch.no_grad(), learner.accelerator.autocast():
        if learner.reference is not None:
            return learner.reference(**call)[0]
        model = learner.accelerator.unwrap_model(learner.model)
        with model.disable_adapter():
            return model(**call)[0]


@contextmanager
def synchronising(learner: Learner, *, last: bool) -> Iterator[None]:
    """Processes add up their gradients in the last pass only."""
    accelerator = learner.accelerator
    accelerator.gradient_state._set_sync_gradients(last)
    with nullcontext() if last or _deepspeed(learner) else accelerator.no_sync(learner.model):
        yield


def _deepspeed(learner: Learner) -> bool:
    return learner.accelerator.distributed_type == DistributedType.DEEPSPEED


def _backward_options(learner: Learner) -> dict[str, Any]:
    """DeepSpeed would divide by a number of passes that it does not know."""
    return {"scale_wrt_gas": False} if _deepspeed(learner) else {}
