"""The tables of docs/scale.md, computed."""

from __future__ import annotations

from pathlib import Path

from results.scale import on_paper
from results.scale.on_paper import Fleet, Work

from results import pages
from rlcr.training.launches import Launch
from rlcr.training.preflight.memory import CARD, Memory, by_launch, estimate
from rlcr.training.preflight.model_shape import KNOWN, Shape
from rlcr.training.recipes import RECIPES, load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
DEVICES = (1, 4, 8, 16)
#: What is left for what allocators waste.
FILLED = 0.95
QWEN_7B = KNOWN["Qwen/Qwen2.5-7B"]
#: Qwen2.5-72B, from its config.json.
QWEN_72B = Shape(8192, 80, 64, 8, 128, 29568, 152064, False)
#: HotpotQA's recipe with lengths as they are usual: prompts of 1,300 tokens, completions of 300.
HOTPOT = Work(64, 32, 1300, 300, 1536)
FLEETS: dict[str, tuple[Shape, Fleet]] = {
    "7B on 8, zero2, our sampler": (QWEN_7B, Fleet(8)),
    "7B on 8, fsdp2, vLLM": (QWEN_7B, Fleet(8, sharded=True)),
    "72B on 64, zero3, vLLM on 8 together": (
        QWEN_72B,
        Fleet(64, together=8, sharded=True, pass_tokens=9_216),
    ),
}


def filled(page: str) -> str:
    """The page with its tables as they are computed."""
    tables = {"recipes": _recipes(), "items": _items(), "seconds": _seconds(), "large": _large()}
    return pages.filled(page, tables)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f}" if count < 10e9 else f"{count / 1e9:.0f}"


def _recipes() -> str:
    """Recipes of one size and shape share a line."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in RECIPES:
        recipe = load_recipe(name).recipe
        shape = KNOWN.get(recipe.model)
        if shape is None:
            continue  # a start that is built or given
        found = by_launch(recipe, shape, DEVICES)
        cells = [recipe.model.split("/")[1], _gb(found["ddp"][0])]
        for number in range(1, len(DEVICES)):
            cells.append(_fitting({launch: totals[number] for launch, totals in found.items()}))
        cells.append(_gb(estimate(recipe, shape, "ddp", 8).host))
        lines.setdefault(tuple(cells), []).append(f"`{name}`")
    head = ["recipes", "model", "one GPU", *(f"{n} GPUs" for n in DEVICES[1:]), "host, 8 processes"]
    return _table(head, [[", ".join(names), *cells] for cells, names in lines.items()])


def _fitting(totals: dict[Launch, float]) -> str:
    """The launches that fit a card, and how much of it they take."""
    fitting = [f"{launch} {_gb(total)}" for launch, total in totals.items() if total <= FILLED * CARD]
    return ", ".join(fitting) or "none"


def _items() -> str:
    recipe = load_recipe("hotpotqa-rlcr").recipe
    columns: list[tuple[Launch, int]] = [("ddp", 1), ("zero2", 4), ("zero2", 8), ("fsdp2", 4), ("fsdp2", 8)]
    found = [estimate(recipe, QWEN_7B, launch, devices) for launch, devices in columns]
    return _memory([f"{launch} on {devices}" for launch, devices in columns], found)


def _memory(names: list[str], found: list[Memory]) -> str:
    items = {
        "weights": "weights",
        "copy": "their copy in bfloat16",
        "gradients": "gradients",
        "adam": "Adam states",
        "exchange": "exchanged at once",
        "activations": "activations",
        "logits": "logits",
        "vllm": "vLLM",
        "total": "together, GB",
    }
    rows = [[text, *(_gb(getattr(one, item)) for one in found)] for item, text in items.items()]
    return _table(["GB on each GPU", *names], rows)


def _large() -> str:
    changes = {"micro_batch": 2, "sampler": "vllm", "eval_every": None}
    recipe = load_recipe("hotpotqa-rlcr", changes).recipe
    columns: list[tuple[Launch, int]] = [("zero3", 32), ("zero3", 64), ("fsdp2", 64)]
    found = [estimate(recipe, QWEN_72B, launch, devices) for launch, devices in columns]
    table = _memory([f"{launch} on {devices}" for launch, devices in columns], found)
    return f"{table}\n\nHost memory of a node while 8 processes load the weights: {_gb(found[0].host)} GB."


def _seconds() -> str:
    found = {name: on_paper.update(shape, HOTPOT, fleet) for name, (shape, fleet) in FLEETS.items()}
    parts = {
        "prompts": "rollout: reading prompts",
        "sampling": "rollout: sampling",
        "tail": "rollout: waiting for the longest",
        "learning": "learning",
        "exchange": "exchange of gradients and weights",
        "sync": "weights to the sampler",
        "total": "an update, seconds",
    }
    rows = [[text, *(f"{getattr(one, part):.1f}" for one in found.values())] for part, text in parts.items()]
    rates = {
        "sampled tokens a second, rollout": [
            HOTPOT.sampled / (one.prompts + one.sampling + one.tail) for one in found.values()
        ],
        "learned tokens a second, learning": [
            HOTPOT.learned / (one.learning + one.exchange) for one in found.values()
        ],
        "sampled tokens a second, all": [HOTPOT.sampled / one.total for one in found.values()],
    }
    rows += [[name, *(f"{rate:,.0f}" for rate in values)] for name, values in rates.items()]
    return _table(["seconds", *found], rows)
