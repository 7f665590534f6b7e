"""Kernels compiled by numba: the same code objects in namespaces in which the functions that they call are compiled ones.

Only imported where kernels are compiled or loaded. No fastmath: sums keep their order and rounding; divisions are numpy's.
Entries take arrays from their owners first: counting the references of arrays at every call within took three quarters of the
time of the fold of events.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportPrivateUsage=false, reportCallIssue=false

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any
from zlib import crc32

from llvmlite import binding  # type: ignore[import-not-found]
from numba import config, njit, typeof, types  # type: ignore[import-not-found]
from numba.core import compiler, serialize  # type: ignore[import-not-found]
from numba.core.codegen import AOTCodeLibrary, CPUCodeLibrary  # type: ignore[import-not-found]
from numba.core.cpu import CPUContext  # type: ignore[import-not-found]
from numba.extending import intrinsic  # type: ignore[import-not-found]

from advisor.kernels import cache, reading

Examples = Iterable[tuple[str, Sequence[Any]]]
ENTRY = "ENTRY_"  # in the name of what numba finishes


class NotFilled(Exception):
    """The cache lacks a kernel, and this process may not compile it."""


@intrinsic
def bare(_: Any, given: Any) -> Any:
    """The same value without the owners of its arrays: LLVM then sees that there is nothing to count references of."""

    def stripped(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            view = context.make_array(kind)(context, builder, value)
            view.meminfo = view.meminfo.type(None)
            view.parent = view.parent.type(None)
            return view._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts: Any = kind
            for place, each in enumerate(parts):
                part = stripped(context, builder, each, builder.extract_value(value, place))
                value = builder.insert_value(value, part, place)
        return value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return stripped(context, builder, signature.args[0], arguments[0])

    return given(given), generate


class CacheFolder:
    """What a dispatcher keeps its machine code in: a file an entry and signature, checked by its sum when it is read."""

    def __init__(self, folder: Path | None, name: str, fill: bool) -> None:
        self._folder, self._name, self._fill = folder, name, fill

    def _path(self, signature: Any, context: Any) -> Path | None:
        key = repr((tuple(map(str, signature)), context.codegen().magic_tuple()))
        return self._folder / f"{self._name}-{crc32(key.encode()):08x}" if self._folder else None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return what was compiled for a signature, None where it is to be compiled; raises NotFilled where it may not."""
        context.refresh()
        path = self._path(signature, context)
        if path is not None and path.is_file():
            data = path.read_bytes()
            if crc32(data[4:]) == int.from_bytes(data[:4], "little"):
                # The file is the user's own, in a folder that only the user (or who installed the package) writes.
                return compiler.CompileResult._rebuild(context, *pickle.loads(data[4:]))  # noqa: S301
        if not self._fill:
            raise NotFilled(self._name)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for a signature."""
        returned = result.signature.return_type
        if any(isinstance(each, types.Array) for each in (returned, *getattr(returned, "types", ()))):
            raise TypeError(f"kernel {self._name} returns an array: let it write into one that it is given")
        path = self._path(signature, result.target_context)
        if path is not None:
            (name, kind, (code, _)), *rest = result._reduce()
            data = serialize.dumps(((name, kind, (code, _names_alone(result.fndesc))), *rest))
            cache.put(path, crc32(data).to_bytes(4, "little") + data)


def _names_alone(reported: Any) -> bytes:
    """Return what stands in a file for the source form of machine code, from which other functions could be made: nothing is
    made of these, and reading it took nine tenths of the time of loading. Its names say that the code has them.
    """
    names = reported.llvm_func_name, reported.llvm_cpython_wrapper_name, reported.llvm_cfunc_wrapper_name
    return binding.parse_assembly("\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)).as_bitcode()


def _copy(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    made = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _entry(function: FunctionType, compiled: Any) -> FunctionType:
    """Return a function that strips its arguments and calls a compiled one; numba knows no variable number of arguments."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    stripped = ", ".join(f"bare({each})" for each in names)
    text = f"def {function.__name__}({', '.join(names)}):\n return inner({stripped})\n"
    namespace: dict[str, Any] = {"inner": compiled, "bare": bare, "__name__": function.__module__}
    exec(compile(text, code.co_filename, "exec"), namespace)  # noqa: S102 - names of our own functions' parameters
    made = namespace[function.__name__]
    made.__qualname__ = ENTRY + made.__name__
    return made


