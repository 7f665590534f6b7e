"""Contention models as plain values and as text: the same for the wire, the command line and the caller in process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, cast

import numpy as np

from advisor.errors import InvalidValue, UnknownKey
from advisor.simulation.queueing import Centre
from advisor.simulation.systems import Bandwidth, Bus, Lock, Queueing, System

MAY_BE_TEXT = ("demand", "rate", "inv", "rwb", "cache", "kind", "method")  # names of columns, and words
CENTRES = ("queue", "delay")  # kinds that a text can give, with their demand
JOINT = re.compile(r"\+(?=\s*[A-Za-z])")  # not the + of 1e+5
MODELS: Mapping[str, Callable[..., System | Lock]] = {
    "queueing": Queueing, "bus": Bus, "bandwidth": Bandwidth, "lock": Lock,
}  # fmt: skip


def systems_of(given: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> tuple[System | None, Lock | None]:
    """Return the contention model and the lock that plain values describe.

    ``{"model": "none"}``; ``{"model": "bandwidth", "demand"}``; ``{"model": "bus", "rate", "inv", "rwb", "cache", "cycle",
    …}``; ``{"model": "queueing", "rate", "method", "centres": [{"demand", "kind", "rates"}, …]}``; ``{"model": "lock",
    "hold"}``; or a list with one model and one lock. A string for a number names a column of the graph. Raises InvalidValue,
    UnknownKey for a model or a key that is not one of these, and a key that is missing.
    """
    models = [given] if isinstance(given, Mapping) else list(given or ())
    system: System | None = None
    lock: Lock | None = None
    for entry in models:
        made = _made(dict(entry))
        if made is None:
            continue
        if isinstance(made, Lock):
            if lock is not None:
                raise InvalidValue("contention", "two locks", "one lock at most")
            lock = made
        elif system is not None:
            raise InvalidValue("contention", "two models", "one model and one lock at most")
        else:
            system = made
    return system, lock


def _made(keys: dict[str, Any]) -> System | Lock | None:
    model = keys.pop("model", None)
    if model == "none":
        if keys:
            raise UnknownKey(
                f"contention none has no {min(keys)!r}", field="contention", value=min(keys), bound="nothing"
            )
        return None
    if model not in MODELS:
        raise InvalidValue("contention.model", model, f"one of none, {', '.join(MODELS)}")
    kind = MODELS[model]
    _check_keys(model, kind, keys)
    if model == "queueing":
        centres = [_centre(centre) for centre in _listed(keys.pop("centres"))]
        return Queueing(centres, **_parameters(keys))
    return kind(**_parameters(keys))


def _check_keys(model: str, kind: Any, keys: Mapping[str, Any]) -> None:
    """Refuse a key that the model does not have, and the want of one that it needs."""
    known = {each.name: each.default is MISSING for each in fields(kind) if each.name != "name"}
    reported = ", ".join(name + (" (needed)" if needed else "") for name, needed in known.items())
    if model == "queueing":
        reported = f"centres (needed; as text {'=…, '.join(CENTRES)}=…), rate, method"
    for key in keys:
        if key not in known:
            raise UnknownKey(
                f"contention {model} has no {key!r}",
                field="contention",
                value=key,
                bound=reported,
                hint=f"it has {reported}",
            )
    for name, needed in known.items():
        if needed and name not in keys:
            raise InvalidValue(f"contention.{name}", None, f"given for {model}", f"it has {reported}")


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


def _value(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parameters(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's parameters: numbers, and where the model reads a column or a word, text."""
    for key, value in keys.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)
        if not number and not (isinstance(value, str) and key in MAY_BE_TEXT):
            reported = (
                "a finite number, or the name of a column that has one a task"
                if key in MAY_BE_TEXT
                else "a finite number"
            )
            raise InvalidValue(f"contention.{key}", value, reported)
    return dict(keys)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidValue("contention.centres", value, "a list of maps with demand and kind")
    return list(cast("Sequence[Any]", value))


def _centre(centre: Any) -> Centre:
    if not isinstance(centre, Mapping):
        raise InvalidValue("contention.centres", centre, "maps with demand and kind")
    keys = dict(cast("Mapping[str, Any]", centre))
    unknown = sorted(str(key) for key in keys if key not in ("demand", "kind", "rates"))
    if unknown or "demand" not in keys:
        raise InvalidValue("contention.centres", unknown[0] if unknown else None, "maps of demand, kind and rates")
    rates = tuple(_listed(keys.pop("rates", [])))
    for rate in rates:
        _parameters({"rates": rate})
    return Centre(**_parameters(keys), rates=rates)
