"""Learning a confidence from verdicts so that no row is judged by itself.

Either from another run (``train``), whose questions the run must not share (rows of shared questions get no
confidence, and are counted), or within the run: its questions are cut into folds, and the rows of each fold
are judged by what was learned on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcr.confidence.rows import FOLDS, Rows, folds_of, unseen
from rlcr.errors import RlcrError

Floats = NDArray[Any]


class Fitted(Protocol):
    """A fitted classifier of scikit-learn."""

    def predict_proba(self, features_NF: Any, /) -> Any:
        """The chances of both classes, (N, 2)."""
        ...


#: Features of the rows of a run; NaN in a row means that nothing can be said of it.
Features = Callable[[Rows], Floats]
Fit = Callable[[Floats, NDArray[np.int64], list[str]], Fitted]


@dataclass(frozen=True)
class Learned:
    """Confidences in the order of the rows (NaN for none), how they came about, and the last model fitted."""

    confidence: NDArray[np.float64]
    details: dict[str, Any]
    fitted: Fitted


def learn(features: Features, fit: Fit, rows: Rows, train: Rows | None) -> Learned:
    """Learn from ``train``, or across folds of the rows themselves where that is None or the same run."""
    if train is None or train.run.folder.resolve() == rows.run.folder.resolve():
        return _crossed(features(rows), fit, rows)
    return _transferred(features(rows), features(train), fit, rows, train)


def _crossed(features_NF: Floats, fit: Fit, rows: Rows) -> Learned:
    known = _known(features_NF)
    rows.check_learnable(known)
    fold_N = folds_of(rows.questions, FOLDS)
    confidence_N = np.full(len(rows.keys), np.nan)
    fitted = None
    for fold in range(FOLDS):
        fitted = _fit_on(fit, features_NF, rows, known & rows.scored & (fold_N != fold))
        judged = known & (fold_N == fold)
        if judged.any():
            confidence_N[judged] = fitted.predict_proba(features_NF[judged])[:, 1]
    assert fitted is not None
    details = {"learned_from": "the run itself, across folds of its questions", "folds": FOLDS}
    return Learned(confidence_N, details | {"training": rows.only(known).counts()}, fitted)


def _transferred(features_NF: Floats, train_MF: Floats, fit: Fit, rows: Rows, train: Rows) -> Learned:
    known = _known(train_MF)
    train.check_learnable(known)
    fitted = _fit_on(fit, train_MF, train, known & train.scored)
    new = unseen(rows, set(train.questions))
    judged = _known(features_NF) & new
    confidence_N = np.full(len(rows.keys), np.nan)
    if judged.any():
        confidence_N[judged] = fitted.predict_proba(features_NF[judged])[:, 1]
    details = {"learned_from": str(train.run.folder), "training": train.only(known).counts()}
    details["left_out"] = int((~new).sum())
    return Learned(confidence_N, details, fitted)


def _known(features_NF: Floats) -> NDArray[np.bool_]:
    return np.asarray(~np.isnan(features_NF).any(axis=1))


def _fit_on(fit: Fit, features_NF: Floats, rows: Rows, chosen: NDArray[np.bool_]) -> Fitted:
    correct_N = rows.verdict[chosen]
    if len(np.unique(correct_N)) < 2:
        raise RlcrError(
            f"{rows.run.folder}: without one fold all verdicts are of one class: too few questions to learn"
            " from"
        )
    questions = [question for question, keep in zip(rows.questions, chosen, strict=True) if keep]
    return fit(features_NF[chosen], correct_N, questions)
