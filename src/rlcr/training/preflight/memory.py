"""A rough estimate of the memory that a run needs on one device, to see whether it can work at all."""

from __future__ import annotations

from dataclasses import dataclass

from rlcr.engine.batches import HELD_LOGITS, REPEATED
from rlcr.training.preflight.model_shape import Shape
from rlcr.training.recipes.settings import Recipe

_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Memory:
    """Bytes, item by item."""

    weights: float
    gradients: float
    adam: float
    activations: float
    logits: float
    cache: float

    @property
    def total(self) -> float:
        """What is held at once while learning; the cache of sampling is gone by then."""
        return self.weights + self.gradients + self.adam + self.activations + self.logits


def precisions(recipe: Recipe) -> tuple[str, str]:
    """What weights are held in and what is computed in; by itself a GPU computes in bfloat16.

    Adapters are held in float32, whatever their base is.
    """
    if recipe.dtype != "auto":
        return recipe.dtype, recipe.dtype
    return "float32", "float32" if recipe.device == "cpu" else "bfloat16"


def estimate(recipe: Recipe, shape: Shape) -> Memory:
    """The memory of one device that holds everything.

    With N weights, N' trained ones (all, or those of adapters), h bytes a number held and b bytes a number
    computed (:func:`precisions`), t = max(h, 4) bytes a number trained, m = ``micro_batch`` sequences of
    P + C tokens, prompt and completion limit:

    ============ ==========================================================================
    weights       h N, and t N' more for adapters
    gradients     t N'
    Adam          2 t N'
    activations   b m (P + C) (layers x kept + working), where one layer works with
                  6 hidden + 2 queries + 2 keys (1 + r) + 3 feed-forward numbers a token, and
                  keeps its input alone with gradient checkpointing, else all of them; attention
                  repeats a shared prompt's keys r = group (P + C) / (P + group C) times,
                  :data:`~rlcr.engine.batches.REPEATED` at most
    logits        b m (P + C) vocabulary, at most :data:`~rlcr.engine.batches.HELD_LOGITS` b
    cache         b 2 keys layers (P + group C): sampling one group that shares its prompt
    ============ ==========================================================================

    FSDP or ZeRO divide the first three among devices. What allocators waste comes on top.
    """
    held, size = (_BYTES[dtype] for dtype in precisions(recipe))
    learning = max(held, _BYTES["float32"])
    trained = shape.adapter_parameters(recipe.lora.rank) if recipe.lora else shape.parameters
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    longest = recipe.max_prompt_tokens + recipe.max_completion_tokens
    sampled = recipe.max_prompt_tokens + recipe.group * recipe.max_completion_tokens
    repeated = min(recipe.group * longest / sampled, REPEATED) if recipe.shared_prompts else 0
    working = 6 * shape.hidden + 2 * queries + 2 * keys * (1 + repeated) + 3 * shape.feed_forward
    kept = shape.hidden if recipe.gradient_checkpointing else working
    return Memory(
        weights=held * shape.parameters + (learning * trained if recipe.lora else 0),
        gradients=learning * trained,
        adam=2 * learning * trained,
        activations=size * recipe.pass_tokens * (shape.layers * kept + working),
        logits=size * min(recipe.pass_tokens * shape.vocabulary, HELD_LOGITS),
        cache=2 * size * keys * shape.layers * sampled,
    )
