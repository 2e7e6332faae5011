"""What was measured on a run, for answers that are still to come: thresholds and recalibration maps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlcr.confidence.recalibration import MAP
from rlcr.errors import RlcrError
from rlcr.metrics.recalibration import Recalibration
from rlcr.runs.columns import VERBALISED
from rlcr.runs.lines import object_of
from rlcr.runs.stamps import records_hash, why_stale
from rlcr.runs.store import COLUMNS, RUN, open_run

_PRECISION = "precision"


def load_threshold(path: Path, samples: int, recalibration: str | Path | None) -> float:
    """The threshold of a selective.json of `rlcr select`, made for answers like these.

    A run gives two of them for each task, each from one half of the questions. The highest is taken: it is
    the one whose promise is kept on all of them.
    """
    if not path.exists():
        raise RlcrError(
            f"the threshold is neither a number nor a file: {path}; `rlcr select RUN` makes one in the run"
        )
    stored = _stored(path, "`rlcr select`", path.parent, needs=_PRECISION)
    made_for, column = stored.get("samples", 1), stored.get("confidence", VERBALISED)
    if made_for != samples:
        raise RlcrError(
            f"{path}: this threshold is for {made_for} samples, and {samples} are drawn:"
            f" `rlcr select {path.parent} --samples {samples}` makes one"
        )
    given = Path(recalibration).stem if recalibration else VERBALISED
    if column != given:
        stated = "the stated confidence" if given == VERBALISED else f"column {given}"
        raise RlcrError(
            f"{path}: this threshold is for column {column}, and the answers are judged by {stated}"
        )
    thresholds = []
    for task, selected in (stored.get("tasks") or {}).items():
        try:
            found = [check["threshold"]["value"] for check in selected["checks"]]
        except (TypeError, KeyError):
            raise RlcrError(f"{path}: {task} has no thresholds; `rlcr select` makes the file again") from None
        if None in found:
            raise RlcrError(
                f"{path}: {task}: no confidence reaches {stored[_PRECISION]:.0%} there: choose a lower one"
                f" (`rlcr select {path.parent} --precision`), give a number as the threshold, or select"
                " on a run without that task"
            )
        thresholds += found
    if not thresholds:
        raise RlcrError(f"{path}: holds no threshold; `rlcr select` makes one")
    return max(map(float, thresholds))


def load_recalibration(path: Path) -> Recalibration:
    """The map of a column that `rlcr confidence add` made: the JSON beside it, or the column's own file."""
    path = path.with_suffix(".json") if path.suffix == ".jsonl" else path
    run = path.parent.parent if path.parent.name == COLUMNS else path.parent
    stored = _stored(path, "`rlcr confidence add platt`", run)
    if stored.get("of", VERBALISED) != VERBALISED:
        raise RlcrError(f"{path}: recalibrates column {stored['of']}, and answers come with what they state")
    try:
        return Recalibration.from_dict(stored.get(MAP))
    except ValueError as error:
        raise RlcrError(f"{path}: {error}; `rlcr confidence add platt` makes one") from None


def _stored(path: Path, maker: str, folder: Path, needs: str | None = None) -> Mapping[str, Any]:
    """A file that was derived from a run and ``needs`` a key; stale is refused where the run is around it."""
    try:
        return _read(path, maker, folder, needs, path.stat().st_mtime_ns)
    except OSError as error:
        raise RlcrError(f"{path}: cannot be read: {error.strerror}; {maker} makes it") from None


@lru_cache(maxsize=64)
def _read(path: Path, maker: str, folder: Path, needs: str | None, _: int) -> Mapping[str, Any]:
    """Once for each version of a file: an application names it with every question."""
    try:
        stored = object_of(path.read_bytes())
    except ValueError as error:
        raise RlcrError(f"{path}: {error}; {maker} makes it") from None
    if needs and needs not in stored:
        raise RlcrError(f"{path}: not a threshold file: it has no {needs}; {maker} makes one, selective.json")
    if (folder / RUN).is_file() and (why := why_stale(folder, stored, records_hash(open_run(folder)))):
        raise RlcrError(f"{path}: stale: {why}; {maker} makes it again")
    return stored
