"""Contention models as plain values and as text: the same for the wire, the command line and the caller in process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, cast

import numpy as np

from advisor.errors import InvalidValue, UnknownKey
from advisor.simulation.systems import Bandwidth, Bus, Centre, Lock, Queueing, System

MAY_BE_TEXT = ("demand", "rate", "inv", "rwb", "cache", "kind", "method")  # names of columns, and words
CENTRES = ("queue", "delay")  # kinds that a text can give, with their demand
JOINT = re.compile(r"\+(?=\s*[A-Za-z])")  # not the + of 1e+5
MODELS: Mapping[str, Callable[..., System | Lock]] = {
    "queueing": Queueing, "bus": Bus, "bandwidth": Bandwidth, "lock": Lock,
}  # fmt: skip


def systems_of(given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> tuple[System | None, Lock | None]:
    """Return the contention model and the lock that plain values describe.

    ``{"model": "bandwidth", "demand"}``; ``{"model": "bus", "rate", "inv", "rwb", "cache", "cycle"}``; ``{"model": "queueing",
    "rate", "method", "centres": [{"demand", "kind"}, …]}``; ``{"model": "lock", "hold"}``; or a list with one model and one
    lock. A string for a number names a column of the graph. Raises InvalidValue, UnknownKey for a model or a key that is not
    one of these, and a key that is missing.
    """
    made = [_made(dict(entry)) for entry in ([given] if isinstance(given, Mapping) else given or ())]
    locks = [each for each in made if isinstance(each, Lock)]
    systems = [each for each in made if not isinstance(each, Lock)]
    if max(len(locks), len(systems)) > 1:
        raise InvalidValue("contention", "two of a kind", "one model and one lock at most")
    return (systems[0] if systems else None), (locks[0] if locks else None)


def _made(keys: dict[str, Any]) -> System | Lock:
    model = keys.pop("model", None)
    if model not in MODELS:
        raise InvalidValue("contention.model", model, f"one of {', '.join(MODELS)}")
    if model == "queueing" and "centres" in keys:
        centres = cast("Sequence[Any]", keys["centres"])
        if not isinstance(centres, (list, tuple)) or not all(isinstance(each, Mapping) for each in centres):
            raise InvalidValue("contention.centres", centres, "a list of maps with demand and kind")
        keys["centres"] = [_with_parameters("centre", Centre, each) for each in centres]
    return _with_parameters(model, MODELS[model], keys)


def _with_parameters(model: str, kind: Callable[..., Any], keys: Mapping[str, Any]) -> Any:
    """Return a model, or a centre of one: numbers, and where it reads a column or a word, text."""
    known = {each.name: each.default is MISSING for each in fields(kind) if each.name != "name"}  # pyright: ignore[reportArgumentType]
    reported = ", ".join(name + (" (needed)" if needed else "") for name, needed in known.items())
    if model == "queueing":
        reported = f"centres (needed; as text {'=…, '.join(CENTRES)}=…), rate, method"
    for key, value in keys.items():
        if key not in known:
            raise UnknownKey(
                f"contention {model} has no {key!r}", field="contention", value=key, bound=reported,
                hint=f"it has {reported}",
            )  # fmt: skip
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if key != "centres" and not number and not (isinstance(value, str) and key in MAY_BE_TEXT):
            also = ", or the name of a column that has one a task" if key in MAY_BE_TEXT else ""
            raise InvalidValue(f"contention.{key}", value, f"a finite number{also}")
    for name, needed in known.items():
        if needed and name not in keys:
            raise InvalidValue(f"contention.{name}", None, f"given for {model}", f"it has {reported}")
    return kind(**keys)


def contention_of_text(text: str) -> list[dict[str, Any]]:
    """Return the plain values of ``MODEL:key=value,key=value+MODEL:…``, as `advisor simulate --contention` has them.

    Centres of a queueing network are ``queue=DEMAND`` and ``delay=DEMAND``, any number of them.
    """
    models: list[dict[str, Any]] = []
    for part in JOINT.split(text):
        model, _, rest = part.strip().partition(":")
        entry: dict[str, Any] = {"model": model.strip().lower()}
        for pair in filter(None, rest.split(",")):
            key, sign, value = (piece.strip() for piece in pair.partition("="))
            if not (key and sign and value):
                raise InvalidValue("contention", pair.strip(), "key=value")
            if entry["model"] == "queueing" and key in CENTRES:
                entry.setdefault("centres", []).append({"demand": _value(value), "kind": key})
            elif key in entry:
                raise InvalidValue(f"contention.{key}", value, "given once")
            else:
                entry[key] = _value(value)
        models.append(entry)
    return models


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
