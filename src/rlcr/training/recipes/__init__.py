"""Recipes: a training run in one short file, and how files, variants and overrides become settings.

    load_recipe("hotpotqa-rlcr").recipe
    load_recipe("mine.yaml", {"lr": 2e-6, "lora.rank": 8})

A recipe may be ``like`` another, from which it takes what it does not say itself. One level: what a recipe is
like stands alone. Only a user's own file may be like any recipe of ours. Nested settings are merged name by
name, and null takes the whole of them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlcr.errors import RlcrError, closest, nearest, shortened
from rlcr.training.recipes.checks import check_settings
from rlcr.training.recipes.reading import Text, read, read_value
from rlcr.training.recipes.settings import Difficulty, Lora, Recipe, Vllm, WarmUp

_FOLDER = Path(__file__).parent

#: The names of our recipes.
RECIPES: tuple[str, ...] = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))

#: Settings whose names are checked elsewhere: parts of the reward, settings of a task, of a chat template.
_OPEN = ("weights", "task_settings", "chat_template")
#: Settings that have settings of their own.
_NESTED = {
    name: list(settings.model_fields)
    for name, settings in (
        ("lora", Lora),
        ("warm_up", WarmUp),
        ("difficulty", Difficulty),
        ("vllm", Vllm),
    )
}


@dataclass(frozen=True)
class Setting:
    """One setting of a resolved recipe.

    ``origin`` is ``recipe``, ``like NAME``, ``override`` or ``default``; ``source`` is what the file says of
    where the value comes from.
    """

    name: str
    value: Any
    origin: str
    source: str = ""


@dataclass(frozen=True)
class Resolved:
    """A recipe with every default filled in, and where each setting comes from."""

    name: str
    recipe: Recipe
    settings: tuple[Setting, ...]
    #: Whether the recipe's ``after`` still waits for the user to say where that model is.
    model_missing: bool = False

    def starting_from(self, model: str) -> Resolved:
        """The same from another model."""
        return replace(self, recipe=self.recipe.model_copy(update={"model": model}))

    def setting(self, name: str) -> Setting:
        """One setting by its dotted name."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        raise RlcrError(f"unknown setting {name!r}: {nearest(name, [s.name for s in self.settings])}")


@dataclass(frozen=True)
class _Layer:
    """What one file, or the user's overrides, say."""

    origin: str
    text: Text
    values: Mapping[str, Any] = field(default_factory=dict)

    def where(self, name: str) -> str:
        return self.text.where(name) if self.text.file else "override"


def load_recipe(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """One of our recipes by name, or the user's own from a YAML file; overrides have dotted names.

    Everything is checked that can be without data and model
    (:func:`rlcr.training.recipes.checks.check_settings`).

    >>> found = load_recipe("hotpotqa-rlvr", {"group": 16})
    >>> found.recipe.group, found.setting("group").origin, found.setting("lr")
    (16, 'override', Setting(name='lr', value=1e-06, origin='like hotpotqa-rlcr', source='paper, B.2'))
    """
    name, layers = _files(str(name_or_path))
    layers.append(_Layer("override", Text("", {}), _nested(overrides or {})))
    for layer in layers:
        _check_names(layer)
    layers = _without_foreign_about(layers)
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer.values)
    for key in _OPEN:
        if key in merged and merged[key] is None:
            del merged[key]
    try:
        recipe = Recipe.model_validate(merged)
    except ValidationError as error:
        raise RlcrError("\n".join(_messages(error, layers))) from None
    try:
        check_settings(recipe)
    except RlcrError as error:
        raise RlcrError(f"{name_or_path}: {error}") from None
    return Resolved(name, recipe, tuple(_settings(recipe, layers)), _model_missing(recipe, layers))


def parse_override(text: str) -> tuple[str, Any]:
    """``key=value`` as the name of a setting and its value, which is read as YAML.

    >>> parse_override("lr=1e-6"), parse_override("lora=null"), parse_override("report_to=[wandb]")
    (('lr', 1e-06), ('lora', None), ('report_to', ['wandb']))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise RlcrError(f"{text}: expected key=value, such as lr=1e-6")
    return name.strip(), read_value(value)


# --- files ------------------------------------------------------------------------------------------


def _files(name_or_path: str) -> tuple[str, list[_Layer]]:
    """The name of a recipe, and its layers: what it is like, then itself."""
    path = _path(name_or_path, Path())
    ours = name_or_path in RECIPES
    text = read(path, path.name if ours else name_or_path)
    layers = [_layer("recipe", text)]
    like = text.values.get("like")
    if like is not None:
        if not isinstance(like, str):
            raise RlcrError(
                f"{text.where('like')}: like must be the name of a recipe or a file, got {like!r}"
            )
        layers = [*_like(like, text, path.parent, ours), *layers]
    return path.stem, layers


def _like(like: str, text: Text, folder: Path, ours: bool) -> list[_Layer]:
    try:
        path = _path(like, folder)
    except RlcrError as error:
        raise RlcrError(f"{text.where('like')}: like: {error}") from None
    other = read(path, path.name if like in RECIPES else like)
    layers = [_layer(f"like {like}", other)]
    further = other.values.get("like")
    if further is None:
        return layers
    if ours or like not in RECIPES:
        raise RlcrError(
            f"{text.where('like')}: {like} is itself like {further}; one level only:"
            f" be like {further} instead"
        )
    below = read(_FOLDER / f"{further}.yaml", f"{further}.yaml")
    return [_layer(f"like {further}", below), *layers]


def _layer(origin: str, text: Text) -> _Layer:
    return _Layer(origin, text, {key: value for key, value in text.values.items() if key != "like"})


def _path(name: str, folder: Path) -> Path:
    if name in RECIPES:
        return _FOLDER / f"{name}.yaml"
    if not name.endswith((".yaml", ".yml")):
        raise RlcrError(f"no recipe named {name!r}: {nearest(name, list(RECIPES))}; a file ends in .yaml")
    path = folder / name
    if not path.is_file():
        raise RlcrError(f"{name}: no such file")
    return path


# --- names and layers -------------------------------------------------------------------------------


def _nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides with dotted names as nested mappings."""
    values: dict[str, Any] = {}
    for name, value in overrides.items():
        for part in reversed(name.split(".")[1:]):
            value = {part: value}
        _merge(values, {name.split(".")[0]: value})
    return values


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _merge(below[key], value)
        else:
            below[key] = deepcopy(value)


