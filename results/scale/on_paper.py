"""What one update takes on GPUs that nobody here has: counted operations, divided by stated rates.

Nothing of this was measured. It says which part is the largest, and by about how much.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlcr.training.preflight.model_shape import Shape

#: NVIDIA H100 SXM, as published: bfloat16 operations and bytes of its memory a second; NVLink in one
#: direction, and InfiniBand of 400 Gb/s for each GPU, in bytes a second.
FLOPS, MEMORY, NVLINK, INFINIBAND = 989e12, 3.35e12, 450e9, 50e9
#: The share of these that is reached, assumed: matrix products in learning and in reading prompts, memory in
#: sampling, networks.
LEARNS, READS, SAMPLES, SENDS = 0.4, 0.5, 0.6, 0.7
#: Seconds of a sampling step in which our own sampler's Python and the start of kernels keep the GPU waiting,
#: assumed; vLLM, which replays recorded kernels, has a tenth of it.
OWN_STEP, VLLM_STEP = 0.025, 0.0025
_HALF = 2  # bytes


@dataclass(frozen=True)
class Work:
    """One update: prompts, samples of each, and lengths in tokens (usual, and the longest completion)."""

    prompts: int
    group: int
    prompt: int
    completion: int
    longest: int

    @property
    def completions(self) -> int:
        """Samples in the update."""
        return self.prompts * self.group

    @property
    def sampled(self) -> int:
        """Tokens that are sampled."""
        return self.completions * self.completion

    @property
    def learned(self) -> int:
        """Tokens that go through the layers in learning, each prompt once for its group."""
        return self.prompts * self.prompt + self.sampled


@dataclass(frozen=True)
class Fleet:
    """GPUs, and how they are used."""

    gpus: int
    node: int = 8
    together: int = 1
    """GPUs that sample as one (tensor parallel)."""
    sharded: bool = False
    """Whether weights lie in parts, so that each pass gathers them, and vLLM samples."""
    pass_tokens: int = 36_864

    @property
    def network(self) -> float:
        """Bytes a second between GPUs: of the slowest link that an exchange goes through."""
        return SENDS * (NVLINK if self.gpus <= self.node else INFINIBAND)


@dataclass(frozen=True)
class Update:
    """Seconds of one update, by part."""

    prompts: float
    sampling: float
    tail: float
    learning: float
    exchange: float
    sync: float

    @property
    def total(self) -> float:
        """All parts, one after another."""
        return self.prompts + self.sampling + self.tail + self.learning + self.exchange + self.sync


def operations(shape: Shape, tokens: int, scored: int, context: float) -> float:
    """Of one forward pass: layers for all tokens, the head for those that are scored, attention."""
    layers = 2 * shape.layers * shape.layer * tokens
    head = 2 * shape.hidden * shape.vocabulary * scored
    attention = 4 * shape.layers * shape.heads * shape.head_size * context * tokens
    return layers + head + attention


def update(shape: Shape, work: Work, fleet: Fleet) -> Update:
    """The seconds of an update, from its operations and bytes."""
    weights = _HALF * shape.parameters
    read = operations(shape, work.prompts * work.prompt, 0, work.prompt / 2)
    replicas = fleet.gpus // fleet.together
    rows = work.completions / replicas
    cache = _HALF * 2 * shape.layers * shape.kv_heads * shape.head_size  # of one token
    held = rows / work.group * work.prompt + rows * work.completion / 2  # each prompt once for its group
    overhead = VLLM_STEP if fleet.sharded else OWN_STEP
    step_bytes = (weights + cache * held) / fleet.together / (SAMPLES * MEMORY)
    step_products = operations(shape, 1, 1, work.prompt) * rows / fleet.together / (READS * FLOPS)
    step = max(step_bytes, step_products) + overhead
    alone = weights / fleet.together / (SAMPLES * MEMORY) + overhead
    context = work.prompt + work.completion / 2
    # Backward is two forwards, and checkpointing makes the forward again.
    learned = 4 * operations(shape, work.learned, work.sampled, context)
    passes = -(-work.learned // (fleet.gpus * fleet.pass_tokens))
    if fleet.sharded:  # each pass gathers the weights three times and sends gradients once
        exchanged, synced = 4 * passes * weights, weights
    else:  # each pass sends gradients; the step gathers the weights
        exchanged, synced = (passes + 1) * weights, 0
    return Update(
        prompts=read / fleet.gpus / (READS * FLOPS),
        sampling=work.completion * step,
        tail=(work.longest - work.completion) * alone,
        learning=learned / fleet.gpus / (LEARNS * FLOPS),
        exchange=exchanged / fleet.network,
        sync=synced / fleet.network,
    )
