"""What a recipe may say: every setting of a training run, with its default.

A field exists when two runs differ in it or the paper states it. What follows from others (completions in an
update, gradient accumulation) is computed, never stored.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Credit = Literal["all", "analysis+confidence", "decoupled", "expected"]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

#: The usual cap of truncated importance sampling.
VLLM_IMPORTANCE_CAP = 2.0


class Lora(BaseModel):
    """Low-rank adapters instead of all weights."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    rank: Count = 16
    alpha: Annotated[float, Field(gt=0)] = 32.0
    dropout: Share = 0.0
    targets: str | list[str] = "all-linear"


class WarmUp(BaseModel):
    """Supervised training before RL that teaches a model the tags of its method (`rlcr warm-up`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Where responses come from: the task's worked solutions, or right ones of the model itself; auto takes
    #: solutions where every problem has one.
    source: Literal["auto", "solutions", "samples"] = "auto"
    #: Problems to teach from, and those to measure on before and after.
    examples: Count = 800
    held_out: Count = 100
    epochs: Count = 1
    lr: Annotated[float, Field(gt=0)] = 1e-4
    batch: Count = 16
    #: Train all weights, even where RL trains adapters.
    all_weights: bool = False
    #: What taught confidences are drawn from, high ones more often: they tell nothing, so that RL has
    #: calibration to teach.
    #: What is never taught is hardly ever sampled: taught from 0.5 on, a model says 0.5 of all that is hard.
    confidence: tuple[Share, Share] = (0.0, 1.0)


class Difficulty(BaseModel):
    """Which problems are worth training on, by how often a finished evaluation solved them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: A folder of `rlcr eval` on the same problems, with several samples of each.
    run: str
    #: The least and the greatest solve rate.
    keep: tuple[Share, Share] = (0.1, 0.9)


