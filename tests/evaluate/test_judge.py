"""A judge remembers its answers: its own only, and only those that were answers."""

from pathlib import Path

from tests.evaluate.fake_sampler import FakeSampler

from rlcr.evaluate.judge import RememberingJudge
from rlcr.verify import Message

QUESTIONS = [[Message(role="user", content=text)] for text in ("one", "two \ud800", "three")]


def test_two_judges_of_one_name_do_not_share_their_memory(tmp_path: Path) -> None:
    yes, no = FakeSampler(["YES"] * 3), FakeSampler(["NO"] * 3, fingerprint="2")
    assert RememberingJudge(yes, tmp_path).complete(QUESTIONS) == ["YES"] * 3
    assert RememberingJudge(no, tmp_path).complete(QUESTIONS) == ["NO"] * 3
    assert RememberingJudge(yes, tmp_path).complete(QUESTIONS) == ["YES"] * 3
    assert yes.asked == no.asked == 3


def test_a_judge_forgets_what_it_could_not_say_and_survives_a_torn_line(tmp_path: Path) -> None:
    judge = FakeSampler(["YES", "well", "NO", "NO"])
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "well", "NO"]
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "NO", "NO"]
    assert judge.asked == 4
    (memory,) = tmp_path.iterdir()
    memory.write_bytes(memory.read_bytes()[:-9])
    judge.replies = ["YES"]
    assert RememberingJudge(judge, tmp_path).complete(QUESTIONS) == ["YES", "YES", "NO"]
