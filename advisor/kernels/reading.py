"""What a kernel consists of: the functions it calls, in the order in which they can be compiled, and the constants they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import EnumType
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

OURS = "advisor"


def prefetch(words: Any) -> None:
    """Ask the processor for the memory of a row of words, before it is needed; interpreted, nothing happens."""


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes that code mentions, those of functions within it as well."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def used_by(function: FunctionType) -> dict[str, Any]:
    """Return the globals that a function may use, by name."""
    known = function.__globals__
    return {name: known[name] for name in sorted(set(names_in(function.__code__))) if name in known}


def is_kernel(value: Any) -> bool:
    """Return whether a global is a plain function that is compiled with what calls it: numpy's are numba's to know."""
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] != "numpy"


def in_order(entries: Iterable[FunctionType]) -> list[FunctionType]:
    """Return the entries and all plain functions that they call, those that call after those that are called.

    Raises TypeError for functions that call each other in a circle.
    """
    found: list[FunctionType] = []
    within: list[FunctionType] = []

    def visit(function: FunctionType) -> None:
        if function in found:
            return
        if function in within:
            raise TypeError(f"kernels call each other in a circle at {function.__name__}: write it as a loop")
        within.append(function)
        for value in used_by(function).values():
            if is_kernel(value) and value is not function:
                visit(value)
        within.pop()
        found.append(function)

    for entry in entries:
        visit(entry)
    return found


def compiled_form(value: Any) -> Any:
    """Return what decides how a constant is compiled, in a form whose text is the same in every process."""
    found: Any
    if isinstance(value, CodeType):
        constants = [compiled_form(each) for each in value.co_consts]
        found = (value.co_name, value.co_code, value.co_names, value.co_varnames, value.co_freevars, constants)
    elif isinstance(value, FunctionType):
        found = (value.__module__, value.__name__)
    elif isinstance(value, EnumType):
        found = [(name, each) for name, each in vars(value)["_member_map_"].items()]
    elif isinstance(value, ModuleType):
        found = (value.__name__, _constants(value) if value.__name__.partition(".")[0] == OURS else [])
    elif isinstance(value, (tuple, list)):
        found = [compiled_form(each) for each in cast("Sequence[Any]", value)]
    elif isinstance(value, (set, frozenset)):
        found = sorted(repr(compiled_form(each)) for each in cast("set[Any]", value))
    elif isinstance(value, (np.ndarray, np.generic)):
        array = cast("Any", value)
        found = (str(array.dtype), array.shape, array.tobytes())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        found = repr(value)
    else:
        found = ""  # a class, a built-in function: its name, which the code has, is all that counts
    return (type(cast("object", value)).__name__, found)


def _constants(module: ModuleType) -> list[tuple[str, Any]]:
    """Return what kernels may read of a module as ``module.NAME``."""
    kinds = (int, float, str, tuple)
    return sorted((name, compiled_form(value)) for name, value in vars(module).items() if isinstance(value, kinds))


def text_of(functions: Iterable[FunctionType]) -> bytes:
    """Return all that is compiled, as bytes to make a fingerprint of."""
    parts = [
        (
            compiled_form(each),
            compiled_form(each.__code__),
            [(k, compiled_form(v)) for k, v in used_by(each).items()],
            compiled_form(each.__defaults__),
        )
        for each in functions
    ]
    return repr(parts).encode()


__all__ = ["in_order", "is_kernel", "text_of", "used_by"]
