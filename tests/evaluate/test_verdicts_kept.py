"""Reading ordinary text must cost no verdict that was right: the authors' stored outputs, before and after."""

from pathlib import Path

import pytest
from tests.published import stored_rows

from rlcr.evaluate.grade import grade
from rlcr.problem import Problem
from rlcr.runs.record import Sampled

#: Which rows were right before the verifiers and the parser read ordinary text: a bit for each, as hex digits.
RIGHT_BEFORE = {
    ("commonsenseqa", "Base"): (
        "f79eefff1ff12f0fa75e9f7ee7f371dfffed3b3d7ff5adfdbffafe6bbfffff2ff3ddbfdee3fd377c8bffee57bfcfe7eff5fd"
        "ca43a5a4dfb94dfff79757bfdb3ebf6e7ffecafffffc42f6f7dfdf7effb33b7ddfeb76f2fcecffc3ff7dffffff95feeffbf3"
        "34fadfb7d7cf56e8fff5efdfde2bcff3f5dffdfdaffdf63d77c2bfba9eeebd5dbfffeff5faefad37cffbeee5bedfce9767e7"
        "ef6df8"
    ),
    ("commonsenseqa", "RLVR"): (
        "ff9fffff5fedbf8fe7fefefe6eff7bfffffd2bbbfff5adbf3ebbff6fff7ffe7d7ffdff7ef5fdb77fdbfffe97bfefeefff5ed"
        "db73bff6f4fd5ffd7dbf57bf9abfbf7f7fffeb7f7fff22feffcfffffffa17bfe7fdbd7fe96c7ffe3ff7fefffff35cfbfeafb"
        "7c7fffffd76fffffffe56fdfdfbfcfeff9cffffdef7df6f57febb7bbfffeffffafffeffffbf7ac77effbeeffbdffcfffffef"
        "af4fd8"
    ),
    ("commonsenseqa", "RLCR"): (
        "ff9fffff5ffd3f8de7fefefeffff7bfffffd1bb9fff5a9beffdcff5fffffff7ff7ddeffef1fdf77debbfecffbf6beefffced"
        "c7f2bff6f5bd5ffffddf57b7fbfebf7f5fffff7ffefd63feffcf7ffff7a37a7e7bfb7ffebfd6bff3ff7fffffffb7dfafdbfb"
        "7cffdfffd7edffe9ffedfdd7ddf7afeffdcffffdedddf6b57feab7fafffeffffeff7efffffffadb7efcbeefebddfc7fffe7f"
        "af4ff8"
    ),
    ("math-500", "Base"): (
        "be8db91fabaf5bd453dd4f657239ec65bfdc9c55e55fb373cbfb91aa435c522e7f5fde306050d3f36c57e7f060b9e741f877"
        "2f77e8bb47e3ddc5ddedabcc9"
    ),
    ("math-500", "RLVR"): (
        "b6acc99b02edc7c45dfd27604278cee19fdd295de55ea3f24b33f1707464132fc73e0e90648c50b95042de296a33a342ec57"
        "0f16681e77739941dee4a3cd0"
    ),
    ("math-500", "RLCR"): (
        "b6acb99fa2afd7d656fd17e46279ee6f8fde2c57e55aa363cbf3f9a03440112fd77f1eb0608ac0b9f043de7b6e33a261ec5f"
        "0f3768367ab3df655ee1abc10"
    ),
}
VERIFIERS = {"commonsenseqa": "choice", "math-500": "math"}


@pytest.mark.parametrize(("run", "method"), list(RIGHT_BEFORE))
def test_no_right_answer_has_become_wrong(shared_data: Path, run: str, method: str) -> None:
    rows = stored_rows(shared_data, run)
    format = "rlcr" if method == "RLCR" else "confidence"
    problems = [Problem(str(n), row["problem"], row["answer"], VERIFIERS[run]) for n, row in enumerate(rows)]
    completions = [
        Sampled(id=str(n), sample=0, task=run, format=format, text=row[f"{method}-output_0"])
        for n, row in enumerate(rows)
    ]
    before = "".join(f"{int(digit, 16):04b}" for digit in RIGHT_BEFORE[run, method])
    graded = grade(completions, problems, "strict", None)
    lost = [
        record.answer
        for record, bit in zip(graded, before, strict=False)
        if bit == "1" and not record.correct
    ]
    assert lost == []
    gained = sum(record.correct is True for record in graded) - before.count("1")
    assert gained == (3 if (run, method) == ("math-500", "Base") else 0)
