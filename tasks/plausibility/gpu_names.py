"""A GPU's model by its driver's name."""

import re
from collections.abc import Iterable, Mapping
from typing import Any


def other_model(model: str | None, names: Iterable[str], called: Mapping[str, str]) -> str:
    """Return the model in place of the named one; else empty.

    `names`: driver's; `called`: words by model. An unknown name shows nothing, because makers also sell cards
    under unlisted names.
    """
    models = [models_called(name, called) for name in names]
    if not model or model not in called or any(model in each for each in models):
        return ""
    return next((each[0] for each in models if each), "")


def models_called(name: str, called: Mapping[str, str]) -> list[str]:
    """Return models whose words are all in the name."""
    words = _words(name)
    return [model for model, text in called.items() if _words(text) <= words]


def names_in(environment: Mapping[str, Any]) -> list[str]:
    """Return names in a fingerprint, which can have any content."""
    gpus = environment.get("gpus")
    described = [gpu for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list | tuple) else []
    return [name for gpu in described if isinstance(name := gpu.get("name"), str)]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))
