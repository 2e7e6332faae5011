"""slime: its `async_rm` and `batched_async_rm`, with the lines of docs/interop.md and with our service."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

from slime.rollout.rm_hub import _get_shared_session, async_rm, batched_async_rm
from slime.utils.types import Sample

from interop.case import Case
from interop.checks import Checks
from interop.serving import reward_service
from interop.snippets import write_module


async def one_by_one(arguments: SimpleNamespace, samples: list[Sample]) -> list[float]:
    rewards = [await async_rm(arguments, sample) for sample in samples]
    await _get_shared_session().close()
    return rewards


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "slime")
    write_module("slime", Path("my_reward.py"))
    sys.path.insert(0, str(Path.cwd()))
    samples = [
        Sample(prompt=f"question {question}", response=text, label=gold)
        for question, text, gold, _ in case.rows()
    ]
    ours = SimpleNamespace(custom_rm_path="my_reward.reward", rm_type=None)
    expected = case.totals_or(0.0)
    found = asyncio.run(one_by_one(ours, samples))
    checks.equal("`--custom-rm-path` with the lines above, sample by sample", found, expected)
    found = asyncio.run(batched_async_rm(ours, samples))
    checks.equal("the same for a group", found, expected)
    with reward_service() as url:
        remote = SimpleNamespace(custom_rm_path=None, rm_type="remote_rm", rm_url=url)
        found = asyncio.run(one_by_one(remote, samples))
    checks.equal("`--rm-type remote_rm` with `rlcr serve-reward`", found, expected)


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
