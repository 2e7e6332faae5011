"""How time and memory grow with group size, prompt length and completion length, against stock TRL.

One of the three changes, the others stay at 256 / 32 / 8; SmolLM2-135M with 4 of its 30 layers, so that the
long shapes take minutes and not hours. Written to benchmarks/results.json and docs/images/growth.png:

    python benchmarks/bench_growth.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import bench_training
from recording import record

LAYERS = 4
AXES = {
    "prompt": [f"{p}/32/8" for p in (64, 128, 256, 512, 1024)],
    "completion": [f"256/{c}/8" for c in (16, 32, 64, 128, 256)],
    "group": [f"256/32/{g}" for g in (2, 4, 8, 16, 32)],
}
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"


def run(rounds: int, layers: int, cpu: bool, axes: dict[str, list[str]]) -> dict[str, Any]:
    """Seconds of the learning phase and peak memory by shape, for ours and stock TRL."""
    found: dict[str, Any] = {"what": f"learning phase, SmolLM2-135M with {layers} layers, float32"}
    for axis, shapes in axes.items():
        found[axis] = {}
        for shape in shapes:
            made = bench_training.run(shape, [], rounds, layers, cpu, ("ours", "stock"))
            (stock,) = (name for name in made["seconds"] if name.startswith("stock"))
            found[axis][shape] = {
                side: {
                    "learning_s": made["seconds"][name]["learning"],
                    "spread": made["spread"][name]["learning"],
                    "peak_gb": made["peak_gb"][name],
                }
                for side, name in (("ours", "ours"), ("stock", stock))
            } | {"ratio": made["ratio"]["learning"]["best"]}
    return found


def draw(found: dict[str, Any], path: Path) -> None:
    """Time above, memory below, one column for each of the three."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    axes = [axis for axis in AXES if axis in found]
    figure, panels = pyplot.subplots(2, len(axes), figsize=(3.6 * len(axes), 5.6), squeeze=False)
    for column, axis in enumerate(axes):
        position = list(AXES).index(axis)
        sizes = [int(shape.split("/")[position]) for shape in found[axis]]
        for row, (name, label) in enumerate(
            (("learning_s", "learning, seconds"), ("peak_gb", "peak memory, GB"))
        ):
            panel = panels[row][column]
            for side, colour in (("stock", "#b2552b"), ("ours", "#24618a")):
                values = [point[side][name] for point in found[axis].values()]
                panel.plot(
                    sizes, values, "o-", color=colour, label="stock TRL" if side == "stock" else "rlcr"
                )
            panel.set_xscale("log", base=2)
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.set_ylim(bottom=0)
            panel.set_xlabel(f"{axis}{'' if axis == 'group' else ' tokens'}")
            if not column:
                panel.set_ylabel(label)
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--cpu", action="store_true", help="seconds of computing, one thread")
    parser.add_argument(
        "--try", dest="trial", action="store_true", help="two small shapes, nothing is written"
    )
    options = parser.parse_args()
    axes = {"group": ["32/8/2", "32/8/4"]} if options.trial else AXES
    growth = run(options.rounds, options.layers, options.cpu, axes)
    print(json.dumps(growth, indent=2))
    if options.trial:
        draw(growth, Path("growth-trial.png"))
    else:
        record({f"growth{', CPU seconds' * options.cpu}": growth})
        draw(growth, FIGURE)