class Vllm(BaseModel):
    """How vLLM samples, as TRL runs it: inside the trainer, or in a server to which TRL sends the weights."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: The address of a server, such as http://node1:8000; None for inside the trainer. Of the others, a
    #: server is told all but max_model_len when it is started.
    server: str | None = None
    #: The share of each GPU's memory that it takes.
    memory: Annotated[float, Field(gt=0, lt=1)] = 0.3
    #: GPUs over which it spreads one copy of the model.
    tensor_parallel: Count = 1
    #: Whether it gives its memory back while the model learns, and is given the weights again.
    sleep: bool = False
    #: Tokens that it holds at most of a prompt and its completion; None for the limits of both.
    max_model_len: Count | None = None


class Recipe(BaseModel):
    """A training run, fully stated."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    about: str = ""

    # --- where it starts
    model: str
    #: The recipe whose trained model this one starts from; ``model`` must then be given by the user.
    after: str | None = None
    #: Teach the tags first, unless the model was trained for them before; None for no warm-up.
    warm_up: WarmUp | None = None

    # --- what it learns from
    task: str
    split: str = "train"
    #: Problems to draw; None for as many as the paper uses.
    size: Count | None = None
    data_seed: int = 0
    task_settings: dict[str, Any] = {}
    #: Leave out problems that are too hard or too easy; None for all.
    difficulty: Difficulty | None = None
    #: How the trained model is asked and read afterwards; stored with it.
    method: str
    #: The system prompt in training: a name or a file; None for the method's.
    prompt: str | None = None
    #: Arguments of the model's chat template, such as ``enable_thinking: false``; stored with the model.
    chat_template: dict[str, bool | int | float | str | None] | None = None
    max_prompt_tokens: Count = 3072
    max_completion_tokens: Count = 1536

    # --- what it is rewarded for
    #: A verifier of your own in place of the task's, ``my_module:function``; it runs only if allowed.
    verifier: str | None = None
    reward: str
    weights: dict[str, float] = {}
    credit: Credit = "all"
    mask_truncated: bool = False

    # --- GRPO
    prompts: Count = 64
    group: Annotated[int, Field(ge=2)] = 32
    temperature: Annotated[float, Field(gt=0)] = 0.7
    #: Dynamic sampling: how many times at most groups whose completions all earn alike, which teach nothing,
    #: make room for groups of other problems before an update learns.
    refill: Annotated[int, Field(ge=0)] = 0
    #: What token losses are divided by: the active tokens of the whole update, or of each micro-batch.
    loss: Literal["update", "micro-batch"] = "update"
    kl: Annotated[float, Field(ge=0)] = 0.0
    #: Entropy bonus per token at the start; falls linearly to 0 over the share ``entropy_until`` of the run.
    entropy: Annotated[float, Field(ge=0)] = 0.0
    entropy_until: Annotated[float, Field(gt=0, le=1)] = 1.0
    #: With ``credit: expected``: such a bonus for the choice of a confidence's first decimal alone. It stays:
    #: the best digit is the most probable one, whatever the spread around it.
    confidence_entropy: Annotated[float, Field(ge=0)] = 0.0
    #: With ``credit: expected``: completions of earlier updates, for each process, whose confidence is
    #: learned again in each update; their verdicts are known, so that it costs no sampling.
    confidence_replay: Annotated[int, Field(ge=0)] = 0

    # --- optimiser
    #: adam8bit keeps Adam's states in 8 bits (bitsandbytes): 2 bytes a weight instead of 8.
    optimizer: Literal["adam", "adam8bit"] = "adam"
    lr: Annotated[float, Field(gt=0)]
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = "constant_with_warmup"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    adam_betas: tuple[Share, Share] = (0.9, 0.999)
    #: Adam divides by the gradient's usual size plus this; a large one leaves alone what has little gradient.
    adam_epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    grad_clip: Annotated[float, Field(gt=0)] = 1.0
    epochs: Annotated[float, Field(gt=0)] = 1.0
    #: Stop after this many updates; None for whole epochs.
    updates: Count | None = None
    seed: int = 43
    lora: Lora | None = None

    # --- how it is run
    #: What one device can hold in one forward and backward pass, in completions of the greatest length with
    #: their prompts. Where prompts are shared, as many tokens are filled with whole groups.
    micro_batch: Count = 8
    #: Whether learning reads each prompt once for all its completions, packs passes by tokens and leaves out
    #: completions from which nothing flows. The update is the same; off is the plain way, to compare with.
    shared_prompts: bool = True
    device: str = "auto"
    #: The attention of the plain way, by its name in transformers, such as flash_attention_2; None for its
    #: choice. Shared prompts have their own.
    attn_implementation: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto"
    gradient_checkpointing: bool = True
    #: Who samples: this library, by its own batches or by transformers' generate; or vLLM, as TRL runs it.
    sampler: Literal["rlcr", "transformers", "vllm"] = "rlcr"
    #: Only with ``sampler: vllm``; None for its defaults.
    vllm: Vllm | None = None
    #: Truncated importance sampling: the greatest weight by which a token's gradient is corrected for the
    #: sampler's other probabilities. None for no correction; auto is 2 where vLLM samples, else none.
    importance_cap: Annotated[float, Field(gt=0)] | Literal["auto"] | None = "auto"
    #: Tokens that the cache of this library's sampler may hold; None for what half of the free memory holds.
    sampler_tokens: Count | None = None

    # --- what is kept and watched
    save_every: Count = 60
    #: Held-out evaluation every so many updates; None for never.
    eval_every: Count | None = None
    eval_task: str | None = None
    eval_split: str = "test"
    eval_size: Count = 200
    #: Chooses the best model: the expected reward (accuracy - Brier score), or one of the metrics.
    eval_metric: Literal["reward", "accuracy", "brier", "ece", "auroc"] = "reward"
    report_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ("tensorboard",)

    @property
    def completions(self) -> int:
        """Completions in an update."""
        return self.prompts * self.group

    @property
    def pass_tokens(self) -> int:
        """Tokens in one forward and backward pass of one device, where prompts are shared."""
        return self.micro_batch * (self.max_prompt_tokens + self.max_completion_tokens)

    @property
    def importance(self) -> float | None:
        """The greatest weight of a token in truncated importance sampling; None where it is off."""
        if self.importance_cap == "auto":
            return VLLM_IMPORTANCE_CAP if self.sampler == "vllm" else None
        return self.importance_cap

    @property
    def vllm_length(self) -> int:
        """Tokens that vLLM holds at most of a prompt and its completion."""
        stated = self.vllm.max_model_len if self.vllm else None
        return stated or self.max_prompt_tokens + self.max_completion_tokens

    def accumulation(self, processes: int = 1) -> int:
        """Micro-batches of one device in an update; raises ValueError if they do not come out even."""
        rows, rest = divmod(self.completions, processes)
        if rest or rows % self.micro_batch:
            raise ValueError(
                f"{self.prompts} prompts x {self.group} = {self.completions} completions cannot be cut into"
                f" micro-batches of {self.micro_batch} on {processes} device{'s' * (processes > 1)}"
            )
        return rows // self.micro_batch

    def total_updates(self, problems: int) -> int:
        """Updates of the whole run, on that many problems. What does not fill an update is left over."""
        return self.updates or math.ceil(self.epochs * (problems // self.prompts))
