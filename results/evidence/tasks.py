"""The task families of the evidence: problems that a model of 135M parameters is sometimes right about.

    python -m results.evidence.tasks runs/evidence/tasks

For each family it writes problem files, which are tasks by their paths: ``train.jsonl``,
``validation.jsonl`` and ``test.jsonl``; and for all families together ``warm-up.jsonl``, with the worked
solutions that `rlcr warm-up` teaches: every run starts from one model, which knows the form of all of them.
In ``abstaining.jsonl`` one in four of these is answered "I don't know", whatever the problem.

chains     2 to 4 terms of 1 to 3 digits are added and subtracted (reasoning-gym's ``chain_sum``); worked out
           one partial sum a line.
letters    how often a letter occurs in 3 to 6 words (reasoning-gym's ``letter_counting``); worked out word by
           word.
reading    a question of HotpotQA with one sentence. In half of the problems it holds the answer, in the other
           half it is another sentence of the question's paragraphs: a reader can know that it does not know.
           Worked out by quoting, or by saying that the text does not say. Needs the data, in the folder
           ``RLCR_DATA`` or ``--data-dir``. Left out: yes and no, answers that the question holds already,
           long questions and sentences.

The same arguments give the same bytes. Splits share no question: test problems are drawn first, then
validation, warm-up and train, each leaving out what was drawn before.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from reasoning_gym import create_dataset

from rlcr.errors import RlcrError
from rlcr.problem import Problem
from rlcr.tasks.plumbing.problem_files import write_problems
from rlcr.tasks.plumbing.seeded import rank, same_question_key, shuffled
from rlcr.tasks.plumbing.source import SourceTable, cell, find_files, given_data_dir, text
from rlcr.tasks.plumbing.tables import Row

WARM_UP = "warm-up"
#: In the order in which they are drawn: the test problems do not depend on how many others there are.
SPLITS = ("test", "validation", WARM_UP, "train")
#: What Abstention-RL rewards instead of an answer.
_UNKNOWN = "I don't know"
Sizes = Mapping[str, int]
CHAINS_SIZES: Sizes = {"test": 400, "validation": 200, "warm-up": 800, "train": 4000}
LETTERS_SIZES: Sizes = {"test": 200, "validation": 200, "warm-up": 300, "train": 0}
READING_SIZES: Sizes = {"test": 300, "validation": 200, "warm-up": 400, "train": 800}


@dataclass(frozen=True, slots=True)
class Worked:
    """A problem, and how it is worked out."""

    problem: Problem
    think: str

    def solved(self) -> Problem:
        """The problem with its worked solution."""
        return replace(self.problem, extras={**self.problem.extras, "solution": self.think})


Splits = dict[str, list[Worked]]


# --- reasoning-gym ----------------------------------------------------------------------------------

#: reasoning-gym draws problem i with seed + i, hence far apart.
_SEEDS = {"train": 0, "warm-up": 1_000_000, "validation": 2_000_000, "test": 3_000_000}


def chains(sizes: Sizes, data_dir: Path | None = None) -> Splits:
    """Chains of additions and subtractions."""
    settings = {"min_terms": 2, "max_terms": 4, "min_digits": 1, "max_digits": 3}
    return _gym("chains", "chain_sum", settings, "math", _partial_sums, sizes)


def letters(sizes: Sizes, data_dir: Path | None = None) -> Splits:
    """A letter counted in a few words."""
    settings = {"min_words": 3, "max_words": 6}
    return _gym("letters", "letter_counting", settings, "math", _counts, sizes)


def _gym(
    family: str,
    dataset: str,
    settings: Mapping[str, Any],
    verifier: str,
    work_out: Callable[[Mapping[str, Any]], str],
    sizes: Sizes,
) -> Splits:
    seen: set[str] = set()
    splits: Splits = {}
    for split in SPLITS:
        drawn: list[Worked] = []
        # Short problems repeat; what is not used of so many draws is never made.
        draws = create_dataset(dataset, size=10 * sizes[split], seed=_SEEDS[split], **settings)
        for index in count():
            if len(drawn) == sizes[split]:
                break
            one = draws[index]
            key = same_question_key(one["question"])
            if key not in seen:
                seen.add(key)
                problem = Problem(f"{family}/{split}/{index}", one["question"], (one["answer"],), verifier)
                drawn.append(Worked(problem, work_out(one["metadata"])))
        splits[split] = drawn
    return splits


def _partial_sums(metadata: Mapping[str, Any]) -> str:
    first, *rest = metadata["expression"].split()
    total = int(first)
    lines = []
    for sign, term in zip(rest[::2], rest[1::2], strict=True):
        after = total + int(term) if sign == "+" else total - int(term)
        lines.append(f"{total} {sign} {term} = {after}")
        total = after
    return "\n".join(lines)


def _counts(metadata: Mapping[str, Any]) -> str:
    letter = metadata["target_letter"]
    return ", ".join(f"{word} {word.lower().count(letter)}" for word in metadata["span"])


# --- reading ----------------------------------------------------------------------------------------

_FILES = tuple(
    f"hotpotqa/{name}"
    for name in ("distractor_train", "distractor_dev", "fullwiki_dev_500", "distractor_mas")
)
#: Characters, so that a prompt has at most 160 tokens.
_LONGEST_QUESTION, _LONGEST_SENTENCE, _LONGEST_ANSWER = 160, 200, 40
_SHORTEST_SENTENCE = 30
#: Words quoted before the answer.
_QUOTED = 4


@dataclass(frozen=True, slots=True)
class _Question:
    """A question with the sentence that holds its answer, and one that does not; each behind its title."""

    id: str
    question: str
    answer: str
    present: str
    absent: str
    quote: str


def reading(sizes: Sizes, data_dir: Path | None = None) -> Splits:
    """Questions with one sentence, that of the answer in every other problem."""
    if data_dir is None:
        raise RlcrError("reading: give the folder of HotpotQA with --data-dir or RLCR_DATA")
    questions = sorted(_questions(data_dir), key=lambda one: rank("reading", one.question))
    wanted = sum(sizes[split] // 2 for split in SPLITS)
    if len(questions) < wanted:
        raise RlcrError(f"reading: {wanted} questions wanted, {len(questions)} in {data_dir}; ask for fewer")
    splits: Splits = {}
    for split in SPLITS:
        chosen, questions = questions[: sizes[split] // 2], questions[sizes[split] // 2 :]
        both = [_reading_problem(split, one, present) for one in chosen for present in (True, False)]
        splits[split] = shuffled(both, "reading", split)
    return splits


def _reading_problem(split: str, one: _Question, present: bool) -> Worked:
    problem = Problem(
        f"reading/{split}/{one.id}/{'with' if present else 'without'}",
        f"{one.present if present else one.absent}\n\n{one.question}",
        (one.answer,),
        "exact",
        extras={"present": present, "bare_question": one.question},
    )
    return Worked(problem, f"It says: {one.quote}" if present else "The text does not say.")


def _questions(data_dir: Path) -> Iterator[_Question]:
    seen: set[str] = set()
    for name in _FILES:
        for path in find_files(data_dir, (name,)):
            for row in SourceTable((path,), path.name).rows():
                key = same_question_key(text(row, "question"))
                if key not in seen and (question := _read(row)):
                    seen.add(key)
                    yield question


def _read(row: Row) -> _Question | None:
    """The question of a row, or None where it cannot be used."""
    question, answer = text(row, "question").strip(), text(row, "answer").strip()
    if len(question) > _LONGEST_QUESTION or len(answer) > _LONGEST_ANSWER:
        return None
    if answer.lower() in ("yes", "no") or _holds(question, answer):
        return None
    name = text(row, "_id", "id", "task_id")
    supporting, others = [], []
    for title, number, sentence, supports in _sentences(row):
        line = f"{title}: {sentence}"
        if not _SHORTEST_SENTENCE <= len(sentence) <= _LONGEST_SENTENCE:
            continue
        if not _holds(line, answer):
            others.append(line)
        elif supports and (quote := _quote(sentence, answer)):
            supporting.append((len(sentence), number, line, quote))
    if not supporting or not others:
        return None
    *_, present, quote = min(supporting)
    [absent, *_] = shuffled(others, "reading", name)
    return _Question(name, question, answer, present, absent, quote)


def _sentences(row: Row) -> Iterator[tuple[str, int, str, bool]]:
    """Title, running number and text of each sentence, and whether it may support the answer.

    One carrier names supporting paragraphs only, not sentences.
    """
    facts = cell(row, "supporting_facts", "support_titles")
    whole = {fact for fact in facts if isinstance(fact, str)}
    exact = {(fact[0], fact[1]) for fact in facts if not isinstance(fact, str)}
    number = 0
    for paragraph in cell(row, "context", "docs"):
        if isinstance(paragraph, dict):
            paragraph = (paragraph["title"], paragraph["sentences"])
        title, sentences = paragraph
        for index, sentence in enumerate(sentences):
            number += 1
            yield title.strip(), number, sentence.strip(), title in whole or (title, index) in exact


def _holds(text: str, answer: str) -> bool:
    return answer.lower() in text.lower()


def _quote(sentence: str, answer: str) -> str:
    """The answer as a whole word of the sentence, with some words before it; empty where it is none."""
    match = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", sentence)
    if match is None:
        return ""
    before = sentence[: match.start()].split()[-_QUOTED:]
    return " ".join([*before, answer])


# --- files ------------------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[Callable[[Sizes, Path | None], Splits], Sizes]] = {
    "chains": (chains, CHAINS_SIZES),
    "letters": (letters, LETTERS_SIZES),
    "reading": (reading, READING_SIZES),
}


def write(folder: Path, families: Mapping[str, Splits]) -> None:
    """The files of all families. Only the problems of the warm-up carry their solutions."""
    for name, splits in families.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            if split != WARM_UP and splits[split]:
                write_problems(folder / name / f"{split}.jsonl", [one.problem for one in splits[split]])
    taught = [worked.solved() for splits in families.values() for worked in splits[WARM_UP]]
    taught = shuffled(taught, WARM_UP)
    write_problems(folder / f"{WARM_UP}.jsonl", taught)
    # Who never abstains is never rewarded for it.
    unknown = [replace(one, gold=(_UNKNOWN,), verifier="exact") for one in taught[::4]]
    known = [one for number, one in enumerate(taught) if number % 4]
    write_problems(folder / "abstaining.jsonl", shuffled([*unknown, *known], "abstaining"))


def main() -> None:
    """Write all families."""
    parser = argparse.ArgumentParser(description="Write the task families of the evidence.")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--data-dir", type=Path, help="folder of local data sets (or RLCR_DATA)")
    arguments = parser.parse_args()
    data_dir = given_data_dir(arguments.data_dir)
    try:
        write(arguments.out, {name: build(sizes, data_dir) for name, (build, sizes) in FAMILIES.items()})
    except RlcrError as error:
        sys.exit(f"tasks: {error}")
    print(arguments.out)


if __name__ == "__main__":
    main()
