"""`rlcr confidence add`: from the name of a source to a column of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from rlcr.confidence.agreement import agreement, hybrid
from rlcr.confidence.answer_probability import PROBABILITIES, probabilities
from rlcr.confidence.recalibration import recalibrated
from rlcr.confidence.rows import Rows, column_provenance, cost, read_rows
from rlcr.errors import RlcrError, nearest
from rlcr.evaluate import write_results
from rlcr.metrics.recalibration import RECALIBRATIONS
from rlcr.runs.columns import HELD, VERBALISED, Column, check_name, column_files, provenance, write_column
from rlcr.runs.record import Key
from rlcr.runs.stamps import stamp
from rlcr.runs.store import locked, open_run
from rlcr.tasks.plumbing.tables import Row, as_confidence
from rlcr.tasks.plumbing.tables import read_rows as table_rows


@dataclass(frozen=True)
class Options:
    """What a source may need beside the run.

    ``train`` is a run to learn from (without it, what learns does so across folds of the run's questions);
    ``of`` the column to recalibrate; ``model`` and ``layer`` are the probe's; ``classifier`` is a folder of
    `train-classifier`; ``file``, ``field`` and ``id_field`` say where a stored column is.
    """

    train: Path | None = None
    of: str = VERBALISED
    model: str | None = None
    layer: int = -1
    classifier: Path | None = None
    file: Path | None = None
    field: str = "confidence"
    id_field: str = "id"
    device: str = "auto"
    dtype: str = "auto"
    progress: Callable[[float], None] | None = None


@dataclass(frozen=True)
class Added:
    """A column that was written."""

    name: str
    path: Path
    provenance: dict[str, Any]


Source = Callable[[Rows, Options], tuple[Column, dict[str, Any]]]


def add_column(folder: Path, source: str, options: Options | None = None, name: str | None = None) -> Added:
    """Make a column, write it, and measure the run again. ``name`` replaces the column's usual name."""
    return add_columns(folder, [source], options, name)[0]


def add_columns(
    folder: Path, sources: Sequence[str], options: Options | None = None, name: str | None = None
) -> list[Added]:
    """Make several columns one after the other, then measure the run once."""
    options = options or Options()
    for source in sources:
        if source in HELD:
            raise RlcrError(f"{source} is in the records already: there is nothing to add")
        if source not in SOURCES:
            raise RlcrError(f"unknown source of confidence {source!r}: {nearest(source, list(SOURCES))}")
    if name and len(sources) > 1:
        raise RlcrError("--as names one column; add the others without it")
    names = [name or _usual_name(source, options) for source in sources]
    for column_name in names:
        check_name(column_name)
        if column_name == options.of:
            raise RlcrError(
                f"a column is not made of itself: give it a name other than {options.of} with --as"
            )
    _check_used(sources, options)
    open_run(folder)  # a misspelt folder must not be made by locking it
    added: list[Added] = []
    with locked(folder):
        rows = read_rows(folder)
        try:
            for column_name, source in zip(names, sources, strict=True):
                made_from = stamp(rows.run, column_files(options.of) if source in RECALIBRATIONS else ())
                column, origin = SOURCES[source](rows, options)
                path = write_column(rows.run, column_name, column, origin, made_from)
                added.append(Added(column_name, path, origin))
        except RlcrError as error:
            if not added:
                raise
            write_results(rows.run)
            made = [column.name for column in added]
            raise RlcrError(
                f"{error}. Made before that, kept and measured: {', '.join(made)}; not made:"
                f" {', '.join(names[len(made) :])}"
            ) from None
        write_results(rows.run)
    return added


def _check_used(sources: Sequence[str], options: Options) -> None:
    """Raise for an option that no source uses, since the user expects it to matter, and for a missing one."""
    for field in fields(options):
        users = _USERS.get(field.name, ())
        if users and getattr(options, field.name) != field.default and not set(users) & set(sources):
            option = {"id_field": "id"}.get(field.name, field.name)
            raise RlcrError(f"--{option} is for {', '.join(users)}, not for {', '.join(sources)}")
    if "classifier" in sources and options.classifier is None:
        raise RlcrError(
            "source classifier: give --classifier, a folder of `rlcr confidence train-classifier`"
        )


_USERS: dict[str, Sequence[str]] = {
    "train": ("hybrid", "probe", *RECALIBRATIONS),
    "of": RECALIBRATIONS,
    "classifier": ("classifier",),
    **dict.fromkeys(("model", "layer", "device", "dtype"), ("probe",)),
    **dict.fromkeys(("file", "field", "id_field"), ("file",)),
}


def _usual_name(source: str, options: Options) -> str:
    if source == "file":
        if options.file is None:
            raise RlcrError("source file: say which with --file, and the column's name with --as")
        return options.file.name.partition(".")[0]
    return source if source not in RECALIBRATIONS or options.of == VERBALISED else f"{options.of}-{source}"


def _train(options: Options) -> Rows | None:
    return read_rows(options.train) if options.train else None


def _probability(name: str, rows: Rows, _: Options) -> tuple[Column, dict[str, Any]]:
    return probabilities(rows.run, name), column_provenance(name, cost(completions=len(rows.keys)))


def _agreement(rows: Rows, _: Options) -> tuple[Column, dict[str, Any]]:
    return agreement(rows), column_provenance("agreement", _samples_cost(rows))


def _hybrid(rows: Rows, options: Options) -> tuple[Column, dict[str, Any]]:
    values, details = hybrid(rows, _train(options))
    return rows.to_column(values), column_provenance("hybrid", _samples_cost(rows), **details)


def _samples_cost(rows: Rows) -> dict[str, int]:
    """One answer's agreement takes the other samples of its question: all but the first are extra."""
    extra = [record.tokens for record in rows.records() if record.sample > 0]
    # Imported tables hold no token counts, and servers do not always send them.
    spent = cost(len(extra), sum(extra), completions=len(rows.keys))
    return spent if all(extra) else {name: n for name, n in spent.items() if name != "tokens"}


def _recalibrated(method: str, rows: Rows, options: Options) -> tuple[Column, dict[str, Any]]:
    learned = recalibrated(rows, options.of, method, _train(options))
    details = {"of": options.of, **learned.details}
    return rows.to_column(learned.confidence), column_provenance(
        method, provenance(rows.run, options.of).get("cost") or {}, **details
    )


def _probe(rows: Rows, options: Options) -> tuple[Column, dict[str, Any]]:
    from rlcr.confidence.probe import probed

    values, details, spent = probed(
        rows,
        _train(options),
        options.model,
        layer=options.layer,
        device=options.device,
        dtype=options.dtype,
        progress=options.progress,
    )
    return rows.to_column(values), column_provenance("probe", spent, **details)


def _classifier(rows: Rows, options: Options) -> tuple[Column, dict[str, Any]]:
    from rlcr.confidence.classifier import classified

    assert options.classifier is not None
    values, details, spent = classified(rows, options.classifier)
    return rows.to_column(values), column_provenance("classifier", spent, **details)


def _file(rows: Rows, options: Options) -> tuple[Column, dict[str, Any]]:
    """Confidences from any table: by the problem's id, and by ``sample`` where there is such a column.

    Without it a list in a cell holds those of the problem's samples.
    """
    assert options.file is not None
    known, seen = set(rows.keys), set[Key]()
    column: Column = {}
    wanted = [options.id_field, options.field]
    if "sample" in next(table_rows(options.file, None)).cells:
        wanted.append("sample")
    for row in table_rows(options.file, wanted):
        name, values = str(row.cells[options.id_field]), row.samples(options.field)
        if "sample" in wanted:
            if len(values) != 1:
                raise row.error(options.field, f"{len(values)} values, although the row is of one sample")
            values = {_sample(row): values[0]}
        else:
            values = dict(enumerate(values))
        for sample, value in values.items():
            if (name, sample) in seen:
                raise row.error(options.id_field, f"{name!r}, sample {sample}, was there before; {_TWICE}")
            seen.add((name, sample))
            if (name, sample) not in known:
                continue
            try:
                column[name, sample] = as_confidence(value)
            except ValueError as error:
                raise row.error(options.field, str(error)) from None
    if not column:
        raise RlcrError(
            f"{options.file}: none of its ids in column {options.id_field} is a problem of {rows.run.folder}"
        )
    details = {"file": str(options.file), "field": options.field, "missing": len(known) - len(column)}
    return {key: column.get(key) for key in rows.keys}, column_provenance("file", {}, **details)


_TWICE = "samples of one problem are told apart by a column `sample`, or are a list in one cell"


def _sample(row: Row) -> int:
    try:
        return int(row.cells["sample"])
    except (TypeError, ValueError):
        raise row.error("sample", f"expected a number, found {row.cells['sample']!r}") from None


#: Every source by its name.
SOURCES: dict[str, Source] = {
    **{name: partial(_probability, name) for name in PROBABILITIES},
    "agreement": _agreement,
    "hybrid": _hybrid,
    "probe": _probe,
    "classifier": _classifier,
    **{name: partial(_recalibrated, name) for name in RECALIBRATIONS},
    "file": _file,
}
