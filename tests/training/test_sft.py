"""`rlcr sft` on a tiny real model: what has loss, what is learned, resuming, and the folder it leaves."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.tiny import tiny_model, tiny_tokenizer
from tests.training.sft_runs import StopAt, rows, write_data
from transformers import TrainerCallback

from rlcr.errors import RlcrError
from rlcr.evaluate.methods import stored_method
from rlcr.prompts import render_messages
from rlcr.sample import Request, Sampling
from rlcr.sample.local import LocalSampler
from rlcr.training.sft import (
    Settings,
    data_file,
    make_examples,
    make_trainer,
    read_data,
    train_sft,
)

THINK_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def settings(model: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    data = write_data(tmp_path_factory.mktemp("data"), rows())
    return Settings(model, data, epochs=3, lr=3e-3, batch=4, micro_batch=2, max_tokens=400)


@pytest.fixture(scope="module")
def finished(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("run") / "run"
    train_sft(settings, out)
    return out


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def mean_loss(model: Any, tokenizer: Any) -> float:
    """The loss on the completions, one by one, as plain transformers computes it."""
    total, tokens = 0.0, 0
    with torch.no_grad():
        for example in make_examples(rows(), model, tokenizer, 400)[0]:
            ids = torch.tensor([example.ids])
            labels = ids.clone()
            labels[:, : -example.trained] = -100
            total += float(model(input_ids=ids, labels=labels).loss) * example.trained
            tokens += example.trained
    return total / tokens


@pytest.mark.parametrize("template", [None, "chatml", "think"])
def test_only_the_completion_has_loss_and_no_end_is_taught(
    template: str | None, settings: Settings, tmp_path: Path
) -> None:
    chosen = {"chatml": {}, "think": {"chat_template": THINK_CHATML}, None: {"chat_template": None}}[template]
    model, tokenizer = tiny_model(), tiny_tokenizer(**chosen)
    examples, too_long = make_examples(rows(), model, tokenizer, 400)
    trainer = make_trainer(settings, model, tokenizer, examples, tmp_path)
    assert not too_long
    seen = set()
    for batch in trainer.get_train_dataloader():
        for ids, labels, mask in zip(
            batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True
        ):
            ids, labels = ids[mask.bool()].tolist(), labels[mask.bool()].tolist()
            assert (labels[0], labels[-1]) == (-100, ids[-1])
            first = next(i for i, label in enumerate(labels) if label != -100)
            assert labels == [-100] * first + ids[first:]
            text = tokenizer.decode(ids[first:])
            seen.add(text)
            # The text ends with the analysis: neither an end token nor anything else is taught after it.
            assert text.endswith("</analysis>")
            assert not {tokenizer.eos_token_id, tokenizer.pad_token_id} & set(ids[first:])
            assert text.startswith("the sum" if template == "think" else "<think>the sum")
    assert len(seen) == 8


@pytest.mark.parametrize("template", [None, "chatml"])
def test_prompts_are_tokenised_as_the_sampler_does(template: str | None) -> None:
    """The context at the first trained token is, token for token, what a sampler reads before it writes."""
    model = tiny_model()
    tokenizer = tiny_tokenizer() if template else tiny_tokenizer(chat_template=None)
    [example], _ = make_examples(rows(1), model, tokenizer, 400)
    conversation = rows(1)[0]["messages"]
    request = Request("x", tuple(conversation))
    [completion] = LocalSampler(model, tokenizer, name="tiny").sample([request], Sampling(max_tokens=1))
    assert completion.prompt_tokens == len(example.ids) - example.trained
    prompt = list(example.ids[: -example.trained])
    assert (
        prompt == tokenizer(render_messages(conversation, tokenizer), add_special_tokens=False)["input_ids"]
    )


def test_the_size_of_micro_batches_does_not_matter(tmp_path: Path) -> None:
    """Lengths differ, so a loss averaged over each micro-batch would."""
    lines = [row | {"completion": row["completion"] * (1 + n % 3)} for n, row in enumerate(rows(4))]
    ends = []
    for micro in (1, 4):
        model, tokenizer = tiny_model(), tiny_tokenizer()
        examples, _ = make_examples(lines, model, tokenizer, 512)
        tried = Settings("", "", epochs=2, lr=1e-3, batch=4, micro_batch=micro)
        trainer = make_trainer(tried, model, tokenizer, examples, tmp_path / str(micro))
        trainer.train()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        assert trainer.state.global_step == 2  # the first is the warm-up's, at learning rate 0
    start = torch.cat([p.detach().flatten() for p in tiny_model().parameters()])
    assert (ends[0] - ends[1]).norm() < 1e-2 * (ends[0] - start).norm()


def test_what_is_too_long_is_left_out_not_cut() -> None:
    lines = rows(3)
    lines[1]["completion"] *= 20
    model, tokenizer = tiny_model(), tiny_tokenizer()
    examples, too_long = make_examples(lines, model, tokenizer, 100_000)  # the model has 512 positions
    assert [example.id for example in examples] == ["sum/0", "sum/2"]
    assert too_long == ["sum/1"]
    with pytest.raises(RlcrError, match="every example is longer than 5 tokens; raise --max-tokens"):
        make_examples(lines, model, tokenizer, 5)


def test_a_run_learns_and_leaves_an_ordinary_model(finished: Path, settings: Settings) -> None:
    report = json.loads((finished / "sft.json").read_text())
    losses = report["losses"]
    assert report["steps"] == len(losses) == 6
    assert losses[-1] < 0.7 * losses[0]
    # The first step's is the loss of the model it began with, on half of the data.
    assert losses[0] == pytest.approx(mean_loss(tiny_model(), tiny_tokenizer()), rel=0.1)
    assert report["counts"]["examples"] == 8
    assert 0 < report["counts"]["trained_tokens"] < report["counts"]["tokens"]
    folder = finished / "model"
    method = stored_method(str(folder))
    assert method is not None
    assert method.name == "rlcr"
    card = (folder / "README.md").read_text()
    assert report["settings"]["data_sha256"] in card
    assert "mean loss of each epoch" in card
    sampler = LocalSampler.load(folder)
    assert sampler.model.dtype == torch.float32
    [completion] = sampler.sample([Request("x", tuple(rows(1)[0]["messages"]))], Sampling(max_tokens=8))
    assert completion.completion_tokens
    assert sampler.tokenizer.chat_template == tiny_tokenizer().chat_template
    assert not same(weights(finished), load_file(Path(settings.model) / "model.safetensors"))
    assert not (finished / "checkpoints").exists()


def test_resuming_gives_the_same_weights_bit_for_bit(
    finished: Path, settings: Settings, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_sft(settings, out, callbacks=[StopAt(5)])  # in the third epoch
    assert not (out / "model").exists()
    # And a checkpoint that a crash cut short: newer, and not to be trusted.
    torn = out / "checkpoints" / "checkpoint-5"
    shutil.copytree(out / "checkpoints" / "checkpoint-4", torn)
    (torn / "whole").unlink()
    (torn / "optimizer.pt").write_bytes(b"")

    with pytest.raises(RlcrError, match="not empty; --resume continues it"):
        train_sft(settings, out)
    with pytest.raises(RlcrError, match="cannot be resumed with other settings: lr was 0.003, is 0.1"):
        train_sft(Settings(**{**vars(settings), "lr": 0.1}), out, resume=True)
    steps: list[int] = []

    class Count(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            steps.append(state.global_step)

    report = train_sft(settings, out, resume=True, callbacks=[Count()])
    assert steps == [5, 6]
    assert same(weights(out), weights(finished))
    assert report["losses"] == json.loads((finished / "sft.json").read_text())["losses"]
    # A finished run has nothing left to do.
    assert train_sft(settings, out, resume=True)["steps"] == 6


def test_lora_is_merged(settings: Settings, tmp_path: Path) -> None:
    report = train_sft(Settings(**{**vars(settings), "lora_rank": 2, "epochs": 2}), tmp_path / "run")
    assert report["losses"][-1] < report["losses"][0]
    found = weights(tmp_path / "run")
    base = load_file(Path(settings.model) / "model.safetensors")
    assert found.keys() == base.keys()
    assert torch.equal(found["model.embed_tokens.weight"], base["model.embed_tokens.weight"])
    assert not torch.equal(
        found["model.layers.0.mlp.up_proj.weight"], base["model.layers.0.mlp.up_proj.weight"]
    )
    # What was merged is what was trained: the saved model has forgotten nothing of it.
    merged = LocalSampler.load(tmp_path / "run" / "model")
    assert mean_loss(merged.model, merged.tokenizer) < mean_loss(tiny_model(), tiny_tokenizer())


def test_mistakes_are_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", rows(2))
    for changed, said in [
        ({"batch": 6, "micro_batch": 4}, "batch 6 is not a multiple of micro_batch 4"),
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"lora_rank": 0}, "lora_rank is 0"),
        ({"data": str(tmp_path / "nowhere")}, "no such file or folder"),
    ]:
        with pytest.raises(RlcrError, match=said):
            train_sft(Settings(**{"model": "/no/model", "data": data, **changed}), tmp_path / "run")
    with pytest.raises(RlcrError, match="not a run"):
        train_sft(Settings("/no/model", data), tmp_path / "run", resume=True)
    with pytest.raises(RlcrError, match="no such file or folder"):
        train_sft(Settings("/no/model", data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_that_is_not_ours_is_refused_with_its_line(tmp_path: Path) -> None:
    good, other = rows(2)
    for lines, said in [
        ([], "empty"),
        ([good, {"completion": "x"}], "line 2: expected messages"),
        ([good, other | {"method": "rlvr"}], "trains for several methods: rlcr, rlvr; split it"),
        ([good | {"method": "rclr"}], "unknown method 'rclr': did you mean"),
    ]:
        data = Path(write_data(tmp_path / "data", lines))
        with pytest.raises(RlcrError, match=said):
            read_data(data)
    assert read_data(Path(write_data(tmp_path / "data", [good])) / "sft.jsonl")[1] == "rlcr"
    with pytest.raises(RlcrError, match="`rlcr sft-data` writes it when it ends"):
        data_file(tmp_path)
