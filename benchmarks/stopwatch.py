# pyright: basic
"""What is measured of a trainer's steps: seconds of its phases, its tokens, and the machine's rate."""

from __future__ import annotations

from typing import Any

#: Of all rows of a step.
TOKENS = ("prompt_tokens", "completion_tokens")


def time_call(owner: Any, name: str, phases: dict[str, float], phase: str, clock: Any) -> None:
    """Add the seconds of each call of a method, or of a module's function, to a phase."""
    method = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        started = clock()
        try:
            return method(*args, **kwargs)
        finally:
            phases[phase] += clock() - started

    setattr(owner, name, timed)


def count_tokens(owner: Any, name: str, phases: dict[str, float]) -> None:
    """How many tokens of prompts and completions a step has, each row by itself.

    Seen in what our ``credit`` or TRL's ``_generate_and_score_completions`` returns.
    """
    method = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        if isinstance(result, list):
            counts = [sum(len(getattr(s, name)) for s in result) for name in ("prompt", "completion")]
        else:
            counts = [int(result[name].sum()) for name in ("prompt_mask", "completion_mask")]
        for name, tokens in zip(TOKENS, counts, strict=True):
            phases[name] += tokens
        return result

    setattr(owner, name, counted)


def steps_callback(phases: dict[str, float], steps: list[dict[str, float]], clock: Any) -> Any:
    """Notes the phases of each step, from its beginning until it is logged."""
    from transformers import TrainerCallback

    class Steps(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            phases.update(dict.fromkeys(phases, 0.0))
            self.started = clock()

        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if len(steps) == state.global_step:  # the last line is that of the whole run
                return
            whole = clock() - self.started
            learning = phases["training_step"] - phases["sampling"]
            tokens = {name: phases[name] for name in TOKENS}
            steps.append({"whole": whole, "sampling": phases["sampling"], "learning": learning, **tokens})

    return Steps()


def matmul_rate(clock: Any) -> float:
    """GFLOP/s of a large float32 matrix product: the best of several."""
    import torch

    a = torch.randn(2048, 2048)
    best = 0.0
    for _ in range(8):
        started = clock()
        torch.mm(a, a)
        best = max(best, 2 * 2048**3 / (clock() - started) / 1e9)
    return best
