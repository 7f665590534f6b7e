"""Answers as frozen values, and their shape on the wire: both follow from the types of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar, cast, get_origin, is_typeddict

import msgspec

from advisor.errors import MalformedMessage

Shape = TypeVar("Shape")
# Of numpy, which is not imported for this, of a network, and of a set of core counts.
SCALARS = frozenset((str, float, int, bool, bytes, type(None)))
PLAIN_FORMS = ("tolist", "as_nodes", "as_wire")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A frozen value that is a map on the wire. A field with its default is left out there."""

    def as_dict(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return on_wire(self)


def on_wire(answer: Any) -> Any:
    """Return the shape of answers on the wire, those within others, too."""
    return _plain_list(msgspec.to_builtins(answer, builtin_types=(bytes,), enc_hook=plain_form))


def _plain_list(value: Any) -> Any:
    """Return plain values with tuples as lists."""
    if type(value) is dict:
        return {
            key: item if type(item) in SCALARS else _plain_list(item)
            for key, item in cast("dict[Any, Any]", value).items()
        }
    return [item if type(item) in SCALARS else _plain_list(item) for item in cast("list[Any]", value)]


def plain(value: Any) -> Any:
    """Return a value as the wire has it: arrays and tuples as lists, networks as nodes, allocations as cores. Cost O(size)."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in cast("list[Any]", value)]
    form = next((name for name in PLAIN_FORMS if hasattr(value, name)), None)
    return value if form is None else getattr(value, form)()


def plain_form(value: Any) -> Any:
    """Return what an encoder has no form for as plain values; raises NotImplementedError."""
    found = plain(value)
    if found is value:
        raise NotImplementedError
    return found


def converted(shape: type[Shape], given: Any) -> Shape:
    """Return a value of a type from plain ones, without the keys that the type does not have. Raises MalformedMessage."""
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        name = getattr(shape, "__name__", str(shape))
        raise MalformedMessage(f"an answer that is no {name}: {error}", field=name) from error


def read(shape: type[Shape], given: Any) -> Shape:
    """Return an answer from its shape on the wire; a map is empty where it was lost. Raises MalformedMessage."""
    if is_typeddict(shape) or get_origin(shape) is dict:
        return cast("Any", dict(given or {}))
    return getattr(shape, "of_wire", partial(converted, shape))(given)
