"""RLCR: reinforcement learning with calibration rewards.

The public API on one screen. Nothing here imports torch, matplotlib or sympy.

    parse(text, "rlcr")                        the parts and the confidence of a response
    verify.verify(problems, answers)           correct, wrong or unscorable
    get_reward("rlcr").score(texts, problems)  rewards, part by part
    check_incentives(rule, lam)                does a reward pay for honesty and for being right?
    metrics.summary(correct, confidence)       accuracy, AUROC, Brier, ECE and more, with intervals
    score(completions, golds)                  all of it, for generations made anywhere
    ask(client, question, samples=8)           an answer with a confidence, for applications
    train("hotpotqa-rlcr", out="run")          a training run (needs the extra "train")

The rooms are there too: ``rlcr.tasks.load``, ``rlcr.evaluate.evaluate``, ``rlcr.runs.store.open_run``,
``rlcr.report.page.write_report`` and whatever else docs/python.md names. Each is imported when it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from rlcr.lazy import attributes

__all__ = [
    "FORMATS",
    "REWARDS",
    "RULES",
    "Answer",
    "Problem",
    "Response",
    "ResponseFormat",
    "Reward",
    "RewardParts",
    "RlcrError",
    "ScoringRule",
    "Verdict",
    "ask",
    "ask_async",
    "check_incentives",
    "get_reward",
    "group_advantages",
    "load_prompt",
    "log_clipped",
    "messages",
    "metrics",
    "parse",
    "render",
    "score",
    "train",
    "verify",
]

# Each is imported when it is first used: a command starts at once, and Ctrl-C ends it from its first moment.
__getattr__ = attributes(
    __name__,
    {
        "rlcr.asking": ("Answer", "ask", "ask_async"),
        "rlcr.errors": ("RlcrError",),
        "rlcr.evaluate.score": ("score",),
        "rlcr.problem": ("Problem",),
        "rlcr.prompts": ("load_prompt", "messages", "render"),
        "rlcr.response": ("FORMATS", "Response", "ResponseFormat", "parse"),
        "rlcr.reward": ("REWARDS", "Reward", "RewardParts", "get_reward", "group_advantages"),
        "rlcr.scoring": ("RULES", "ScoringRule", "check_incentives", "log_clipped"),
        "rlcr.verify": ("Verdict",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from rlcr import metrics, verify
    from rlcr.asking import Answer, ask, ask_async
    from rlcr.errors import RlcrError
    from rlcr.evaluate.score import score
    from rlcr.problem import Problem
    from rlcr.prompts import load_prompt, messages, render
    from rlcr.response import FORMATS, Response, ResponseFormat, parse
    from rlcr.reward import REWARDS, Reward, RewardParts, get_reward, group_advantages
    from rlcr.scoring import RULES, ScoringRule, check_incentives, log_clipped
    from rlcr.training.run import TrainingResult
    from rlcr.verify import Verdict


def train(
    recipe: str | Path,
    *,
    out: str | Path,
    resume: bool = False,
    data_dir: str | Path | None = None,
    run_code: bool = False,
    **overrides: Any,
) -> TrainingResult:
    """Train as a recipe says: one of ours by name, or a YAML file; ``overrides`` are its settings.

    ``rlcr.train("hotpotqa-rlcr", out="run", model="my/model", lr=2e-6)``. With ``run_code`` a recipe may run
    code of your own: ``verifier="my_module:function"``.
    """
    from rlcr.training import train_run
    from rlcr.training.recipes import load_recipe

    where = None if data_dir is None else Path(data_dir)
    resolved = load_recipe(recipe, overrides)
    return train_run(resolved, Path(out), resume=resume, data_dir=where, run_code=run_code)
