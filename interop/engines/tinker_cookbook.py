"""tinker-cookbook: rollouts of the environment of docs/interop.md, by a policy that says what is stored."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_single_rollout

from interop.case import Case
from interop.checks import Checks
from interop.snippets import write_module
from interop.tokens import tokenizer


class Stored(TokenCompleter):
    """Says one text."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens

    async def __call__(self, *_: Any, **__: Any) -> TokensWithLogprobs:
        return TokensWithLogprobs(self.tokens, [0.0] * len(self.tokens))


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "tinker-cookbook")
    write_module("tinker-cookbook", Path("my_env.py"))
    sys.path.insert(0, str(Path.cwd()))
    from my_env import RlcrEnv  # pyright: ignore[reportMissingImports]

    tokens = tokenizer()
    renderer = get_renderer("role_colon", tokens)

    async def rewarded(question: int, text: str, gold: str) -> float:
        env = RlcrEnv(renderer, [{"role": "user", "content": f"question {question}"}], gold)
        said = tokens(f" {text}\n\nUser:", add_special_tokens=False)["input_ids"]
        (step,) = (await do_single_rollout(Stored(said), env)).transitions
        return step.reward

    rewards = [asyncio.run(rewarded(question, text, gold)) for question, text, gold, _ in case.rows()]
    checks.equal("reward of `do_single_rollout` with the lines above", rewards, case.totals_or(0.0))


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
