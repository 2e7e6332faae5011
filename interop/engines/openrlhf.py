"""OpenRLHF: its `SingleTurnAgentExecutor`, with an engine that says what is stored; by file and by HTTP."""

import argparse
import ast
import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from interop.case import Case
from interop.checks import Checks
from interop.examples import command_line
from interop.serving import reward_service
from interop.tokens import tokenizer
from rlcr.adapters.example import copy_example


async def executed(executor: SingleTurnAgentExecutor, case: Case) -> list[dict]:
    tokens = tokenizer()
    sampling = SimpleNamespace(max_tokens=100_000, logprobs=None)

    async def one(question: int, text: str, gold: str) -> dict:
        ids = [*tokens(text, add_special_tokens=False)["input_ids"], tokens.eos_token_id]

        async def generate(*_: object, **__: object) -> SimpleNamespace:
            said = SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)
            return SimpleNamespace(outputs=[said])

        asked = [{"role": "user", "content": f"question {question}"}]
        prompt = tokens.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        engine = SimpleNamespace(generate=generate)
        return await executor.execute(prompt, gold, sampling, 200_000, tokens, engine)

    return [await one(question, text, gold) for question, text, gold, _ in case.rows()]


def settings_of(arguments: list[str]) -> Any:
    """What OpenRLHF makes of a command line: its own parser and its own checks, which start no Ray.

    They are in the script's last block, of which everything but the call of ``train`` is run.
    """
    found = find_spec("openrlhf")
    assert found is not None
    assert found.submodule_search_locations is not None
    script = Path(found.submodule_search_locations[0]) / "cli" / "train_ppo_ray.py"
    *_, block = ast.parse(script.read_text(encoding="utf-8")).body
    assert isinstance(block, ast.If)
    assert ast.unparse(block.body.pop()) == "train(args)"
    names: dict[str, Any] = {"argparse": argparse}
    exec("import os; from datetime import datetime", names)
    before, sys.argv = sys.argv, [str(script), *arguments]
    try:
        exec(compile(ast.Module(block.body, []), script, "exec"), names)
    finally:
        sys.argv = before
    return names["args"]


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "openrlhf")
    read = settings_of(command_line("openrlhf", "MODEL"))
    checks.settings(
        "what it reads of the example's `run.sh`",
        [
            (read.algo.advantage.estimator, "dr_grpo"),
            (read.actor.loss_agg_mode, "token-mean"),
            (read.algo.kl.init_coef, 0.0),
            (read.rollout.n_samples_per_prompt, 32),
            (read.reward.remote_url[0], "reward_func.py"),
        ],
    )
    copy_example("openrlhf", Path("example"))
    by_file = asyncio.run(executed(SingleTurnAgentExecutor("example/reward_func.py"), case))
    checks.equal(
        "reward of `SingleTurnAgentExecutor`, by file",
        [one["reward"] for one in by_file],
        case.totals_or(0.0),
    )
    stated = [one["extra_logs"]["states_confidence"] for one in by_file]
    well_formed = [float(total != -0.5) for _, _, _, total in case.rows()]
    checks.equal("its extra logs", stated, well_formed)
    with reward_service() as url:
        by_http = asyncio.run(executed(SingleTurnAgentExecutor(f"{url}/get_reward"), case))
    checks.equal(
        "reward of `SingleTurnAgentExecutor`, by `rlcr serve-reward`",
        [one["reward"] for one in by_http],
        case.totals_or(0.0),
    )


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