def _without_foreign_about(layers: list[_Layer]) -> list[_Layer]:
    """The layers without a description of another run: of one with another model or task.

    A recipe that comes ``after`` another is about any model that the user names.
    """

    def said(name: str, below: list[_Layer]) -> Any:
        layer = _said_by(name, below)
        return layer.values[name] if layer else None

    kept = list(layers)
    for at, layer in enumerate(layers):
        described = ("task",) if said("after", layers[: at + 1]) else ("model", "task")
        if "about" in layer.values and any(
            said(name, layers) != said(name, layers[: at + 1]) for name in described
        ):
            values = {name: value for name, value in layer.values.items() if name != "about"}
            kept[at] = replace(layer, values=values)
    return kept


def _check_names(layer: _Layer) -> None:
    for name in layer.values:
        if name == "like":
            raise RlcrError("like can only be said in a file")
        _check_name(layer, str(name), list(Recipe.model_fields), str(name))
    for group, known in _NESTED.items():
        inner = layer.values.get(group)
        for name in inner if isinstance(inner, Mapping) else ():
            _check_name(layer, str(name), known, f"{group}.{name}")


def _check_name(layer: _Layer, name: str, known: list[str], full: str) -> None:
    if name in known:
        return
    words = name.lower().replace("-", "_").split("_")
    initials = "".join(word[:1] for word in words)  # people write learning_rate for lr
    close = closest("_".join(words), known) or (initials if initials in known else None)
    hint = f"did you mean {close}?" if close else "`rlcr recipes show hotpotqa-rlcr` lists all settings"
    raise RlcrError(f"unknown setting {shortened(full, 80)} ({layer.where(full)}): {hint}")


def _settings(recipe: Recipe, layers: list[_Layer]) -> Iterator[Setting]:
    for name, value in _flat(recipe.model_dump()):
        layer = _said_by(name, layers)
        if layer is None:
            yield Setting(name, value, "default")
        else:
            place = layer.text.place(name)
            yield Setting(name, value, layer.origin, place.source if place else "")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _said_by(name: str, layers: list[_Layer]) -> _Layer | None:
    """The uppermost layer that says a setting."""
    for layer in reversed(layers):
        values: Any = layer.values
        for part in name.split("."):
            if not isinstance(values, Mapping) or part not in values:
                break
            values = values[part]
        else:
            return layer
    return None


def _model_missing(recipe: Recipe, layers: list[_Layer]) -> bool:
    """A model that was named before the recipe came ``after`` another is not the one to start from."""
    if recipe.after is None:
        return False
    after, model = _said_by("after", layers), _said_by("model", layers)
    return after is not None and model is not None and layers.index(model) < layers.index(after)


# --- messages ---------------------------------------------------------------------------------------


def _messages(error: ValidationError, layers: list[_Layer]) -> list[str]:
    """One line for each setting that is wrong."""
    found: dict[str, list[str]] = {}
    for one in error.errors(include_url=False):
        name = _dotted(one["loc"])
        found.setdefault(name, []).append(_what(one))
    return [
        f"{shortened(name, 80)}: {' or '.join(dict.fromkeys(what))}{_got(name, layers)}"
        for name, what in found.items()
    ]


def _what(error: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        if isinstance(error["loc"][-1], int):
            return "has too few values"
        return "missing" if len(error["loc"]) > 1 else "missing; every recipe must say it"
    return error["msg"].replace("Input should be", "must be", 1).partition(", unable to parse")[0]


def _got(name: str, layers: list[_Layer]) -> str:
    """What was found and where, for the end of a message."""
    layer = _said_by(name, layers)
    if layer is None:
        return f" ({layers[-2].text.file})"  # the recipe itself, just below the overrides
    value: Any = layer.values
    for part in name.split("."):
        value = value[part]
    return f", got {shortened(repr(value), 120)} ({layer.where(name)})"


def _dotted(location: tuple[int | str, ...]) -> str:
    """The name of a setting, without the numbers and the types that pydantic puts behind it."""
    first, *rest = map(str, location)
    known = _NESTED.get(first, rest if first in _OPEN else ())
    return f"{first}.{rest[0]}" if rest and rest[0] in known else first
