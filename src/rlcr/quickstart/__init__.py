"""`rlcr quickstart`: from nothing to a calibrated model and a report, in minutes on two cores.

The embedded model is trained in four ways on the toy task whose optimum is known, through exactly the code
of `rlcr train` and `rlcr eval`, two at a time with one thread each:

    OUT/METHOD/train       a training run, as `rlcr train` writes it
    OUT/METHOD/eval        the trained model on test problems, as `rlcr eval` writes it
    OUT/METHOD/sequences   the same on every sequence of draws there is: what it is worth exactly
    OUT/start/…            the same two evaluations of the model that all start from
    OUT/quickstart.json    the table, with versions, seed and times
    OUT/report.html        the page
    OUT/figures            its figures and tables as files

What is done is not done again; an interrupted run continues where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcr.errors import RlcrError, need
from rlcr.files import writing
from rlcr.runs.lines import write_whole
from rlcr.runs.store import RESULTS, open_run
from rlcr.runs.versions import run_facts
from rlcr.tasks import write_problems
from rlcr.tasks.arms import Arms
from rlcr.tasks.arms_optimum import (
    ExactEvaluation,
    exact_evaluation,
    optimum,
    read_answers,
    sequence_problems,
)
from rlcr.training.measurements import UPDATES, read_updates

if TYPE_CHECKING:
    from rlcr.training.embedded import Lessons

SUMMARY, REPORT, FIGURES = "quickstart.json", "report.html", "figures"
SEQUENCES = "sequences.jsonl"
_PACKAGES = ("rlcr", "torch", "transformers", "trl", "numpy")
#: What its trainings import, in the order in which it should be installed.
_NEEDED = ("torch", "transformers", "accelerate", "datasets", "trl")
_INSTALL = 'install the build of torch for your hardware (pytorch.org), then pip install "rlcr[train]"'
#: How its processes begin.
_RLCR = (sys.executable, "-m", "rlcr")
#: Test problems for the report. The exact numbers need none.
_TEST_PROBLEMS = 1000


@dataclass(frozen=True)
class Way:
    """One way to train: its name in tables, its recipe, and how the model is evaluated."""

    name: str
    title: str
    recipe: str | None
    method: str


START = Way("start", "start", None, "rlcr-no-analysis")
WAYS = (
    Way("rlvr", "RLVR", "tiny-arms-rlvr", "rlvr"),
    Way("rlcr", "RLCR (Brier)", "tiny-arms-brier", "rlcr-no-analysis"),
    Way("rlcr-log", "RLCR-Log", "tiny-arms-log", "rlcr-no-analysis"),
    Way("calibration-only", "calibration only", "tiny-arms-calibration-only", "rlcr-no-analysis"),
)


@dataclass(frozen=True)
class Quickstart:
    """What the quickstart found: exact numbers for each way, and where the page is."""

    folder: Path
    exact: Mapping[str, ExactEvaluation]
    seconds: float

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / REPORT


#: Called with the name of a piece of work, the share of it that is done, and a word on how it stands.
Watch = Callable[[str, float, str], None]


def run(
    out: Path,
    *,
    seed: int = 0,
    fresh: bool = False,
    watch: Watch | None = None,
    ways: Sequence[Way] = WAYS,
    lessons: Lessons | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Quickstart:
    """Do what is not done yet, and write the summary and the report.

    A shorter run has fewer ``ways``, other ``lessons`` of its model, or ``overrides`` of the recipes.
    """
    need("the quickstart", *_NEEDED, install=_INSTALL)
    watch = watch or (lambda name, share, word: None)
    started = time.monotonic()
    _open_folder(out, seed, fresh)  # what is wrong with it is said at once: importing torch takes seconds
    from rlcr.quickstart.table import story_of
    from rlcr.report.page import write_report
    from rlcr.training.embedded import build

    model = build(
        seed, lessons, progress=lambda share: watch("start", 0.9 * share, "learns the task and the format")
    )
    work = _Work(out, seed, str(model), overrides or {}, watch)
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            # The slowest first, so that the two processes end together.
            list(pool.map(work.do, [*sorted(ways, key=_updates, reverse=True), START]))
        except BaseException:
            work.stop()  # leaving the pool would wait for them otherwise
            raise
    exact = {way.name: exact_of(out / way.name / "sequences") for way in (START, *ways)}
    seconds = _add_seconds(out, time.monotonic() - started)
    finished = Quickstart(out, exact, seconds)
    write_whole(out / SUMMARY, json.dumps(_summary(finished, seed), indent=2) + "\n")
    runs = [out / way.name / "eval" for way in (START, *ways)] + [out / way.name / "train" for way in ways]
    write_report(runs, finished.report, figures=out / FIGURES, story=story_of(out, exact))
    return finished


def exact_of(folder: Path) -> ExactEvaluation:
    """What a policy is worth exactly: from a run on every sequence of draws."""
    task = Arms()
    said = {record.id: record for record in open_run(folder).records()}
    rows = [said[problem.id] for problem in sequence_problems(task)]
    answers: list[Any] = read_answers(task, [row.answer for row in rows])
    confidences: list[Any] = [row.confidence for row in rows]
    return exact_evaluation(task, (answers, confidences))


# --- folder -----------------------------------------------------------------------------------------


def _open_folder(out: Path, seed: int, fresh: bool) -> None:
    mark = out / SUMMARY
    if out.exists() and not out.is_dir():
        raise RlcrError(f"{out}: is a file, and --out is a folder; choose another")
    if out.is_dir() and any(out.iterdir()):
        if not mark.is_file():
            raise RlcrError(f"{out}: not empty, and not a quickstart's; choose another --out")
        before = json.loads(mark.read_text(encoding="utf-8"))["seed"]
        if fresh:
            shutil.rmtree(out)
        elif before != seed:
            raise RlcrError(
                f"{out}: holds the quickstart of seed {before}; --fresh starts over, or choose --out"
            )
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    if not mark.is_file():
        write_whole(mark, json.dumps({"seed": seed, "seconds": 0.0}) + "\n")
    if not (out / SEQUENCES).exists():
        write_problems(out / SEQUENCES, sequence_problems(Arms()))


def _add_seconds(out: Path, seconds: float) -> float:
    before = json.loads((out / SUMMARY).read_text(encoding="utf-8"))["seconds"]
    return round(before + seconds, 1)


def _summary(finished: Quickstart, seed: int) -> dict[str, Any]:
    best = optimum(Arms())
    return {
        "seed": seed,
        "seconds": finished.seconds,
        "exact": {name: asdict(numbers) for name, numbers in finished.exact.items()},
        "optimum": {"accuracy": best.accuracy, "brier": best.brier, "reward": best.reward},
        **run_facts(_PACKAGES),
    }


# --- work -------------------------------------------------------------------------------------------


class _Work:
    """Trains and evaluates, each in a process of its own with one thread."""

    def __init__(self, out: Path, seed: int, model: str, overrides: Mapping[str, Any], watch: Watch) -> None:
        self.out, self.model, self.watch = out, model, watch
        self._settings = {"model": model, "seed": seed, "data_seed": seed, **overrides}
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = threading.Event()

    def do(self, way: Way) -> None:
        """All that is still to be done for one way."""
        folder = self.out / way.name
        model = self.model
        if way.recipe is not None:
            model = str(folder / "train" / "model")
            if not Path(model).is_dir():
                self._train(way, folder / "train")
        for name, task in (("eval", "arms"), ("sequences", str(self.out / SEQUENCES))):
            self._evaluate(way, folder / name, model, task)
        self.watch(way.name, 1.0, _word(exact_of(folder / "sequences")))

    def _train(self, way: Way, folder: Path) -> None:
        assert way.recipe is not None
        total = self._settings.get("updates") or _updates(way)
        options = ["--resume"] if (folder / "training.json").exists() else []
        settings = [f"{name}={value}" for name, value in self._settings.items()]
        for _ in self._call("train", way.recipe, *settings, "--out", str(folder), *options):
            lines = read_updates(folder / UPDATES) if (folder / UPDATES).exists() else []
            if lines:
                self.watch(way.name, 0.95 * len(lines) / total, _state(lines[-1]))

    def _evaluate(self, way: Way, folder: Path, model: str, task: str) -> None:
        if (folder / RESULTS).exists():
            return
        options = ["--resume"] if (folder / "run.json").exists() else []
        options += ["--limit", str(_TEST_PROBLEMS)] if task == "arms" else []
        call = ("eval", "--model", model, "--task", task, "--method", way.method, "--max-tokens", "32")
        for _ in self._call(*call, "--out", str(folder), *options):
            self.watch(way.name, 0.97, "is evaluated")

    def _call(self, *arguments: str) -> Iterator[None]:
        """Run a command of ours; yields every now and then while it runs."""
        if self._stopped.is_set():
            raise RlcrError("stopped")
        # More threads than cores, and torch crawls.
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*_RLCR, *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        self._running.add(process)
        said: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
        reader.start()
        while process.poll() is None:
            yield
            time.sleep(0.5)
        reader.join()
        self._running.discard(process)
        if process.returncode:
            last = said[-1].strip() if said else f"exit status {process.returncode}"
            raise RlcrError(f"`rlcr {' '.join(arguments)}` failed: {last}")
        yield

    def stop(self) -> None:
        """End the processes; what they have written is kept."""
        self._stopped.set()
        for process in list(self._running):
            process.terminate()


def _updates(way: Way) -> int:
    from rlcr.training.recipes import load_recipe

    assert way.recipe is not None
    updates = load_recipe(way.recipe).recipe.updates
    assert updates is not None, "the tiny recipes state their updates"
    return updates


def _state(line: Mapping[str, Any]) -> str:
    ece = "" if line["ece"] is None else f", ECE {line['ece']:.2f}"
    return f"reward {line['reward']:.2f}, accuracy {line['accuracy']:.2f}{ece}"


def _word(exact: ExactEvaluation) -> str:
    return f"accuracy {exact.accuracy:.3f}, ECE {exact.ece:.3f}"
