"""A probe: logistic regression over the generating model's state after the last token of its solution.

Features are standardised, and the strength of the penalty is chosen by cross-validation on the Brier score,
all of it across folds of questions: scaling, choice and fit never see the questions that the probe is used
on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcr.confidence.embeddings import Embeddings, embed_run
from rlcr.confidence.learning import learn
from rlcr.confidence.rows import FOLDS, Rows, cost, folds_of
from rlcr.errors import RlcrError

#: Inverse strengths of the penalty to choose from: nearly a constant to nearly none.
_STRENGTHS = tuple(10.0**power for power in range(-5, 2))


def probed(
    rows: Rows, train: Rows | None, model: str | None = None, *, layer: int = -1, **options: Any
) -> tuple[NDArray[np.float64], dict[str, Any], dict[str, int]]:
    """Confidences in the order of the rows, how they came about, and what they cost."""
    embedded: dict[str, Embeddings] = {}

    def features(some: Rows) -> NDArray[Any]:
        embeddings = embed_run(some, model, layer=layer, **options)
        embedded[str(some.run.folder)] = embeddings
        return embeddings.values

    learned = learn(features, fitted, rows, train)
    here = embedded[str(rows.run.folder)]
    details = learned.details | {
        "layer": here.layer,
        "penalty": 1 / learned.fitted.best_params_["logisticregression__C"],  # type: ignore[attr-defined]
        "embeddings": here.path.name,
        "weights": here.weights,
        "weights_checked": here.checked,
    }
    spent = cost(len(rows.keys), here.tokens, completions=len(rows.keys))
    return learned.confidence, details, spent


def fitted(features_NF: NDArray[Any], correct_N: NDArray[np.int64], questions: list[str]) -> Any:
    """The probe, its penalty chosen across folds of the questions."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, PredefinedSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Other folds than those the probe itself is judged across. Without a fold there may be one class only,
    # which cannot be learned from.
    splits = [
        split
        for split in PredefinedSplit(folds_of(questions, FOLDS, seed=1)).split()
        if len(np.unique(correct_N[split[0]])) == 2
    ]
    if not splits:
        raise RlcrError(
            "probe: without any fold of questions all others are of one class, so that no penalty can be"
            " chosen; use more questions"
        )
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        {"logisticregression__C": _STRENGTHS},
        scoring=_less_brier,
        cv=splits,
    )
    return search.fit(np.asarray(features_NF, np.float64), correct_N)


def _less_brier(probe: Any, features_NF: NDArray[Any], correct_N: NDArray[np.int64]) -> float:
    # scikit-learn's own refuses a fold of one class, which few right answers make likely.
    return -float(np.mean((probe.predict_proba(features_NF)[:, 1] - correct_N) ** 2))
