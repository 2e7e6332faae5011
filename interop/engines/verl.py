"""verl: the reward managers that its trainer uses, in threads and in Ray workers, and its validation."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

os.environ["RAY_AUTH_MODE"] = "disabled"  # else Ray writes a token file
os.environ["RAY_gcs_server_request_timeout_seconds"] = "300"  # noqa: SIM112 (a busy machine is slow)

import numpy as np
import ray
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from interop.case import Case
from interop.checks import Checks
from interop.examples import command_line
from interop.tokens import tokenizer


def settings_of(arguments: list[str]) -> Any:
    """What verl makes of a command line: its own configuration with these changes."""
    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose("ppo_trainer", overrides=arguments)


def configuration(manager: str) -> Any:
    """verl's own defaults for the reward, with the lines of our example."""
    defaults = OmegaConf.load(Path(verl.__file__).parent / "trainer" / "config" / "reward" / "reward.yaml")
    config = OmegaConf.create({"reward": defaults})
    ours = [
        "reward.custom_reward_function.path=pkg://rlcr.adapters.verl",
        "reward.custom_reward_function.reward_kwargs.verifier=math",
        "reward.custom_reward_function.reward_kwargs.unscorable=0",
        f"reward.reward_manager.name={manager}",
        "reward.num_workers=1",
    ]
    return OmegaConf.merge(config, OmegaConf.from_dotlist(ours))


async def scored(manager: str, case: Case) -> list[dict]:
    tokens = tokenizer()
    loaded = load_reward_manager(configuration(manager), tokens)

    async def one(text: str, gold: str) -> dict:
        ids = [*tokens(text, add_special_tokens=False)["input_ids"], tokens.eos_token_id]
        responses = torch.tensor([[*ids, *[tokens.pad_token_id] * 8]])
        mask = torch.tensor([[1] * len(ids) + [0] * 8])
        data = DataProto.from_dict(
            tensors={"responses": responses, "attention_mask": mask},
            non_tensors={
                "data_source": np.array(["stored"], dtype=object),
                "reward_model": np.array([{"ground_truth": gold}], dtype=object),
                "extra_info": np.array([{"index": 0}], dtype=object),
            },
        )
        return await loaded.run_single(data)

    return await asyncio.gather(*(one(text, gold) for _, text, gold, _ in case.rows()))


def dump(case: Case, scores: list[float], columns: dict[str, list]) -> Path:
    """What verl's validation writes into `trainer.validation_data_dir`."""
    tokens = tokenizer()

    def rendered(question: int) -> str:
        asked = [{"role": "user", "content": f"question {question}"}]
        ids = tokens.apply_chat_template(asked, add_generation_prompt=True)["input_ids"]
        return tokens.decode(ids, skip_special_tokens=True)

    rows = case.rows()
    inputs = [rendered(question) for question, _, _, _ in rows]
    texts, golds = [text for _, text, _, _ in rows], [gold for _, _, gold, _ in rows]
    RayPPOTrainer._write_generations(inputs, texts, golds, scores, columns, "dumped", 20)
    return Path("dumped") / "20.jsonl"


def main(case: Case, out: Path) -> None:
    checks = Checks(out, "verl")
    read = settings_of(command_line("verl", "MODEL", "trainer.n_gpus_per_node=8"))
    validate_config(read, use_reference_policy=need_reference_policy(read), use_critic=need_critic(read))
    actor, function = read.actor_rollout_ref.actor, read.reward.custom_reward_function
    checks.settings(
        "what it reads of the example's `run.sh`",
        [
            (read.algorithm.adv_estimator, "grpo"),
            (read.algorithm.norm_adv_by_std_in_grpo, False),
            (read.algorithm.use_kl_in_reward, False),
            (actor.use_kl_loss, False),
            (actor.loss_agg_mode, "token-mean"),
            (function.path, "pkg://rlcr.adapters.verl"),
            (function.reward_kwargs.unscorable, 0),
        ],
    )
    found = asyncio.run(scored("naive", case))
    checks.equal(
        "`run_single` of the naive reward manager",
        [one["reward_score"] for one in found],
        case.totals_or(0.0),
    )
    infos = [one["reward_extra_info"] for one in found]
    assert len({tuple(info) for info in infos}) == 1, "every sample has the same keys"
    columns = {name: [info[name] for info in infos] for name in infos[0]}
    questions = [str(question) for question, _, _, _ in case.rows()]
    validated = process_validation_metrics(["stored"] * len(infos), questions, columns)["stored"]
    assert all(np.isfinite(value) for metrics in validated.values() for value in metrics.values())
    scores = np.array(columns["score"]).reshape(-1, 2)
    checks.equal("mean score in verl's validation", [validated["score"]["mean@2"]], [scores.mean(1).mean()])

    dumped = dump(case, [one["reward_score"] for one in found], columns)
    checks.imported("its validation dump", dumped, case)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    remote = asyncio.run(scored("remote", case))
    checks.equal(
        "`run_single` of the remote manager, in Ray",
        [one["reward_score"] for one in remote],
        case.totals_or(0.0),
    )
    ray.shutdown()


if __name__ == "__main__":
    main(Case.read(Path(sys.argv[1])), Path(sys.argv[2]))
