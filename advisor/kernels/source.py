"""A source of kernels, and how it becomes compiled: from a library at once, else by a child process after counted calls.

What compiles is imported where it is needed: most processes have a library and need no more.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, cast

import numpy as np

from advisor.kernels import cache, reading

Mode = Literal["auto", "interpreted", "compiled"]
MODES: tuple[Mode, ...] = ("auto", "interpreted", "compiled")
# Interpreted calls before a child compiles, for up to a minute: a process that asks a few questions shall not pay for it.
PATIENCE = 64
NICENESS = 10  # of the child: whoever serves goes first
# LIBRARIES_LOAD: Python's stable ABI is that of CPython with its lock, and slots of a library have 64 bits
LIBRARIES_LOAD = sys.implementation.name == "cpython" and "t" not in sys.abiflags and sys.maxsize > 2**32


def mode_reported() -> Mode:
    """Return what ``ADVISOR_KERNELS`` says, ``auto`` where it says nothing; raises ValueError for an unknown word."""
    reported = os.environ.get("ADVISOR_KERNELS") or "auto"
    if reported not in MODES:
        raise ValueError(f"ADVISOR_KERNELS is {reported!r}: say one of {', '.join(MODES)}")
    return reported


class Source:
    """Kernels that are compiled together; see `advisor.kernels`. Its entries are attributes, called by position.

    Parameters
    ----------
    module : str
        ``__name__`` of the module that makes it at its top level, by which the child that compiles finds it.
    entries : tuple of functions
        What is called from outside; what these call is found.
    examples : function
        Returns pairs (name of an entry, arguments), one for each entry: they have the types that it is called with.
    inline : bool
        Make one function of an entry and all that it calls: for kernels of many small functions called for each
        row.
    patience : int
        Interpreted calls before a child process is asked to compile, where there is no library.

    Attributes
    ----------
    ready : bool
        The entries are compiled.
    reason : str
        Why they are interpreted for good, where they are.
    strangers : int
        Calls of compiled entries with types that no example has: they were interpreted.
    """

    def __init__(
        self,
        module: str,
        entries: Sequence[Any],
        examples: Callable[[], Iterable[tuple[str, Sequence[Any]]]],
        *,
        inline: bool = False,
        patience: int = PATIENCE,
    ) -> None:
        self.module, self.examples = module, examples
        # the entries as they are written, always interpreted and not counted
        self.plain: dict[str, FunctionType] = {each.__name__: each for each in entries}
        # the entries as they are bound now; each is an attribute as well
        self.entries: dict[str, Callable[..., Any]] = {}
        self.ready, self.reason, self.strangers = False, "", 0
        self._inline, self._patience = inline, patience
        self._left = patience
        self._mode: Mode = "auto"
        self._compiled: dict[str, Callable[..., Any]] = {}  # once they are loaded
        _SOURCES[module] = self
        self.use(mode_reported())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"source {self.module} has no entry {name!r}: it has {', '.join(self.plain)}")

    def use(self, mode: Mode) -> None:
        """Go on in a mode, whatever the environment says. For tests."""
        self.ready, self._mode, self._left = False, mode, self._patience
        if mode == "interpreted":
            self._bind(self.plain)
        elif not self.load():
            self._bind({name: self._counted(name) for name in self.plain})

    def count(self, calls: int = 1) -> None:
        """Count interpreted calls or rows, for a caller that uses the plain entries itself; `ready` may be True afterwards."""
        if self.ready or self._mode == "interpreted":
            return
        if self._mode == "compiled":
            if not self.make():
                raise RuntimeError(f"ADVISOR_KERNELS is compiled, but {self.module} is not: {self.reason}")
            return
        self._left -= calls
        if self._left < 0:
            self._left = sys.maxsize
            _make_beside([self])

    def load(self) -> bool:
        """Bind the entries of the library, where there is one: a millisecond. Where it cannot be loaded, `reason` says why."""
        path = None if self._compiled else self.library()
        if path is not None:
            try:
                self._compiled = _entries_of(path, self.module, {name: self._stranger(name) for name in self.plain})
            except Exception as error:  # damaged, or of another system or processor
                self.reason = f"{path.name}: {type(error).__name__}: {error}"
                cache.discard(path)
        if self._compiled:
            self._bind(self._compiled)
            self.ready, self.reason = True, ""
        return self.ready

    def make(self) -> bool:
        """Load, once a child has built the library where there is none; False, with `reason` set, where that cannot be."""
        with _making:
            if self.ready or self.load():
                return True
            self.reason = _compile_in_child(self)
            return bool(not self.reason and self.load()) or self.stay(self.reason)

    def fill(self) -> None:
        """Build the library where there is none, for a child. Raises what the compiler raises, and keeps why."""
        root = cache.writable_root()
        if root is None:
            raise OSError("no folder for compiled kernels can be written: set ADVISOR_KERNELS_DIR to one of your own")
        with cache.only_one(root, self.module):
            if self.library() is not None:
                return
            from advisor.kernels import emitting

            path = root / self.library_name
            try:
                emitting.write_library(path, [*self.plain.values()], self.examples(), inline=self._inline)
                _entries_of(path, self.module, self.plain)  # it can be loaded
            except Exception as error:
                path.unlink(missing_ok=True)
                path.with_suffix(f".{cache.FAILED}").write_text(f"{type(error).__name__}: {error}")
                raise
            cache.remove_others(path)

    @property
    def functions(self) -> list[FunctionType]:
        """All functions that are compiled."""
        return reading.in_order(self.plain.values())

    @cached_property
    def _text(self) -> bytes:
        """All that is compiled, and the types for which it is."""
        functions = [*self.functions, cast("FunctionType", self.examples)]
        return reading.text_of(functions) + repr(self._inline).encode()

    @cached_property
    def library_name(self) -> str:
        """Name of the library that is built from these kernels here."""
        return cache.library_name(self.module, self._text)

    def library(self) -> Path | None:
        """Return the library of these kernels; None where there is none."""
        if not LIBRARIES_LOAD:
            return None
        return cache.shipped_library(self.module) or cache.find_library(self.library_name)

    def begin_again(self) -> None:
        """Count calls anew, in a forked process."""
        if not (self.ready or self.reason):
            self._left = self._patience

    def _bind(self, entries: Mapping[str, Callable[..., Any]]) -> None:
        self.entries = dict(entries)
        self.__dict__.update(entries)

    def stay(self, reason: str) -> bool:
        """Be interpreted from now on, for a reason; return False."""
        self.reason = reason
        self._bind(self.plain)
        return False

    def _counted(self, name: str) -> Callable[..., Any]:
        function = self.plain[name]

        def counted(*given: Any) -> Any:
            self.count()  # nothing where it is ready, and this a reference from before
            return self.entries[name](*given) if self.ready else function(*given)

        return counted

    def _stranger(self, name: str) -> Callable[..., Any]:
        """Return what is called with types that have no example."""

        def stranger(*given: Any) -> Any:
            if self._mode == "compiled":
                kinds = ", ".join(_kind(each) for each in given)
                raise TypeError(
                    f"no example of {self.module} calls {name} with ({kinds}): add one, or pass other types"
                )
            self.strangers += 1
            return self.plain[name](*given)

        return stranger


def _entries_of(path: Path, module: str, others: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return the compiled entries of a library; `others` are called with other types. Raises ImportError, OSError."""
    name = f"{module}.kernels"
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    made = module_from_spec(spec)
    loader.exec_module(made)
    probe = np.zeros((2, 3))
    if made.extent(probe) != (probe.ctypes.data, 2, 3, True):
        raise ImportError("this numpy has another layout of arrays")
    made.set_otherwise(others)
    return {each: getattr(made, each) for each in others}


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_kind(each) for each in cast('tuple[Any, ...]', value))})"
    flags: Any = getattr(value, "flags", None)
    if flags is None:
        return type(value).__name__
    notes = ["" if flags.c_contiguous else " strided", "" if flags.writeable else " read-only"]
    return f"{value.dtype}[{value.ndim}d{''.join(notes)}]"


