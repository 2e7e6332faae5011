"""Nothing that a file brings is run as code: question, gold, metadata, settings, and where it says it is from.

A payload writes a file when it is evaluated, by ``eval`` as by sympy's parser.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import Call, ModelServer

from rlcr.errors import RlcrError
from rlcr.evaluate import Settings, evaluate, rescore
from rlcr.problem import Problem
from rlcr.tasks import load, read_problems, write_problems
from rlcr.tasks.gym import build
from rlcr.verify import gym
from rlcr.verify._gym_worker import REFUSED
from rlcr.verify.gym import verify_gym

pytest.importorskip("reasoning_gym")

from reasoning_gym.factory import DATASETS

EVERY = sorted(set(DATASETS) - set(REFUSED))
#: Their scorers evaluate a part of the problem, or their generators a setting.
EVALUATING = [
    "basic_arithmetic",
    "bitwise_arithmetic",
    "intermediate_integration",
    "number_sorting",
    "polynomial_multiplication",
    "simple_integration",
]
Change = tuple[str, Problem]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[Problem]]:
    """Two problems of every dataset."""
    return {dataset: build("test", 2, 0, dataset=dataset) for dataset in EVERY}


def payload(mark: Path) -> str:
    return f"__import__('os').system('touch {mark}')"


def changed(problem: Problem, **changes: Any) -> Problem:
    """The problem with other extras, question or gold."""
    fields = {name: changes.pop(name) for name in ("question", "gold") if name in changes}
    return dataclasses.replace(problem, **fields, extras={**problem.extras, **changes})


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a value where a leaf, or a whole list or object, stands."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield from leaves(value[place], (*path, place))


def with_leaf(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_leaf(value[path[0]], path[1:], leaf)
    return copy


def with_all_leaves(value: Any, leaf: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_all_leaves(item, leaf) for key, item in value.items()}
    return [with_all_leaves(item, leaf) for item in value] if isinstance(value, list) else leaf


def with_keys(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {f"{key}{number}": with_keys(item, key) for number, item in enumerate(value.values())}
    return [with_keys(item, key) for item in value] if isinstance(value, list) else value


def few_changes(problem: Problem, code: str) -> Iterator[Change]:
    metadata = problem.extras["metadata"]
    yield "question", changed(problem, question=code)
    yield "gold", changed(problem, gold=(code,))
    yield "second gold", changed(problem, gold=(*problem.gold, code))
    if metadata:
        yield "metadata", changed(problem, metadata=with_all_leaves(metadata, code))
        yield "metadata keys", changed(problem, metadata=with_keys(metadata, code))
    yield "added metadata", changed(problem, metadata={**metadata, code: code})
    yield "tagged metadata", changed(problem, metadata={"$dict": [[code, code]]})


def all_changes(problem: Problem, code: str) -> Iterator[Change]:
    yield from few_changes(problem, code)
    metadata = problem.extras["metadata"]
    for path in leaves(metadata):
        yield f"metadata {path}", changed(problem, metadata=with_leaf(metadata, path, code))


def assert_fenced(changes: list[Change], mark: Path) -> None:
    # The payload is also tried as the answer: where it is the gold, too, it used to pass the answer's own fence.
    for answers in ([problem.gold[0] for _, problem in changes], ["1"] * len(changes)):
        verdicts = verify_gym([problem for _, problem in changes], answers)
        scored = [
            what for (what, _), verdict in zip(changes, verdicts, strict=True) if verdict.correct is not None
        ]
        assert not scored
        assert all(verdict.reason.endswith("differ") for verdict in verdicts)
    assert not mark.exists()


def crafted(mark: Path) -> list[Problem]:
    """One problem for each of the known holes, and a sound one."""
    bitwise, integral, product = (
        build("test", 1, 0, dataset=name)[0]
        for name in ("bitwise_arithmetic", "simple_integration", "polynomial_multiplication")
    )
    return [
        changed(bitwise, metadata={**bitwise.extras["metadata"], "problem": payload(mark)}),
        changed(integral, metadata={**integral.extras["metadata"], "integrand": payload(mark)}),
        changed(product, gold=(payload(mark),)),
        build("test", 1, 0, dataset="chain_sum")[0],
    ]


def answer_a_number(call: Call) -> str:
    return "<think>…</think><answer>0x1</answer><analysis>…</analysis><confidence>0.5</confidence>"


def test_a_task_file_runs_no_code(tmp_path: Path, mark: Path) -> None:
    write_problems(tmp_path / "task.jsonl", crafted(mark))
    with ModelServer(answer_a_number) as server:
        results = evaluate(Settings(server.url, (str(tmp_path / "task.jsonl"),), "rlcr"), tmp_path / "run")
    assert not mark.exists()
    (task,) = results.tasks.values()
    assert sum(task.unscorable.values()) == 3


def test_a_run_folder_runs_no_code(tmp_path: Path, mark: Path) -> None:
    bad = crafted(mark)
    good = [build("test", 1, 0, dataset=problem.extras["dataset"])[0] for problem in bad]
    write_problems(tmp_path / "task.jsonl", good)
    with ModelServer(answer_a_number) as server:
        evaluate(Settings(server.url, (str(tmp_path / "task.jsonl"),), "rlcr"), tmp_path / "run")
    stored = tmp_path / "run" / "problems.jsonl"
    by_id = {problem.id: problem for problem in bad}
    ids = [problem.id for problem in read_problems(stored)]
    stored.unlink()
    write_problems(
        stored, [dataclasses.replace(by_id[good.id], id=name) for good, name in zip(good, ids, strict=True)]
    )
    rescore(tmp_path / "run")
    assert not mark.exists()


@pytest.mark.parametrize("dataset", EVALUATING)
def test_no_field_of_a_problem_is_run(dataset: str, mark: Path) -> None:
    problem = build("test", 1, 0, dataset=dataset)[0]
    assert_fenced(list(all_changes(problem, payload(mark))), mark)


def test_no_problem_of_any_dataset_is_run(mark: Path, pairs: dict[str, list[Problem]]) -> None:
    problems = [pair[0] for pair in pairs.values()]
    assert len(problems) == 102
    assert_fenced([change for problem in problems for change in few_changes(problem, payload(mark))], mark)


@pytest.mark.slow
def test_no_leaf_of_any_dataset_is_run(mark: Path, pairs: dict[str, list[Problem]]) -> None:
    for problem, _ in pairs.values():
        assert_fenced(list(all_changes(problem, payload(mark))), mark)


@pytest.mark.parametrize(
    ("dataset", "setting", "value"),
    [
        ("basic_arithmetic", "operators", "+{}+"),
        ("polynomial_multiplication", "variables", "{}"),
        ("simple_integration", "symbols", "{}"),
    ],
)
def test_settings_that_reach_an_evaluator(dataset: str, setting: str, value: str, mark: Path) -> None:
    with pytest.raises(RlcrError, match=f"the settings do not fit: {setting} takes"):
        build("test", 1, 0, dataset=dataset, **{setting: [value.format(payload(mark))]})
    assert not mark.exists()


def test_no_setting_of_any_dataset_is_run(mark: Path, pairs: dict[str, list[Problem]]) -> None:
    code = payload(mark)
    for dataset, (problem, _) in pairs.items():
        names = {field.name for field in dataclasses.fields(DATASETS[dataset][1])} - {"seed", "size"}
        for name in sorted(names):
            for value in (code, [code], [[1, code]], {code: code}, float("nan")):
                with pytest.raises(RlcrError, match=f"the settings do not fit: {name} takes"):
                    verify_gym([changed(problem, settings={name: value})], [code])
        for name in (code, "seed", "size"):
            with pytest.raises(RlcrError, match="unknown setting"):
                verify_gym([changed(problem, settings={name: 1})], [code])
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dataset", "{}", "unknown dataset"),
        ("dataset", ["chain_sum"], "dataset must be a text"),
        ("dataset", "composite", "composite cannot be used"),
        ("dataset", "codeio", "codeio cannot be used"),
        ("settings", "{}", "settings must be an object"),
        ("seed", "{}", "seed must be a whole number"),
        ("seed", -1, "seed must be a whole number"),
        ("size", True, "size must be a whole number"),
        ("index", 0.5, "index must be a whole number"),
    ],
)
def test_origins_that_are_none(name: str, value: Any, message: str, mark: Path) -> None:
    problem = build("test", 1, 0, dataset="chain_sum")[0]
    value = value.format(payload(mark)) if isinstance(value, str) else value
    with pytest.raises(RlcrError, match=message):
        verify_gym([changed(problem, **{name: value})], ["1"])
    assert not mark.exists()


@pytest.mark.parametrize("name", ["seed", "index", "settings", "dataset"])
def test_another_origin_is_another_problem(name: str) -> None:
    problem = build("test", 1, 0, dataset="chain_sum")[0]
    others = {"seed": 5, "index": 7, "settings": {"min_terms": 6}, "dataset": "products"}
    verdict = verify_gym([changed(problem, **{name: others[name]})], [problem.gold[0]])[0]
    assert verdict.outcome == "unscorable"
    assert "question and gold" in verdict.reason
    assert verdict.reason.startswith("not problem ")


def test_a_problem_from_before_says_what_to_do(tmp_path: Path) -> None:
    problem = build("test", 1, 0, dataset="chain_sum")[0]
    extras = {name: problem.extras[name] for name in ("dataset", "settings", "metadata")}
    old = dataclasses.replace(problem, extras=extras)
    write_problems(tmp_path / "old.jsonl", [old])
    for grade in (lambda: load(str(tmp_path / "old.jsonl")), lambda: verify_gym([old], ["1"])):
        with pytest.raises(RlcrError, match="extras lack 'seed': build it again"):
            grade()


def test_a_rebuild_that_does_not_end_is_unscorable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym, "REBUILD_LIMIT", 1.0)
    problem = build("test", 1, 0, dataset="rubiks_cube")[0]
    endless = changed(problem, settings={"min_scramble_steps": 10**7, "max_scramble_steps": 10**7})
    verdict = verify_gym([endless], [problem.gold[0]])[0]
    assert verdict.outcome == "unscorable"
    assert "made again" in verdict.reason


def test_from_a_file_every_gold_is_still_right(tmp_path: Path, pairs: dict[str, list[Problem]]) -> None:
    """Several problems, last first: none may depend on those made before it."""
    problems = [problem for pair in pairs.values() for problem in pair[::-1]]
    write_problems(tmp_path / "task.jsonl", problems)
    gym._PROVEN.clear()
    read = list(load(str(tmp_path / "task.jsonl")).problems)
    golds = [problem.gold[0] for problem in read]
    assert len(read) == 2 * 102
    failed = [
        (problem.id, verdict.reason)
        for problem, verdict in zip(read, verify_gym(read, golds), strict=True)
        if not verdict.correct
    ]
    assert not failed
    assert json.loads((tmp_path / "task.jsonl").read_text().splitlines()[0])["extras"]["index"] == 1
