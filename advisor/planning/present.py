"""What a runtime gives its components now, as a caller names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from advisor.domain.fields import record, shape_of
from advisor.domain.plan_options import Count, Instances
from advisor.domain.shapes import plain
from advisor.domain.vectors import Ints
from advisor.errors import InvalidValue
from advisor.planning.by_key import pin_of

IN_USE_PARTS = ("cores", "instances", "groups")  # of an answer
IN_USE = shape_of(record(
    cores=Mapping[str, Count], instances=Mapping[str, Instances], groups=list[record(cores=Count, components=list[str])],
))  # fmt: skip
# (n,) each: cores of an instance, instances, and where components take turns the group of each and its cores, else None.
InUse = tuple[Ints, Ints, Ints | None, Ints | None]


def in_use_of(field: str, value: Any, keys: Sequence[str]) -> InUse:
    """Return what a caller names: an answer, or key -> cores or ``{"cores": p, "instances": k}``.

    Raises InvalidValue when a key is missing or unknown, or its value is none of these.
    """
    given: Any = plain(value)
    if not isinstance(given, dict):
        raise InvalidValue(field, value, "an answer, or a map by key of the network")
    parts, groups = cast("dict[str, Any]", given), list[dict[str, Any]]()
    if "cores" in parts and not parts.keys() <= set(keys):
        answer = IN_USE.check_value(field, {name: parts[name] for name in IN_USE_PARTS if parts.get(name)})
        groups, many = answer.get("groups", []), answer.get("instances", {})
        parts = {key: {"cores": p, "instances": many.get(key, 1)} for key, p in answer["cores"].items()}
    unknown = next((key for key in parts if key not in set(keys)), None)
    if unknown is not None:
        raise InvalidValue(field, unknown, f"a key of the network: {', '.join(keys[:8])}")
    missing = next((key for key in keys if key not in parts), None)
    if missing is not None:
        raise InvalidValue(field, missing, "every key of the network", "leave it out where nothing is in use")
    number = {key: order for order, group in enumerate(groups) for key in group["components"]}
    if groups and sorted(key for group in groups for key in group["components"]) != sorted(keys):
        raise InvalidValue(f"{field}.groups", groups, "maps of cores and components, each key in one")
    pins = [pin_of(f"{field}.{key}", as_map(parts[key])) for key in keys]
    without = next((key for key, (cores, _) in zip(keys, pins, strict=True) if cores is None), None)
    if without is not None:
        raise InvalidValue(f"{field}.{without}", parts[without], "a number of cores, or a map of cores and instances")
    cores, instances = (np.array([pin[part] or 1 for pin in pins], np.int64) for part in (0, 1))
    if not groups:
        return cores, instances, None, None
    group = np.array([number[key] for key in keys], np.int64)
    return cores, instances, group, np.array([part["cores"] for part in groups], np.int64)[group]


def as_map(value: Any) -> Any:
    """Return what a key has as a map: a number is one of cores."""
    return cast("Any", value) if isinstance(value, dict) else {"cores": value}
