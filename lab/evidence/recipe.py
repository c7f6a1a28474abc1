"""A recipe is a function `lab.module:function` from inputs to a result; evidence is always recomputed by it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from lab.evidence.errors import EvidenceError
from lab.evidence.files import plain


def resolve(recipe: str) -> Callable[..., Any]:
    """The function that `recipe` names. Only functions of the lab package: evidence files are data from outside.

    :raises EvidenceError: it is not `lab.module:function`, or cannot be imported
    """
    module, separator, function = recipe.partition(":")
    if not separator or not module.startswith("lab.") or not function.isidentifier():
        raise EvidenceError(f"recipe {recipe!r} is not of the form lab.module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise EvidenceError(f"recipe {recipe!r} cannot be found: {error}") from error
    if not callable(found):
        raise EvidenceError(f"recipe {recipe!r} is not a function")
    return found  # type: ignore[no-any-return]


def run(recipe: str, inputs: Mapping[str, Any]) -> Any:
    """`recipe(**inputs)` as plain JSON data.

    :raises EvidenceError: the recipe cannot be found, fails, or gives what JSON cannot hold
    """
    function = resolve(recipe)
    try:
        return plain(function(**inputs))
    except Exception as error:
        raise EvidenceError(f"recipe {recipe!r} failed: {type(error).__name__}: {error}") from error