_SOURCES: dict[str, Source] = {}
_making = threading.RLock()  # one thread of a process compiles and loads


def _make_beside(wanted: Sequence[Source], reported: Callable[[Source], None] | None = None) -> None:
    """Have sources compiled and loaded, beside whoever calls; returns at once. `reported` hears of each that is done."""

    def make_each() -> None:
        for source in sorted(wanted, key=lambda each: each.library() is None):
            try:
                source.make()
            except Exception as error:  # a full disk, no more processes: the source runs as it is
                source.stay(f"{type(error).__name__}: {error}")
            if reported is not None:
                reported(source)

    try:
        threading.Thread(target=make_each, name="advisor-kernels", daemon=True).start()
    except RuntimeError as error:  # a limit of the system, or the process is about to end
        for source in wanted:
            source.stay(f"RuntimeError: {error}")


def _begin_again() -> None:
    """Forget, in a forked process, the thread that makes: it has none."""
    globals()["_making"] = threading.RLock()
    for source in sources():
        source.begin_again()


os.register_at_fork(after_in_child=_begin_again)


def _has_python() -> bool:
    """Return whether `sys.executable` is an interpreter, and not a program with Python within."""
    return "python" in os.path.basename(sys.executable or "").lower() and not getattr(sys, "frozen", False)


