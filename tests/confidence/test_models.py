"""Probe, classifier and embeddings with small real models: the known optimum, no leakage, the same states."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.confidence.colour_runs import CHANCE, OPTIMUM, colour_run, hide_answers, tiny_checkpoint

from rlcr import metrics
from rlcr.confidence.rows import Rows, folds_of, read_rows
from rlcr.confidence.sources import Options, add_column
from rlcr.confidence.texts import read_part
from rlcr.errors import RlcrError
from rlcr.evaluate.methods import FORCED_ANSWER
from rlcr.runs.columns import read_column
from rlcr.runs.record import Sampled

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_checkpoint(tmp_path_factory.mktemp("model"))


def truth(rows: Rows) -> np.ndarray:
    """The chance of being right that each row's text gives away."""
    texts = [record.text for record in rows.records()]
    return np.array([next(p for colour, p in CHANCE.items() if colour in text) for text in texts])


def excess(rows: Rows, confidence: np.ndarray) -> float:
    """How far a confidence is from the best there is, in Brier, without the noise of the verdicts."""
    kept = ~np.isnan(confidence)
    return float(np.mean((confidence[kept] - truth(rows)[kept]) ** 2))


def test_the_optimum_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    rows = read_rows(colour_run(tmp_path / "run", 4000))
    assert metrics.brier(rows.verdict, truth(rows)) == pytest.approx(OPTIMUM, abs=0.01)


def test_the_probe_reaches_the_optimum(tmp_path: Path, checkpoint: str) -> None:
    folder = colour_run(tmp_path / "run", 500, model=checkpoint)
    hide_answers(folder)
    added = add_column(folder, "probe", Options(device="cpu"))
    rows = read_rows(folder)
    assert excess(rows, rows.column("probe")) < 0.01
    assert added.provenance["cost"]["passes"] == 1000
    # What the responses share was read once: fewer tokens than there are.
    again = add_column(folder, "probe", Options(device="cpu", model=checkpoint), "again")
    assert again.provenance["embeddings"] == added.provenance["embeddings"]
    assert len(list((folder / "confidence" / "embeddings").glob("*.npy"))) == 1


def test_with_shuffled_labels_nothing_is_learned(tmp_path: Path, checkpoint: str) -> None:
    """All samples of a question share their verdict, so that any leak between questions would show."""
    folder = colour_run(tmp_path / "run", 300, samples=4, shuffled=True, model=checkpoint)
    hide_answers(folder)
    add_column(folder, "probe", Options(device="cpu"))
    rows = read_rows(folder)
    found = metrics.summary(rows.verdict, rows.column("probe"), question=rows.questions).metrics["auroc"]
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.5 <= found.high


@pytest.mark.parametrize("loss", ["bce", "brier"])
def test_the_classifier_reaches_the_optimum(tmp_path: Path, checkpoint: str, loss: Any) -> None:
    from rlcr.confidence.classifier import ClassifierSettings, train_classifier

    train, test = (colour_run(tmp_path / f"run{seed}", 600, seed=seed) for seed in (1, 2))
    for folder in (train, test):
        hide_answers(folder)
    settings = ClassifierSettings(loss=loss, epochs=4, batch=32, micro_batch=32, lr=2e-3, max_tokens=64)
    trained = train_classifier(read_rows(train), checkpoint, tmp_path / "classifier", settings)
    assert trained.counts["correct"] + trained.counts["wrong"] == 1200
    assert trained.held_out["brier"] < trained.held_out["base_rate_brier"]
    assert not (tmp_path / "classifier" / "checkpoints").exists()
    added = add_column(test, "classifier", Options(classifier=tmp_path / "classifier"))
    rows = read_rows(test)
    assert excess(rows, rows.column("classifier")) < 0.01
    assert added.provenance["left_out"] == 0


def test_a_classifier_says_nothing_of_questions_it_has_seen(tmp_path: Path, checkpoint: str) -> None:
    from rlcr.confidence.classifier import ClassifierSettings, train_classifier

    folder = colour_run(tmp_path / "run", 300, samples=4, shuffled=True)
    hide_answers(folder)
    rows = read_rows(folder)
    half = np.array([int(question, 16) % 2 == 0 for question in rows.questions])
    settings = ClassifierSettings(epochs=3, batch=32, micro_batch=32, lr=2e-3, max_tokens=64)
    train_classifier(rows.only(half), checkpoint, tmp_path / "classifier", settings)
    add_column(folder, "classifier", Options(classifier=tmp_path / "classifier"))
    given = rows.column("classifier")
    assert np.isnan(given[half]).all()
    assert not np.isnan(given[~half]).any()
    found = metrics.summary(
        rows.verdict[~half],
        given[~half],
        question=[q for q, h in zip(rows.questions, half, strict=True) if not h],
    ).metrics["auroc"]
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 0.5 <= found.high
    # It does remember what it was trained on: the split is what keeps that out of the numbers.
    with pytest.raises(RlcrError, match="not empty"):
        train_classifier(rows, checkpoint, tmp_path / "classifier", settings)


