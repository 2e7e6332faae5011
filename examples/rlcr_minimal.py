# pyright: basic
"""RLCR from top to bottom: sample, parse, verify, reward, advantage, loss, Adam.

A small language model sees a few draws of five arms, guesses the next one, and says how sure it is. At the
start it guesses well and is far too sure. RLCR pays ``1[correct] - (confidence - 1[correct])²``, which is
highest for the best guess with its true chance as the confidence, so both improve together.

    python examples/rlcr_minimal.py

    |       | accuracy | AUROC | Brier |   ECE | share of the optimal reward |
    | start |    0.330 | 0.599 | 0.257 | 0.153 |                       62.3% |
    | RLCR  |    0.329 | 0.586 | 0.217 | 0.034 |                       96.2% |
    300 updates of 256 x 4 completions, 450 s of one core

`rlcr train` does the same with recipes, checkpoints, many processes, larger models and less computing; its
gradient is this one (tests/test_examples.py). The one part of it that is used here is the maker of the start.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlcr.problem import Problem
from rlcr.prompts import load_prompt, render
from rlcr.response import parse
from rlcr.reward import get_reward, group_advantages
from rlcr.tasks import arms
from rlcr.tasks.arms_optimum import exact_evaluation, read_answers, sequence_problems
from rlcr.training import embedded
from rlcr.verify import verify

Tokens = list[int]

# What the model is told before the question: to think, answer and state a confidence, each in its own tags.
PROMPT = load_prompt("rlcr-no-analysis")
# Half a point each for the format, for being right, and for the calibration -(confidence - correct)².
# A malformed response gets -0.5, which is less than being wrong and sure of it.
REWARD = get_reward("rlcr", format="confidence")
LONGEST = 32  # tokens of a response


def read_prompts(tokenizer: Any, problems: Sequence[Problem]) -> list[Tokens]:
    """System prompt and question, in the model's chat template, as tokens."""
    texts = [render(PROMPT, problem, tokenizer) for problem in problems]
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


@torch.no_grad()
def sample(model: Any, tokenizer: Any, prompts: Sequence[Tokens], *, greedy: bool = False) -> list[Tokens]:
    """Continue each prompt: the new tokens, with the one that ends the response."""
    # Padded on the left, so that all prompts end where the first new token goes.
    width, end = max(map(len, prompts)), tokenizer.eos_token_id
    padding = [width - len(prompt) for prompt in prompts]
    written = model.generate(
        input_ids=torch.tensor([[end] * pad + prompt for pad, prompt in zip(padding, prompts, strict=True)]),
        attention_mask=torch.tensor([[0] * pad + [1] * (width - pad) for pad in padding]),
        max_new_tokens=LONGEST,
        # Exactly the model's own distribution: the gradient below is that of what was sampled.
        **({"do_sample": False} if greedy else {"do_sample": True, "temperature": 1.0, "top_k": 0}),
    )
    rows = written[:, width:].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def advantages_of(texts: Sequence[str], problems: Sequence[Problem], group: int) -> np.ndarray:
    """How much better each response is than the others to its question, which stand next to it."""
    responses = [parse(text, REWARD.format) for text in texts]
    verdicts = verify(problems, [response.answer for response in responses])
    rewards = REWARD.reward(responses, verdicts)
    # Minus the mean of the group, and not divided by its spread as GRPO often does: that makes overconfident.
    # A response that nobody could grade has no reward and teaches nothing.
    shape = (-1, group)
    return group_advantages(rewards.total.reshape(shape), rewards.scorable.reshape(shape)).ravel()


def policy_loss(
    model: Any,
    prompts: Sequence[Tokens],
    completions: Sequence[Tokens],
    advantages: np.ndarray,
    temperature: float = 1.0,
) -> torch.Tensor:
    """The policy gradient: tokens of responses that were better than their group become likelier."""
    rows = [torch.tensor(prompt + new) for prompt, new in zip(prompts, completions, strict=True)]
    # Padding comes last and nothing looks ahead, so it needs no mask.
    ids_BT = pad_sequence(rows, batch_first=True)
    logits_BTV = model(ids_BT[:, :-1]).logits / temperature
    next_BT = ids_BT[:, 1:]
    logps_BT = torch.log_softmax(logits_BTV, dim=-1).gather(-1, next_BT[..., None])[..., 0]
    # Only tokens that the model wrote count, each as much as any other of the update.
    starts_B1 = torch.tensor([[len(prompt) - 1] for prompt in prompts])
    lengths_B1 = torch.tensor([[len(new)] for new in completions])
    place_T = torch.arange(next_BT.shape[1])
    counted_BT = (place_T >= starts_B1) & (place_T < starts_B1 + lengths_B1)
    advantages_B1 = torch.tensor(advantages, dtype=logps_BT.dtype)[:, None]
    return -(advantages_B1 * logps_BT * counted_BT).sum() / counted_BT.sum()


def evaluate(model: Any, tokenizer: Any) -> str:
    """A row of the quickstart's table: exact, over every sequence of draws that there is."""
    task = arms.Arms()
    completions = sample(model, tokenizer, read_prompts(tokenizer, sequence_problems(task)), greedy=True)
    texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
    responses = [parse(text, REWARD.format) for text in texts]
    answers: Any = read_answers(task, [response.answer for response in responses])
    confidences: Any = [response.confidence for response in responses]
    result = exact_evaluation(task, (answers, confidences))
    auroc = "n/a" if result.auroc is None else f"{result.auroc:.3f}"
    return (
        f"| {result.accuracy:8.3f} | {auroc:>5} | {result.brier:5.3f} | {result.ece:5.3f} |"
        f" {result.share or 0:27.1%} |"
    )


def main(updates: int = 300, prompts: int = 256, group: int = 4, lr: float = 3e-4, seed: int = 0) -> None:
    """Train the embedded model, and show what it was worth before and after."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    chosen, start = random.Random(seed), embedded.build(seed)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(start), AutoTokenizer.from_pretrained(start)
    problems = arms.build("train", 20_000, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    print("|       | accuracy | AUROC | Brier |   ECE | share of the optimal reward |")
    print(f"| start {evaluate(model, tokenizer)}", flush=True)
    for number in range(updates):
        asked = [problem for problem in chosen.sample(problems, prompts) for _ in range(group)]
        questions = read_prompts(tokenizer, asked)
        completions = sample(model, tokenizer, questions)
        texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
        loss = policy_loss(model, questions, completions, advantages_of(texts, asked, group))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = lr * (1 - number / updates)  # falls to 0
        optimizer.step()
    print(f"| RLCR  {evaluate(model, tokenizer)}")
    print(f"{updates} updates of {prompts} x {group} completions, {time.process_time():.0f} s of one core")


if __name__ == "__main__":
    main()
