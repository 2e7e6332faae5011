"""What `rlcr ask` says on the terminal."""

from __future__ import annotations

from rich.markup import escape

from rlcr.asking import Answer
from rlcr.errors import shortened
from rlcr.terminal import console

_WIDTH = 20


def print_answer(answer: Answer) -> None:
    """The answer, a bar for its confidence, and the other answers."""
    out = console()
    out.print(escape(answer.text or "(no answer)"), soft_wrap=True, highlight=False)
    stated = "none stated" if answer.confidence is None else f"{answer.confidence:.2f}"
    out.print(escape(f"{bar(answer.confidence)} confidence {stated}"), highlight=False)
    if answer.abstained:
        out.print("abstains: " + ("below the threshold" if answer.text else "no sample holds an answer"))
    if answer.samples > 1:
        votes = [f"{shortened(one.answer, 40)} ({one.votes})" for one in answer.votes]
        said = escape(f"{answer.samples} samples: {', '.join(votes) or 'no answer'}")
        out.print(said, soft_wrap=True, highlight=False)


def bar(confidence: float | None) -> str:
    """A confidence as a bar.

    >>> bar(0.75), bar(None)
    ('███████████████░░░░░', '░░░░░░░░░░░░░░░░░░░░')
    """
    filled = round((confidence or 0.0) * _WIDTH)
    return "█" * filled + "░" * (_WIDTH - filled)
