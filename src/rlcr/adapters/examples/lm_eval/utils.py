"""What rlcr_problems.yaml calls."""

import rlcr
from rlcr.adapters.lm_eval import accuracy, auroc, brier, ece, make_process_results

__all__ = ["accuracy", "auroc", "brier", "doc_to_text", "ece", "process_results"]

_PROMPT = rlcr.load_prompt("rlcr").text
_graded = make_process_results(
    gold="gold", question="question", verifier_column="verifier", choices="choices"
)


def doc_to_text(doc: dict) -> str:
    """The prompt that asks for the tags, the question, and the line that its task adds."""
    return "\n\n".join(part for part in (_PROMPT, doc["question"], doc["instruction"]) if part) + "\n"


def process_results(doc: dict, results: list) -> dict:
    """The verdict and confidence of every repeat."""
    return _graded({**doc, "choices": (doc.get("extras") or {}).get("choices")}, results)
