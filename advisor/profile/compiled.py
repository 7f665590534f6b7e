"""The fold of events, compiled with numba (the extra ``fast``): the same source as plain Python runs, so the same numbers.

Optional. A kernel's code is taken as it stands and given a namespace in which the kernels that it calls are the compiled ones.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

from types import FunctionType
from typing import Any

from numba import njit  # type: ignore[import-not-found]

from advisor.profile import events, stacks, tables, tasks

MODULES = (tables, stacks, tasks, events)  # those that call come after those that are called


def _compiled() -> dict[str, Any]:
    kernels: dict[str, Any] = {}
    for module in MODULES:
        namespace = dict(vars(module)) | kernels
        for name, function in vars(module).items():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                copy = FunctionType(function.__code__, namespace, name)
                copy.__module__ = module.__name__
                # error_model: divisions as numpy's. No fastmath: sums keep their order and rounding.
                kernels[name] = namespace[name] = njit(cache=True, error_model="numpy", nogil=True)(copy)
    return kernels


KERNELS = _compiled()
fold_events = KERNELS["fold_events"]


def recompile() -> None:
    """Compile every kernel afresh and replace what is cached of it; callers last, since they hold what they call."""
    for kernel in KERNELS.values():
        kernel.recompile()
