"""A rough estimate of the memory that a run needs on each device, to see whether it can work at all."""

from __future__ import annotations

from dataclasses import dataclass

from rlcr.engine.batches import HELD_LOGITS, REPEATED
from rlcr.training.launches import LAUNCHES, SHARDED, Launch
from rlcr.training.preflight.model_shape import Shape
from rlcr.training.recipes.settings import Recipe, Vllm

_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
#: Bytes of the devices that the tables are made for.
CARD = 80e9
#: Numbers that DeepSpeed exchanges at once, and weights that it keeps gathered at stage 3: its defaults.
_BUCKET, _LIVE = 5e8, 1e9
#: Bytes of Adam's two states in 8 bits: each block of 256 numbers has a scale.
_EIGHT_BITS = 2 * (1 + 4 / 256)
#: Processes on a node at most, which read the weights at the same time.
_NODE = 8


@dataclass(frozen=True)
class Memory:
    """Bytes on each device, item by item."""

    weights: float
    copy: float
    """Of the weights, in the precision of the arithmetic."""
    gradients: float
    adam: float
    exchange: float
    """What devices send each other, or have gathered from each other, at once."""
    activations: float
    logits: float
    vllm: float
    cache: float
    cast: float
    """Of the weights of linear layers, in the precision of the arithmetic, while our sampler samples."""
    host: float
    """Of a node, while its processes load the weights."""

    @property
    def total(self) -> float:
        """What is held at once while learning; the cache of sampling is gone by then."""
        held = self.weights + self.copy + self.gradients + self.adam
        return held + self.exchange + self.activations + self.logits + self.vllm

    @property
    def sampling(self) -> float:
        """What is held at once while our sampler samples one group; gradients are gone by then."""
        return self.weights + self.adam + self.exchange + self.cast + self.cache


def precisions(recipe: Recipe) -> tuple[str, str]:
    """What weights are held in and what is computed in; by itself a GPU computes in bfloat16.

    Adapters are held in float32, whatever their base is.
    """
    if recipe.dtype != "auto":
        return recipe.dtype, recipe.dtype
    return "float32", "float32" if recipe.device == "cpu" else "bfloat16"


