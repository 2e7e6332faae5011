"""What rlcr_problems.yaml calls."""

import rlcr
from rlcr.adapters.lm_eval import accuracy, auroc, brier, ece, make_process_results

__all__ = ["accuracy", "auroc", "brier", "doc_to_text", "ece", "process_results"]

process_results = make_process_results(gold="gold", question="question", verifier="math")
_PROMPT = rlcr.load_prompt("rlcr").text


def doc_to_text(doc: dict) -> str:
    """The prompt that asks for the tags, and the question."""
    return f"{_PROMPT}\n\n{doc['question']}\n"
