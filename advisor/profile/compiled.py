"""The fold of events, compiled with numba (the extra ``fast``): the same source as plain Python runs, so the same numbers.

Optional. A kernel's code is taken as it stands and given a namespace in which the kernels that it calls are the compiled ones.
All is inlined into one function, and the arrays are taken from their owners first: counting references of eleven arrays at
every call took three quarters of the time.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportPrivateUsage=false, reportCallIssue=false

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any
from zlib import crc32

from numba import njit  # type: ignore[import-not-found]
from numba.extending import intrinsic  # type: ignore[import-not-found]

from advisor.profile import events, layout, regions, stacks, tables, tasks

MODULES = (tables, stacks, tasks, regions, events)  # those that call come after those that are called


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    found = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType)}
    return {name: function for name, function in found.items() if function.__module__ == module.__name__}


def _fingerprint() -> str:
    """Return a number of all that is compiled: numba's cache on disk sees only when a kernel's own file changes."""
    told: list[Any] = []
    for module in (layout, *MODULES):
        told += sorted((name, value) for name, value in vars(module).items() if type(value) in (int, float))
        told += sorted((name, repr(value)) for name, value in vars(module).items() if name.endswith("_LABELS"))
        for name, function in _functions(module).items():
            code = function.__code__
            told.append((name, code.co_code, code.co_names, code.co_varnames, repr(code.co_consts)))
    return f"{crc32(repr(told).encode()):08x}"


FINGERPRINT = _fingerprint()


def _named(function: Any, namespace: dict[str, Any]) -> Any:
    """Return a copy of a function in another namespace, under a name that no other state of the source has."""
    copy = FunctionType(function.__code__, namespace, function.__name__)
    copy.__module__ = function.__module__
    copy.__qualname__ = f"{function.__name__}_{FINGERPRINT}"
    return copy


def _compiled() -> dict[str, Any]:
    kernels: dict[str, Any] = {}
    for module in MODULES:
        namespace = dict(vars(module)) | kernels
        for name, function in _functions(module).items():
            # error_model: divisions as numpy's. No fastmath: sums keep their order and rounding.
            inlined = njit(cache=True, error_model="numpy", nogil=True, forceinline=True)
            kernels[name] = namespace[name] = inlined(_named(function, namespace))
    return kernels


_KERNELS = _compiled()
_fold_all = _KERNELS["fold_events"]


@intrinsic
def _bare(_: Any, array: Any) -> Any:
    """The same array without its owner: LLVM then sees that there is nothing to count references of."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder, arguments[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), generate


def _fold_bare(s, columns, sizes, values, value_name, given, metrics_an_event, refused, out, out_sizes):
    bare = (
        _bare(s[0]), _bare(s[1]), _bare(s[2]), _bare(s[3]), _bare(s[4]), _bare(s[5]), _bare(s[6]), _bare(s[7]), _bare(s[8]),
        _bare(s[9]), _bare(s[10]),
    )  # fmt: skip
    read = (
        _bare(columns[0]), _bare(columns[1]), _bare(columns[2]), _bare(columns[3]), _bare(columns[4]), _bare(columns[5]),
        _bare(columns[6]),
    )  # fmt: skip
    _fold_all(
        bare, read, _bare(sizes), _bare(values), value_name, _bare(given), metrics_an_event, _bare(refused), _bare(out),
        _bare(out_sizes),
    )  # fmt: skip


KERNELS = _KERNELS | {
    "fold_events": njit(cache=True, error_model="numpy", nogil=True)(_named(_fold_bare, dict(globals())))
}
