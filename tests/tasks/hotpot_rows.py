"""Rows in the shape of HotpotQA."""

from __future__ import annotations

from typing import Any


def hotpot_row(number: int, others: int = 8, question: str = "") -> dict[str, Any]:
    """A row in the shape of HotpotQA: two gold paragraphs, the third and the last, among others."""
    titles = [f"Other {number}-{k}" for k in range(others)]
    titles.insert(min(2, others), f"Gold {number}-a")
    titles.append(f"Gold {number}-b")
    return {
        "_id": f"q{number:06d}",
        "question": question or f"What joins the two things of number {number}?",
        "answer": f"answer {number}",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [[f"Gold {number}-a", 0], [f"Gold {number}-b", 1], [f"Gold {number}-b", 0]],
        "context": [[title, [f"{title} is a thing.", " It has a second sentence."]] for title in titles],
    }
