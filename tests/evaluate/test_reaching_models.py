"""Which model a run is of, and how it is reached: weights, modes, settings, tokenizers."""

import json
from pathlib import Path

import pytest
from tests.command import rlcr
from tests.evaluate.capitals import capitals, good_reply, needy_reply
from tests.servers import ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate
from rlcr.problem import Problem
from rlcr.sample import Request, Sampling
from rlcr.sample.endpoint import EndpointSampler
from rlcr.sample.opening import Access, Typed, open_sampler
from rlcr.tasks import write_problems


def posts(server: ModelServer) -> list[str]:
    return [call.path for call in server.calls if "completions" in call.path]


def test_resume_refuses_another_model_behind_the_same_address(tmp_path: Path) -> None:
    with ModelServer(good_reply) as server:
        settings = Settings(server.url, (capitals(tmp_path, 1),), "rlcr")
        evaluate(settings, tmp_path / "run")
        server.models = ("other",)
        with pytest.raises(RlcrError, match='other settings: model_name was "tiny", is "other"'):
            evaluate(settings, tmp_path / "run", resume=True)


def test_resume_refuses_other_weights_of_the_same_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.tiny import tiny_model, tiny_tokenizer

    model = tmp_path / "model"
    tiny_model().save_pretrained(model)
    tiny_tokenizer(chat_template=None).save_pretrained(model)
    task = tmp_path / "task.jsonl"
    write_problems(task, [Problem("sum", "2 + 2?", ("4",), "exact")])
    settings = Settings(str(model), (str(task),), "base", max_tokens=4)
    first = evaluate(settings, tmp_path / "run", access=Access(device="cpu"))
    assert first.settings["model_weights"].startswith("float32 ")
    evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu"))
    with pytest.raises(RlcrError, match='model_weights was "float32 .*", is "bfloat16 '):
        evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu", dtype="bfloat16"))
    tiny_model(seed=1).save_pretrained(model)
    with pytest.raises(RlcrError, match="other settings: model_weights was"):
        evaluate(settings, tmp_path / "run", resume=True, access=Access(device="cpu"))


def test_completion_mode_continues_where_chat_cannot(tmp_path: Path) -> None:
    task = capitals(tmp_path, 1)
    with ModelServer(needy_reply, refuses=("continue_final_message", "add_generation_prompt")) as server:
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--json"]
        result = rlcr(*command, "--out", tmp_path / "run", "--mode", "completion", "--concurrency", 2)
        assert result.returncode == 0, result.stderr
        assert set(posts(server)) == {"/v1/completions"}
        assert server.most_in_flight <= 2
        changed = rlcr(*command, "--out", tmp_path / "run", "--mode", "chat", "--resume")
    (found,) = json.loads(result.stdout)["tasks"].values()
    assert found["repair_rate"] == {"answer": 0.5, "confidence": 0.5}
    assert changed.returncode == 2
    assert 'mode was "completion", is "chat"' in changed.stderr


def test_top_p_and_stop_are_passed_on_and_kept(tmp_path: Path) -> None:
    task, out = capitals(tmp_path, 1), tmp_path / "run"
    with ModelServer(needy_reply) as server:
        command = ["eval", "--model", server.url, "--task", task, "--method", "base", "--out", out]
        asked = [*command, "--top-p", "0.9", "--stop", "END", "--stop", "\n\n"]
        result = rlcr(*asked)
        assert result.returncode == 0, result.stderr
        bodies = [call.body for call in server.calls if call.body]
        assert (bodies[0]["top_p"], bodies[0]["stop"]) == (0.9, ["END", "\n\n"])
        assert "stop" not in bodies[-1]  # a forced continuation
        assert rlcr(*asked, "--resume").returncode == 0
        changed = rlcr(*command, "--stop", "END", "--resume")
        for wrong in (["--top-p", "0"], ["--stop", ""]):
            refused = rlcr(*command[:-1], tmp_path / "other", *wrong)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    settings = json.loads((out / "run.json").read_text())["settings"]
    assert (settings["top_p"], settings["stop"]) == (0.9, ["END", "\n\n"])
    assert changed.returncode == 2
    assert changed.stderr.endswith('settings: stop was ["END", "\\n\\n"], is ["END"]\n')
    assert not (tmp_path / "other").exists()


def test_a_tokenizer_brings_its_template(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.tiny import tiny_tokenizer

    tiny_tokenizer().save_pretrained(tmp_path)
    with ModelServer(lambda call: call.prompt) as server:
        sampler = open_sampler(Typed(server.url), Access(tokenizer=str(tmp_path)))
        (found,) = sampler.sample([Request("q", ({"role": "user", "content": "Hi"},))], Sampling(50))
    assert found.text.startswith("<|im_start|>user\nHi<|im_end|>")


@pytest.mark.parametrize(
    ("model", "access", "message"),
    [
        ("http://127.0.0.1:9/v1", Access(device="cpu"), "device: is for local models; .* is a server"),
        ("somewhere", Access("chat", timeout=3.0), "mode, timeout: are for servers; somewhere is a local"),
        ("http://127.0.0.1:9/v1", Access("chat", tokenizer="x"), "tokenizer is for completion mode"),
        ("http://127.0.0.1:9/v1", Access(tokenizer="./nowhere"), "nowhere: no such file or folder"),
    ],
)
def test_wrong_combinations(model: str, access: Access, message: str) -> None:
    with pytest.raises(RlcrError, match=message):
        open_sampler(Typed(model), access)


def test_a_wrong_option_is_one_line(tmp_path: Path) -> None:
    task = capitals(tmp_path, 1)
    command = ["eval", "--model", "http://127.0.0.1:9/v1", "--task", task, "--method", "base", "--out"]
    for options in (["--device", "cpu"], ["--mode", "telepathy"], ["--concurrency", "0"]):
        result = rlcr(*command, tmp_path / "run", *options)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_half_a_character_is_no_reason_to_stop(tmp_path: Path) -> None:
    """JSON may hold half a surrogate pair; UTF-8 cannot."""
    with ModelServer(lambda call: "ok") as server:
        sampler = EndpointSampler(server.url)
        message = {"role": "user", "content": "what is \ud83d?"}
        request = Request("key \udc00", (message,), prefix="it \ud83d")
        (found,) = sampler.sample([request], Sampling(5, temperature=1.0))
        assert server.calls[-1].body["messages"][0]["content"] == "what is �?"
        assert server.calls[-1].body["messages"][1]["content"] == "it �"
    assert found.key == request.key
