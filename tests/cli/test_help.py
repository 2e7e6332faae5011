"""`--help`, as a new user reads it: nothing is missing, nothing is in the way."""

import os

import pytest
from tests.command import rlcr

from rlcr.confidence.sources import SOURCES
from rlcr.evaluate.methods import METHODS

WIDE = os.environ | {"COLUMNS": "200"}


def shown(*command: str) -> str:
    result = rlcr(*command, "--help", env=WIDE)
    assert result.returncode == 0, result.stderr
    return result.stdout


COMMANDS = [("metrics",), ("eval",), ("tasks",), ("tasks", "build"), ("confidence", "add"), ("sft-data",), ()]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_flag_takes_no_value(command: tuple[str, ...]) -> None:
    text = shown(*command)
    assert "<bool>" not in text
    assert "-h" in text


def test_a_command_that_lists_says_so() -> None:
    text = shown()
    for name in ("tasks", "recipes", "runs"):
        line = next(line for line in text.splitlines() if line.startswith(f"│ {name} "))
        assert "list" in line.lower()
    for name in ("tasks", "recipes"):
        assert "[COMMAND]" in shown(name)


def words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_methods_and_sources_are_listed() -> None:
    for command in (("eval",), ("sft-data",)):
        assert ", ".join(METHODS) in words(shown(*command))
    text = words(shown("confidence", "add"))
    assert not [name for name in SOURCES if name not in text]


def test_brackets_are_shown_as_they_were_written() -> None:
    assert "http://host:port/v1[#name]." in words(shown("eval"))


@pytest.mark.parametrize(
    "command", [("eval",), ("tasks", "show"), ("tasks", "build"), ("sft-data",)], ids=" ".join
)
def test_how_many_problems_is_one_word(command: tuple[str, ...]) -> None:
    text = shown(*command)
    assert "--limit" in text
    assert "--size" not in text
    assert " -n " not in text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("rlcr me", "metrics"), ("rlcr metrics --per", "--percent"), ("rlcr tasks b", "build")],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    asked = {
        "_RLCR_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    assert offered in rlcr(env=os.environ | asked).stdout.split()
