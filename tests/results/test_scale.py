"""docs/scale.md holds what the estimates come to, and the estimates what can be counted by hand."""

from __future__ import annotations

import re

import pytest
from results.scale import on_paper, tables
from results.scale.on_paper import Fleet, Work

from rlcr.training.launches import LAUNCHES
from rlcr.training.recipes import RECIPES, load_recipe


def test_the_tables_of_the_page_are_current() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.filled(page) == page, "run `python -m results.scale`"


def test_every_recipe_of_a_known_size_is_on_the_page() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    missing = [
        name for name in RECIPES if load_recipe(name).recipe.model in tables.KNOWN and f"`{name}`" not in page
    ]
    assert not missing


def test_the_lines_of_the_page_name_what_exists() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"rlcr launch-config ([a-z]\w*)", page)) <= set(LAUNCHES)
    for line in re.findall(r"-m rlcr train (.*?) --out", page):
        name, *changes = line.replace("…", "").split()
        load_recipe(name, dict(change.split("=") for change in changes if "null" not in change))


def test_counted_operations_of_an_update() -> None:
    shape = tables.QWEN_7B
    work = Work(prompts=2, group=4, prompt=10, completion=5, longest=20)
    assert (work.completions, work.sampled, work.learned) == (8, 40, 60)
    without_attention = on_paper.operations(shape, 60, 40, context=0)
    assert without_attention == 2 * 28 * shape.layer * 60 + 2 * 3584 * 152064 * 40
    one, two = (on_paper.update(shape, work, Fleet(gpus)) for gpus in (1, 2))
    assert one.learning == pytest.approx(2 * two.learning)
    assert one.sync == 0
    assert on_paper.update(shape, work, Fleet(2, sharded=True)).sync > 0
    assert one.total == one.prompts + one.sampling + one.tail + one.learning + one.exchange