def estimate(recipe: Recipe, shape: Shape, launch: Launch = "ddp", devices: int = 1) -> Memory:
    """The memory of each device.

    With N weights, N' trained ones (all, or those of adapters), h bytes a number held and b bytes a number
    computed (:func:`precisions`), t = max(h, 4) bytes a number trained, n devices, m = ``micro_batch``
    sequences of P + C tokens, prompt and completion limit:

    ============ ==========================================================================
    weights       ddp h N, and t N' more for adapters; zero2 b N + t N' / n;
                  zero3 (b N + t N') / n; fsdp2 t N / n
    copy          ddp b N' where b < h: autocast keeps what it has cast, of trained weights
                  (without gradient checkpointing, all of them)
    gradients     ddp t N'; zero2 and zero3 (b + t) N' / n: those of the passes, and of the step;
                  fsdp2 t N' / n
    Adam          2 t N' (2 N' in 8 bits, and a float32 for each block of 256), divided by n unless ddp
    exchange      ddp t N' on several devices; zero2 and zero3 a bucket of 5e8 numbers b, zero3
                  1e9 gathered weights b more; fsdp2 2 b (embeddings + 2 layers): weights, gradients
    activations   m (P + C) (layers x kept + working), where one layer holds (8 + 2 r + 2 b) hidden +
                  b (2 queries + 2 keys (1 + k) + 4 feed-forward) bytes a token for its backward pass,
                  the 8 in norms, which compute in float32, and works with gradients of (r + b) hidden
                  + 2 b feed-forward more; it keeps its input alone (r hidden) with gradient
                  checkpointing, else all that it holds; r, of the residual stream, is h where the
                  weights are, b where they are cast first (zero, fsdp); attention repeats a shared
                  prompt's keys
                  k = group (P + C) / (P + group C) times,
                  :data:`~rlcr.engine.batches.REPEATED` at most
    logits        b m (P + C) vocabulary, at most :data:`~rlcr.engine.batches.HELD_LOGITS` b
    vllm          its share (``vllm.memory``) of 80 GB where it samples inside the trainer: with fsdp2
                  and zero3 always, unless it is a server; none while the model learns if it sleeps
    cache         (r + b) keys layers (P + group C): sampling one group that shares its prompt; keys are
                  as the residual stream is, values as what is computed
    cast          ddp b (N - input embeddings) where b < h: weights are cast once for all steps of sampling
    host          h N for each process of a node
    ============ ==========================================================================

    What allocators waste comes on top.
    """
    held, size = (_BYTES[dtype] for dtype in precisions(recipe))
    learning = max(held, _BYTES["float32"])
    whole = shape.parameters
    trained = shape.adapter_parameters(recipe.lora.rank) if recipe.lora else whole
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    longest = recipe.max_prompt_tokens + recipe.max_completion_tokens
    sampled = recipe.max_prompt_tokens + recipe.group * recipe.max_completion_tokens
    repeated = min(recipe.group * longest / sampled, REPEATED) if recipe.shared_prompts else 0
    residual = held if launch == "ddp" else size
    inner = 2 * queries + 2 * keys * (1 + repeated) + 4 * shape.feed_forward
    layer = (8 + 2 * residual + 2 * size) * shape.hidden + size * inner
    kept = residual * shape.hidden if recipe.gradient_checkpointing else layer
    working = layer + (residual + size) * shape.hidden + size * 2 * shape.feed_forward
    share = 1 if launch == "ddp" else devices
    bucket = size * min(_BUCKET, trained)
    copy, extra = 0.0, learning * trained if recipe.lora else 0
    if launch == "ddp":
        weights, gradients = held * whole + extra, learning * trained
        exchange = gradients if devices > 1 else 0
        if size < held:
            copy = size * (trained if recipe.gradient_checkpointing else whole)
    elif launch == "fsdp2":
        weights, gradients = (learning * whole + extra) / share, learning * trained / share
        exchange = 2 * size * (shape.embeddings + 2 * shape.layer)
    else:
        cast = size * (whole + (trained if recipe.lora else 0))
        weights = (cast if launch == "zero2" else cast / share) + learning * trained / share
        gradients = (size + learning) * trained / share
        exchange = bucket + (size * min(_LIVE, whole) if launch == "zero3" else 0)
    return Memory(
        weights=weights,
        copy=copy,
        gradients=gradients,
        adam=(2 * learning if recipe.optimizer == "adam" else _EIGHT_BITS) * trained / share,
        exchange=exchange,
        activations=recipe.pass_tokens * (shape.layers * kept + working),
        logits=size * min(recipe.pass_tokens * shape.vocabulary, HELD_LOGITS),
        vllm=_vllm(recipe, launch),
        cache=(residual + size) * keys * shape.layers * sampled,
        cast=size * (shape.parameters - shape.input_embeddings) if launch == "ddp" and size < held else 0,
        host=min(devices, _NODE) * held * whole,
    )


def _vllm(recipe: Recipe, launch: Launch) -> float:
    vllm = recipe.vllm or Vllm()
    samples = recipe.sampler == "vllm" or launch in SHARDED
    return vllm.memory * CARD if samples and not vllm.server and not vllm.sleep else 0.0


def by_launch(recipe: Recipe, shape: Shape, devices: tuple[int, ...]) -> dict[Launch, list[float]]:
    """The bytes of each device, by launch and number of devices; adapters cannot be sharded."""
    possible: list[Launch] = [launch for launch in LAUNCHES if recipe.lora is None or launch not in SHARDED]
    return {
        launch: [estimate(recipe, shape, launch, number).total for number in devices] for launch in possible
    }
