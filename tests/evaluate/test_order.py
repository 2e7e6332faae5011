"""An evaluation on a server does not depend on order, concurrency, or what went wrong on the way."""

import random
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.evaluate.capitals import CAPITALS, capitals, country_of, records_of
from tests.servers import Call, Faults, ModelServer

from rlcr.evaluate import Settings, evaluate
from rlcr.evaluate.methods import FORCED_ANSWER, FORCED_CONFIDENCE
from rlcr.sample.opening import Access


def reply(call: Call) -> str:
    """Another answer and confidence for each sample of a question, some without tags, after a while."""
    digest = sha256(f"{call.prompt}{call.number}".encode()).digest()
    time.sleep(random.random() / 200)
    if call.prompt.endswith(FORCED_CONFIDENCE):
        return f" {digest[0] % 100}."
    if call.prompt.endswith(FORCED_ANSWER):
        return " Paris."
    if digest[0] < 40:
        return "no tags"
    answer = CAPITALS[country_of(call.prompt)] if digest[1] < 128 else "Nowhere"
    confidence = digest[2] / 255
    return (
        f"<think>so</think><answer>{answer}</answer>"
        f"<analysis>sure</analysis><confidence>{confidence:.2f}</confidence>"
    )


@pytest.mark.parametrize("concurrency", [3, 32])
def test_neither_order_nor_concurrency_nor_failures_change_the_results(
    concurrency: int, tmp_path: Path
) -> None:
    def run(name: str, task: str, access: Access, faults: Faults) -> tuple[list[dict[str, Any]], Any]:
        with ModelServer(reply, faults=faults) as server:
            settings = Settings(server.url, (task,), "rlcr", samples=4)
            results = evaluate(settings, tmp_path / name, access=access)
            assert server.most_in_flight <= (access.concurrency or 1)
        records = [{**record, "seconds": 0} for record in records_of(tmp_path / name)]
        (measured,) = results.to_dict()["tasks"].values()
        return sorted(records, key=lambda record: (record["id"], record["sample"])), measured

    task = capitals(tmp_path)
    lines = Path(task).read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    (tmp_path / "other").mkdir()
    shuffled = tmp_path / "other" / Path(task).name
    shuffled.write_text("".join(lines))
    alone, wanted = run("alone", task, Access(concurrency=1), Faults())
    trouble = Faults(rate_limit=0.1, error=0.1, drop=0.1)
    found, measured = run("many", str(shuffled), Access(concurrency=concurrency), trouble)
    assert len(found) == len(lines) * 4
    assert found == alone
    assert measured == wanted
