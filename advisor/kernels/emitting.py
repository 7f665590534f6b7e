"""Kernels as a library that needs no numba to run: one object of all entries of a source, linked with `binding.c`.

Compiled are the same code objects, in namespaces in which the functions that they call are compiled ones. No fastmath: sums
keep their order and rounding; divisions are numpy's. Only imported in a process that compiles. The functions of numba that
are used are in `numba.core`, private but not deprecated: what numba offers for this, `numba.pycc`, is pending deprecation.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingImports=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportPrivateImportUsage=false, reportPrivateUsage=false, reportCallIssue=false

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

from llvmlite import ir  # type: ignore[import-not-found]
from numba import config, njit, typeof  # type: ignore[import-not-found]
from numba import types as numba_types  # type: ignore[import-not-found]
from numba.core import cgutils  # type: ignore[import-not-found]
from numba.core.codegen import AOTCodeLibrary, CPUCodeLibrary  # type: ignore[import-not-found]
from numba.core.compiler import Flags, compile_extra  # type: ignore[import-not-found]
from numba.core.compiler_lock import global_compiler_lock  # type: ignore[import-not-found]
from numba.core.cpu import CPUContext  # type: ignore[import-not-found]
from numba.core.registry import cpu_target  # type: ignore[import-not-found]
from numba.core.runtime import nrtdynmod  # type: ignore[import-not-found]
from numba.extending import intrinsic  # type: ignore[import-not-found]
from numba.np.arrayobj import populate_array  # type: ignore[import-not-found]

from advisor.kernels import reading
from advisor.kernels.cache import BINDING, linker

Examples = Iterable[tuple[str, Sequence[Any]]]
BASELINE = {"x86_64": "x86-64-v2", "AMD64": "x86-64-v2"}  # processors since 2009; elsewhere what every processor has
types: Any = numba_types
LETTERS = {types.float64: "d", types.int64: "l", types.boolean: "b"}
SLOTS_MAX = 256  # arguments of one entry once arrays are taken apart: SLOTS of binding.c
WORD = ir.IntType(64)
LINE, NEAREST = 64, 3  # bytes of a line of memory; into the nearest cache
ALLOCATING = frozenset(("empty", "zeros", "ones", "full", "arange", "copy"))
LINK = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared", "-s"]


def write_library(path: Path, entries: Sequence[FunctionType], examples: Examples, *, inline: bool) -> None:
    """Compile entries and link them into an extension module at a path. Takes up to a minute of a processor.

    Raises TypeError for a kernel that allocates or calls Python, OSError where the linker fails.
    """
    compiler = linker()
    with global_compiler_lock, side_by_side(), entries_only():
        emitted, table = _emit(entries, dict(examples), inline=inline)
    with TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "kernels.o").write_bytes(emitted)
        source = BINDING.read_text().replace("static Kernel kernels[]; /* TABLE */", table)
        (work / "kernels.c").write_text(source)
        flags = ["-O2", "-fPIC", "-fvisibility=hidden", *LINK]
        command = [*compiler, *flags, "-o", str(work / "made"), "kernels.c", "kernels.o", "-lm"]
        made = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)  # noqa: S603 - a compiler on our own files
        if made.returncode:
            raise OSError(f"{shlex.join(command)} failed: {made.stderr.strip()}")
        part = path.with_name(f"{path.name}.{os.getpid()}")
        shutil.copyfile(work / "made", part)
        part.replace(path)


def _emit(entries: Sequence[FunctionType], examples: dict[str, Sequence[Any]], *, inline: bool) -> tuple[bytes, str]:
    """Return the object of the entries, and the table of them in C."""
    target: Any = cpu_target.target_context
    context = target.with_aot_codegen("kernels", cpu_name=BASELINE.get(platform.machine(), ""))
    library = context.codegen().create_library("kernels")
    flags: Any = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    library.add_ir_module(nrtdynmod.create_nrt_module(context)[0])  # counts references to arrays that kernels allocate
    parts = compiled_parts(entries, inline=inline)
    table: list[str] = []
    for function in entries:
        arguments = tuple(typeof(each) for each in examples[function.__name__])
        flags.nrt = allocates(function)
        made = compile_extra(
            cpu_target.typing_context, context, parts[function].py_func, arguments, None, flags, {}, library=library
        )
        table.append(_add_call(context, library, function.__name__, made.fndesc, made.signature))
    refuse_made_arrays(parts)
    library.finalize()
    offered = BINDING.read_text()
    for each in library._final_module.functions:
        if each.is_declaration and each.name.startswith(FOREIGN) and each.name not in offered:
            raise TypeError(f"kernels need {each.name}: let them make no list, set or text and call nothing of Python")
        if not each.is_declaration and each.linkage.name not in ("private", "internal"):
            each.visibility = "hidden"
    names = "\n".join(f"int kernel_{each.__name__}(int64_t *);" for each in entries)
    return library.emit_native_object(), f"{names}\nstatic Kernel kernels[] = {{{', '.join(table)}, {{NULL}}}};"


def refuse_made_arrays(parts: dict[FunctionType, Any]) -> None:
    """Raise TypeError where a kernel that makes arrays returns one: no reference of it is counted, and it would leak."""
    for function, part in parts.items():
        if allocates(function):
            for signature in part.nopython_signatures:
                if "array(" in str(signature.return_type):
                    raise TypeError(
                        f"kernel {function.__name__} makes an array and returns one: let it fill one it is given"
                    )


FOREIGN = ("NRT_", "Py", "_Py", "numba_")  # functions of numba and Python: those that `binding.c` has are linked


def _add_call(context: Any, library: Any, name: str, reported: Any, signature: Any) -> str:
    """Add ``int kernel_NAME(int64 *slots)``, which takes arguments out of slots and puts results there; return its row."""
    module = library.create_ir_module(f"call_{name}")
    outer = ir.Function(module, ir.FunctionType(ir.IntType(32), [WORD.as_pointer()]), f"kernel_{name}")
    builder = ir.IRBuilder(outer.append_basic_block())
    slots = outer.args[0]
    used = 0

    def slot(number: int, kind: Any) -> Any:
        return builder.bitcast(builder.gep(slots, [WORD(number)]), kind.as_pointer())

    def take(kind: Any) -> Any:
        nonlocal used
        used += 1
        return builder.load(slot(used - 1, kind))

    values = [_argument(context, builder, take, kind) for kind in signature.args]
    call_conv: Any = context.call_conv
    given = call_conv.get_function_type(signature.return_type, signature.args)
    inner = ir.Function(module, given, reported.llvm_func_name)
    status, value = call_conv.call_function(builder, inner, signature.return_type, signature.args, values)
    returned = signature.return_type
    together = isinstance(returned, types.BaseTuple)
    kinds = list(returned) if together else [] if returned == types.none else [returned]
    for place, kind in enumerate(kinds):
        part: Any = builder.extract_value(value, place) if together else value
        part = builder.zext(part, WORD) if types.unliteral(kind) == types.boolean else part
        builder.store(part, slot(place, part.type))
    builder.ret(status.code)
    library.add_ir_module(module)
    if max(used, len(kinds)) > SLOTS_MAX:
        raise TypeError(f"kernel {name} takes {used} values: at most {SLOTS_MAX}")
    gives = ("T" if together else "") + "".join(_letters(types.unliteral(each)) for each in kinds)
    return f'{{"{name}", kernel_{name}, "{"".join(map(_letters, signature.args))}", "{gives}"}}'


def _argument(context: Any, builder: Any, take: Callable[[Any], Any], kind: Any) -> Any:
    """Return an argument of a kind, made of what `take` gives: a tuple's parts, an array's address and shape, or a number."""
    if isinstance(kind, types.BaseTuple):
        return context.make_tuple(builder, kind, [_argument(context, builder, take, each) for each in kind])
    if isinstance(kind, types.Array):
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        data = take(context.get_data_type(kind.dtype).as_pointer())
        shape: list[Any] = [take(WORD) for _ in range(kind.ndim)]
        strides: list[Any] = [WORD(size)]
        for extent in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], extent))
        view: Any = context.make_array(kind)(context, builder)
        populate_array(view, data=data, shape=shape, strides=strides, itemsize=WORD(size), meminfo=None)
        return view._getvalue()
    return builder.trunc(take(WORD), ir.IntType(1)) if kind == types.boolean else take(context.get_value_type(kind))


def _letters(kind: Any) -> str:
    if isinstance(kind, types.BaseTuple):
        return f"({''.join(map(_letters, kind))})"
    if (
        isinstance(kind, types.Array)
        and kind.layout == "C"
        and kind.mutable
        and kind.dtype in (types.float64, types.int64)
    ):
        return ("F" if kind.dtype == types.float64 else "L") + str(kind.ndim)
    if kind not in LETTERS:
        raise TypeError(
            f"kernels take and return floats, ints, bools, arrays of floats or ints in one piece and tuples, not {kind}"
        )
    return LETTERS[kind]


# --- what numba compiles -----------------------------------------------------------------------------------------------------


def _copy(function: FunctionType, namespace: dict[str, Any]) -> FunctionType:
    made = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def compiled_parts(entries: Sequence[FunctionType], *, inline: bool) -> dict[FunctionType, Any]:
    """Return dispatchers of entries and all that they call, each made once. `inline`: make one function of each entry."""
    made = _PARTS[inline]
    for function in reading.in_order(entries):
        if function in made:
            continue
        used = {k: made[v] for k, v in reading.used_by(function).items() if reading.is_kernel(v) and v in made}
        options = {"forceinline": inline, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        part = njit(error_model="numpy", nogil=True, _nrt=allocates(function), **options)
        made[function] = part(_copy(function, function.__globals__ | used))
        made[function].get_call_template = _of_plain_types(made[function].get_call_template)
    return made


@intrinsic
def _prefetch(_context: Any, words: Any) -> Any:
    """Ask for each line of an array in one piece; see `reading.prefetch`."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        view: Any = context.make_array(signature.args[0])(context, builder, given[0])
        address = ir.IntType(8).as_pointer()
        kinds = [address, *[ir.IntType(32)] * 3]
        asks = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0")
        data = builder.bitcast(view.data, address)
        size = builder.mul(view.nitems, view.itemsize)
        with cgutils.for_range_slice(builder, WORD(0), size, WORD(LINE), WORD) as (at, _):
            builder.call(asks, [builder.gep(data, [at]), *map(ir.IntType(32), (0, NEAREST, 1))])
        return context.get_dummy_value()

    return types.none(words), code


_PARTS: dict[bool, dict[FunctionType, Any]] = {inline: {reading.prefetch: _prefetch} for inline in (False, True)}


def _of_plain_types(template: Callable[..., Any]) -> Callable[..., Any]:
    """Return what finds the form of a function for the types of a call, without one more for each number written in calls."""

    def find_template(given: Any, named: Any) -> Any:
        return template(tuple(types.unliteral(each) for each in given), named)

    return find_template


def allocates(function: FunctionType) -> bool:
    """Return whether a function makes arrays: references are counted in these alone, and numba refuses it in all others."""
    return not ALLOCATING.isdisjoint(reading.names_in(function.__code__))


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
        return "nrt" in library.name.lower() or isinstance(library, AOTCodeLibrary)

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