def compiled_parts(entries: Sequence[FunctionType], *, inline: bool) -> dict[FunctionType, Any]:
    """Return dispatchers of entries and all that they call. `inline`: make one function of each entry."""
    made: dict[FunctionType, Any] = {}
    for function in reading.in_order(entries):
        used = {k: made[v] for k, v in reading.used_by(function).items() if reading.is_kernel(v) and v in made}
        part = njit(error_model="numpy", nogil=True, **({"forceinline": True} if inline else {}))
        made[function] = part(_copy(function, function.__globals__ | used))
    return made


def dispatchers(
    entries: Sequence[FunctionType], examples: Examples, folder: Path | None, *, fill: bool, inline: bool
) -> dict[str, Any]:
    """Return numba's dispatchers of the entries by name, with code for each example.

    `folder`: where the machine code is; None: in this process only. `fill`: compile what is not there; otherwise NotFilled is
    raised.
    """
    made = compiled_parts(entries, inline=inline)
    found: dict[str, Any] = {}
    for function in entries:
        dispatcher: Any = njit(error_model="numpy", nogil=True)(_entry(function, made[function]))
        dispatcher._cache = CacheFolder(folder, function.__name__, fill)
        found[function.__name__] = dispatcher
    with side_by_side(), entries_only() if fill else nullcontext():
        for name, arguments in examples:
            found[name].compile(tuple(typeof(each) for each in arguments))
    return found


@contextmanager
def entries_only() -> Generator[None]:
    """Let numba link, optimise and make machine code of entries alone.

    It does so for each inner function too, which takes as long again and is never called. Here an inner function keeps its
    plain form, and an entry links all that it reaches, once.
    """
    library_class: Any = CPUCodeLibrary
    context_class: Any = CPUContext
    finalize, get_executable = library_class.finalize, context_class.get_executable

    def is_finished(library: Any) -> bool:
        return ENTRY in library.name or "nrt" in library.name.lower() or isinstance(library, AOTCodeLibrary)

    def finalize_entry(library: Any) -> None:
        reached: list[Any] = []
        wanted = list(library._linking_libraries)
        if not is_finished(library):
            for each in wanted:
                library._reload_init.update(each._reload_init)
            library._finalize_dynamic_globals()
            library._final_module._CPUCodeLibrary__library = None
            library._finalized = library._plain = True
            return
        while wanted:
            each = wanted.pop(0)
            if each not in reached:
                reached.append(each)
                wanted += each._linking_libraries if getattr(each, "_plain", False) else []
        library._linking_libraries = reached
        finalize(library)

    def executable_entry(context: Any, library: Any, reported: Any, environment: Any) -> Any:
        if is_finished(library):
            return get_executable(context, library, reported, environment)
        library._ensure_finalized()
        return list[Any]().append  # stands for a function that is never called

    library_class.finalize, context_class.get_executable = finalize_entry, executable_entry
    try:
        yield
    finally:
        library_class.finalize, context_class.get_executable = finalize, get_executable


@contextmanager
def side_by_side() -> Generator[None]:
    """Let LLVM make one vector instruction of like operations written side by side: the same rounding, a third of the time."""
    settings: Any = config
    before, settings.SLP_VECTORIZE = settings.SLP_VECTORIZE, 1
    try:
        yield
    finally:
        settings.SLP_VECTORIZE = before


def close(dispatcher: Any, otherwise: Callable[..., Any]) -> None:
    """Let a dispatcher compile no more: with types that have no code it calls `otherwise`."""

    def compile_for_args(*_: Any) -> Callable[..., Any]:
        return otherwise

    dispatcher._compile_for_args = compile_for_args