def test_a_tokenizer_that_is_not_the_checkpoints_is_refused(tmp_path: Path, checkpoint: str) -> None:
    from tests.tiny import tiny_tokenizer

    from rlcr.confidence.classifier import train_classifier

    folder = colour_run(tmp_path / "run", 40, model=checkpoint)
    small = Path(tiny_checkpoint(tmp_path / "small"))
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens([f"word{n}" for n in range(50)])
    tokenizer.save_pretrained(small)
    with pytest.raises(RlcrError, match="they do not belong together"):
        train_classifier(read_rows(folder), str(small), tmp_path / "classifier")
    # The probe knows how many tokens the prompt had.
    lines = (folder / "records.jsonl").read_text().replace('"prompt_tokens": 0', '"prompt_tokens": 3')
    (folder / "records.jsonl").write_text(lines)
    with pytest.raises(RlcrError, match="another tokenizer or chat template than that of the run"):
        add_column(folder, "probe", Options(device="cpu"))


def test_other_weights_than_the_runs_are_refused(
    tmp_path: Path, checkpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = colour_run(tmp_path / "run", 40, model=checkpoint)
    run = json.loads((folder / "run.json").read_text())
    run["settings"]["model_weights"] = "float32 0000000000000000"
    (folder / "run.json").write_text(json.dumps(run))
    with pytest.raises(RlcrError, match="not the weights that made"):
        add_column(folder, "probe", Options(device="cpu"))
    with pytest.raises(RlcrError, match="not the weights that made"):
        add_column(folder, "probe", Options(device="cpu", model=checkpoint))
    run["settings"]["model_weights"] = "http://127.0.0.1:9/v1"  # of a server only the address is known
    (folder / "run.json").write_text(json.dumps(run))
    with caplog.at_level(logging.WARNING), pytest.raises(RlcrError, match="layer 9"):
        add_column(folder, "probe", Options(device="cpu", model=checkpoint, layer=9))
    assert "does not record its weights" in caplog.text
    run["settings"]["model"] = "http://127.0.0.1:9/v1"
    (folder / "run.json").write_text(json.dumps(run))
    with pytest.raises(RlcrError, match="does not return hidden states: give --model"):
        add_column(folder, "probe", Options(device="cpu"))


# --- embeddings -------------------------------------------------------------------------------------


def sequences(seed: int = 0) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompts that begin alike, some with several responses of different lengths, one with an empty one."""
    rng = np.random.default_rng(seed)
    trunk = rng.integers(3, 300, 7).tolist()
    found = []
    for question in range(5):
        prompt = (*trunk, *rng.integers(3, 300, int(rng.integers(0, 9))).tolist())
        for _ in range(1 + question % 3):
            found.append((prompt, tuple(rng.integers(3, 300, int(rng.integers(0, 20))).tolist())))
    rng.shuffle(found)  # pyright: ignore[reportArgumentType]
    return [(tuple(p), tuple(r)) for p, r in found]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in ("llama", "qwen2", "qwen3", "olmo2", "gemma3_text")),
        ("gemma3_text", {"sliding_window": 20}),
    ],
)
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_embeddings_are_those_of_each_sequence_alone(
    kind: str, settings: dict[str, int], layer: int, several: bool, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.tiny import tiny_model

    from rlcr.confidence.embeddings import embed

    model = tiny_model(kind, **settings)
    some = sequences()[:: 1 if several else 2]
    if not several:  # one response to each question: only the beginning of all prompts is shared
        some = list({prompt: (prompt, response) for prompt, response in some}.values())
    whole = sum(len(p) + len(r) for p, r in some)
    for budget in (20, 60, 4096):
        found = np.empty((len(some), 64), np.float32)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            tokens = embed(model, some, layer, found, budget)
        with torch.no_grad():
            for row, (prompt, response) in enumerate(some):
                ids = torch.tensor([[*prompt, *response]])
                own = model(input_ids=ids, output_hidden_states=True).hidden_states[layer][0, -1]
                assert np.abs(found[row] - own.numpy()).max() < 1e-4 * max(1.0, float(own.abs().max()))
    long = sum(len(p) + len(r) > 20 for p, r in some)
    if settings:  # what is longer than its window takes the plain way, and the log says so
        assert 0 < long < len(some)
        assert f"{long} of {len(some)} with padded batches, since the model's attention window" in caplog.text
    else:
        assert not caplog.text
        assert tokens < whole


def test_lots_stay_within_the_token_budget() -> None:
    from rlcr.confidence.embeddings import _lots, _samples
    from rlcr.engine.batches import cut_shared
    from rlcr.engine.sharing import SharedPrompts

    some = _samples(sequences(1) * 3)
    for budget in (30, 100):
        shared, padded = cut_shared(some, budget), list(_lots(some, budget))
        for lot in shared:
            assert len(lot) == 1 or SharedPrompts(lot, torch.device("cpu")).input_ids.numel() <= budget
        for lot in padded:
            longest = max(len(sample.prompt) + sample.read for sample in lot)
            assert len(lot) == 1 or len(lot) * longest <= budget
        for lots in (shared, padded):
            assert sorted(id(sample) for lot in lots for sample in lot) == sorted(map(id, some))


# --- what is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "forced", "solution", "analysis"),
    [
        ("<think>a</think><answer>4</answer>\n<analysis>b</analysis>\n<confidence>0.9</confidence>", None,
         "<think>a</think><answer>4</answer>", "<think>a</think><answer>4</answer>\n<analysis>b</analysis>"),
        ("<answer>4</answer><confidence>0.9", None, "<answer>4</answer>", "<answer>4</answer>"),
        ("<think>then <confidence> tags</think><answer>4</answer><Confidence>0.9</Confidence>", None,
         "<think>then <confidence> tags</think><answer>4</answer>",
         "<think>then <confidence> tags</think><answer>4</answer>"),
        ("<think><CONFIDENCE>0.9</CONFIDENCE> so</think><answer>4</answer>", None,
         "<think> so</think><answer>4</answer>", "<think> so</think><answer>4</answer>"),
        ("<answer>4</answer><analysis>a <confidence> tag</analysis> <confidence>about", None,
         "<answer>4</answer>", "<answer>4</answer><analysis>a <confidence> tag</analysis>"),
        ("I ran out <confidence>0.9", " 4.", f"I ran out\n\n{FORCED_ANSWER} 4.", f"I ran out\n\n{FORCED_ANSWER} 4."),
        ("I ran out <confidence>0.9</confidence>", " 4.", f"I ran out\n\n{FORCED_ANSWER} 4.", f"I ran out\n\n{FORCED_ANSWER} 4."),
    ],
)  # fmt: skip
def test_the_stated_confidence_is_never_read(
    text: str, forced: str | None, solution: str, analysis: str
) -> None:
    record = Sampled(id="1", sample=0, task="t", format="rlcr", text=text, forced_answer=forced)
    assert read_part(record) == solution
    assert read_part(record, "analysis") == analysis


def test_the_study_compares_both_runs_at_every_size(tmp_path: Path, checkpoint: str) -> None:
    from rlcr.confidence.classifier import ClassifierSettings
    from rlcr.confidence.study import SIZES, Study, load_study, run_study

    assert load_study().models[-1] == "Qwen/Qwen2.5-7B"
    runs = [colour_run(tmp_path / name, 150) for name in ("rlvr", "rlcr")]
    hide_answers(runs[0])
    settings = ClassifierSettings(
        epochs=1, batch=16, micro_batch=16, lr=1e-3, max_tokens=64, evals_per_epoch=1
    )
    results = run_study(runs[0], runs[1], tmp_path / "out", Study((checkpoint,), 5, settings))
    assert [result.run for result in results] == ["baseline", "analysis"]
    for run in runs:
        (bars,) = json.loads((run / SIZES).read_text())["tasks"].values()
        assert bars[0]["metrics"]["brier"]["value"] >= 0
    assert results[0].rows == results[1].rows == 60
    own = tmp_path / "mine.yaml"
    for setting, message in (
        ("learning_rate: 1", "unknown setting 'learning_rate'"),
        ("test: abc", "test must be a whole number from 2, not 'abc'"),
        ("micro_batch: 0", "micro_batch must be a whole number from 1, not 0"),
        ("lr: fast", "lr must be a number from 0, not 'fast'"),
    ):
        own.write_text(f"models: [a]\n{setting}\n")
        with pytest.raises(RlcrError, match=message):
            load_study(own)
    # What was trained is used again only for what it was trained for.
    again = run_study(runs[0], runs[1], tmp_path / "out", Study((checkpoint,), 5, settings))
    assert again == results
    other = replace(settings, lr=2e-3)
    with pytest.raises(RlcrError, match="of another training: lr was 0.001, is 0.002"):
        run_study(runs[0], runs[1], tmp_path / "out", Study((checkpoint,), 5, other))
    with pytest.raises(RlcrError, match="the records .* are others"):
        run_study(runs[0], runs[1], tmp_path / "out", Study((checkpoint,), 4, settings))
    assert read_column(runs[0], "verbalised")


def test_an_interrupted_training_goes_on_from_its_checkpoints(
    tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlcr.confidence import classifier

    rows = read_rows(colour_run(tmp_path / "run", 60))
    out = tmp_path / "classifier"
    settings = classifier.ClassifierSettings(
        epochs=1, batch=16, micro_batch=16, lr=1e-3, max_tokens=64, evals_per_epoch=2
    )
    with monkeypatch.context() as patched:
        patched.setattr(classifier, "_save", _interrupt)  # after the last update, before anything is written
        with pytest.raises(KeyboardInterrupt):
            classifier.train_classifier(rows, checkpoint, out, settings)
    assert not (out / classifier.CLASSIFIER).exists()
    with pytest.raises(RlcrError, match="or --resume"):
        classifier.train_classifier(rows, checkpoint, out, settings)
    with pytest.raises(RlcrError, match="not a classifier"):
        classifier.read_classifier(out)
    with pytest.raises(RlcrError, match="epochs was 1, is 2"):
        classifier.train_classifier(rows, checkpoint, out, replace(settings, epochs=2), resume=True)
    fewer = rows.only(np.arange(len(rows.keys)) >= 4)
    with pytest.raises(RlcrError, match="the records .* are others"):
        classifier.train_classifier(fewer, checkpoint, out, settings, resume=True)
    (out / "checkpoints" / "checkpoint-99").mkdir()  # torn: nothing says that it is whole
    trained = classifier.train_classifier(rows, checkpoint, out, settings, resume=True)
    assert classifier.read_classifier(out)["held_out"] == trained.held_out
    (out / classifier.CLASSIFIER).write_text("{}")
    with pytest.raises(RlcrError, match="not what a training wrote"):
        classifier.read_classifier(out)


def test_a_training_resumed_in_a_later_epoch_ends_with_the_same_weights(
    tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlcr.confidence import classifier

    rows = read_rows(colour_run(tmp_path / "run", 20))
    settings = classifier.ClassifierSettings(
        epochs=3, batch=8, micro_batch=8, lr=1e-3, max_tokens=64, evals_per_epoch=2, patience=99
    )
    torch.manual_seed(1)
    classifier.train_classifier(rows, checkpoint, tmp_path / "whole", settings)
    saves = 0
    save = classifier.WholeCheckpoints._save_checkpoint

    def saving_three_times(self: Any, model: Any, trial: Any) -> None:
        nonlocal saves
        save(self, model, trial)
        saves += 1
        if saves == 3:  # in the second epoch
            raise KeyboardInterrupt

    torch.manual_seed(2)  # whatever was drawn before in this process
    with monkeypatch.context() as patched:
        patched.setattr(classifier.WholeCheckpoints, "_save_checkpoint", saving_three_times)
        with pytest.raises(KeyboardInterrupt):
            classifier.train_classifier(rows, checkpoint, tmp_path / "cut", settings)
    classifier.train_classifier(rows, checkpoint, tmp_path / "cut", settings, resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    assert classifier.train_classifier(rows, checkpoint, tmp_path / "cut", settings, resume=True).held_out


def test_accumulated_gradients_are_those_of_the_whole_batch(tmp_path: Path, checkpoint: str) -> None:
    from rlcr.confidence import classifier

    rows = read_rows(colour_run(tmp_path / "run", 8))
    norms = []
    for micro_batch in (4, 16):
        settings = classifier.ClassifierSettings(epochs=1, batch=16, micro_batch=micro_batch, max_tokens=64)
        torch.manual_seed(0)  # the head is new and random
        network, tokenizer = classifier._load(checkpoint)
        encoded, _ = classifier._encode(tokenizer, classifier._texts(rows, "solution"), 64)
        parts = [classifier._Examples(encoded, rows.verdict) for _ in range(2)]
        folder = tmp_path / str(micro_batch)
        trainer = classifier._trainer(network, tokenizer, parts, settings, folder)
        trainer.train()
        norms += [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert len(norms) == 2
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_a_batch_is_shared_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlcr.confidence.classifier import ClassifierSettings

    ClassifierSettings(batch=16, micro_batch=4).check()
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(RlcrError, match="not a multiple of micro_batch 4 x 3 processes"):
        ClassifierSettings(batch=16, micro_batch=4).check()


def test_a_penalty_is_chosen_although_one_fold_holds_all_of_a_class() -> None:
    from rlcr.confidence.probe import fitted

    rng = np.random.default_rng(0)
    questions = [f"q{n}" for n in range(40)]
    inner = folds_of(questions, 5, seed=1)
    right = (inner == 2).astype(int)
    probe = fitted(rng.normal(size=(40, 3)), right, questions)
    assert not np.isnan(probe.best_score_)


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
