"""An inspect task whose answers carry a confidence: inspect eval task.py --model …."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate, system_message

import rlcr
from rlcr.adapters.inspect_ai import calibrated
from rlcr.prompts import user_message
from rlcr.tasks import read_problems


@task
def problems(file: str = "problems.jsonl", prompt: str = "rlcr") -> Task:
    """The problems of a file, asked with one of rlcr's prompts."""
    asked = rlcr.load_prompt(prompt)
    samples = [
        Sample(
            id=problem.id,
            input=user_message(problem),
            target=list(problem.gold),
            metadata={"verifier": problem.verifier, "choices": problem.extras.get("choices")},
        )
        for problem in read_problems(file)
    ]
    return Task(
        dataset=samples,
        solver=[system_message(asked.text), generate()],
        scorer=calibrated(format=asked.format or "rlcr"),
    )