def _compile_in_child(source: Source) -> str:
    """Have a child build the library of a source, and wait; return why it cannot, empty where it has.

    The child needs nothing of this process, and ends by itself if this one ends first.
    """
    if not can_compile():
        return "numba, or a C compiler (cc, $CC, or the package ziglang), is not installed"
    root = cache.writable_root()
    if root is None:
        return "no folder for compiled code can be written by you alone"
    if not _has_python():
        return "this program is no Python that could compile beside it"
    reason = cache.failure(root / source.library_name)
    if not reason:
        import subprocess

        path = os.pathsep.join(each for each in sys.path if each)
        command = [sys.executable, "-P", "-m", "advisor.kernels", source.module]
        environment = os.environ | {"ADVISOR_KERNELS": "interpreted", "PYTHONPATH": path}
        subprocess.run(  # noqa: S603 - this interpreter, and names of our own modules
            command, env=environment, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        reason = cache.failure(root / source.library_name) or "the process that compiles has ended early"
    return "" if source.library() else reason


def can_compile() -> bool:
    """Return whether numba is there for this Python, and a C compiler."""
    return find_spec("numba") is not None and bool(cache.linker())


def sources() -> list[Source]:
    """Return the sources of the modules that are imported."""
    return list(_SOURCES.values())


def start(reported: Callable[[Source], None] | None = None) -> None:
    """Have all sources compiled and loaded, beside whoever calls; returns at once.

    `reported` is called, in another thread, with each source that became compiled or stays interpreted for a `reason`.
    """
    if mode_reported() == "auto":
        waiting = [source for source in sources() if not source.ready]
        _make_beside(sorted(waiting, key=lambda source: source.module), reported)  # those of models, for rows, first


def stay_interpreted() -> None:
    """Compile nothing from now on, in this process and in those that it starts."""
    os.environ["ADVISOR_KERNELS"] = "interpreted"
    for source in sources():
        source.use("interpreted")


def states() -> dict[str, str]:
    """Return how each source runs: ``compiled``, ``interpreted``, or ``interpreted: `` and why it stays so."""
    words: dict[str, str] = {}
    for source in sources():
        why = f": {source.reason}" if source.reason else ""
        words[source.module] = "compiled" if source.ready else f"interpreted{why}"
    return words


def load_filled() -> bool:
    """Load all sources that are compiled, now; return whether none is left to be compiled.

    Where ``ADVISOR_KERNELS`` is ``compiled``, the others are compiled now as well.
    """
    mode = mode_reported()
    load = Source.make if mode == "compiled" else Source.load
    missing = [source for source in sources() if not (mode == "interpreted" or source.ready or load(source))]
    return not missing or not can_compile()
