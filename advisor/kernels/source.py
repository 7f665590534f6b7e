"""A source of kernels, and how it becomes compiled: counted calls, a thread that waits for a child, one binding anew.

What finds, makes and loads machine code is imported where it is wanted: every process imports this, most of them end before.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from pathlib import Path

Mode = Literal["auto", "interpreted", "compiled"]
MODES: tuple[Mode, ...] = ("auto", "interpreted", "compiled")
# Interpreted calls before numba is looked for: it takes half a second of a processor to import, as much as some thousand
# interpreted calls of a small kernel or fifty of a large one, and a process that asks a few questions shall not pay for it.
PATIENCE = 64
# LOAD_ROWS: of one call: interpreting a quarter of a millisecond for each takes longer than loading what is compiled
LOAD_ROWS = 512
NICENESS = 10  # of the child: whoever serves goes first
EXIT_WAIT_S = 10.0  # a process that ends waits so long, at most, for a thread that loads machine code right now


def mode_told() -> Mode:
    """Return what ``ADVISOR_KERNELS`` says, ``auto`` where it says nothing; raises ValueError for an unknown word."""
    told = os.environ.get("ADVISOR_KERNELS") or "auto"
    if told not in MODES:
        raise ValueError(f"ADVISOR_KERNELS is {told!r}: say one of {', '.join(MODES)}")
    return told


class Source:
    """Kernels that are compiled together; see `advisor.kernels`. Its entries are attributes, called by position.

    Parameters
    ----------
    module : str
        ``__name__`` of the module that makes it at its top level, by which the child that compiles finds it.
    entries : tuple of functions
        What is called from outside; what these call is found.
    examples : function
        Returns pairs (name of an entry, arguments), at least one for each combination of types.
    inline : bool
        Make one function of an entry and all that it calls: for kernels of many small functions called for each
        row.
    patience : int
        Interpreted calls before the compiled kernels are looked for.

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
        self._loading = threading.Lock()  # one thread loads
        self._mode: Mode = "auto"
        self._folder_name = ""
        self._compiled: dict[str, Callable[..., Any]] = {}  # once they are loaded
        _SOURCES[module] = self
        self.use(mode_told())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"source {self.module} has no entry {name!r}: it has {', '.join(self.plain)}")

    def use(self, mode: Mode) -> None:
        """Go on in a mode, whatever the environment says; ``compiled`` compiles in this process. For tests."""
        self.ready, self._mode, self._left = False, mode, self._patience
        if mode == "interpreted":
            self._bind(self.plain)
        elif self._compiled:
            self._bind(self._compiled)
            self.ready = True
        elif mode == "auto":
            self._bind({name: self._counted(name, function) for name, function in self.plain.items()})
        else:
            self._bind({name: self._loaded_first(name) for name in self.plain})

    def count(self, calls: int = 1) -> None:
        """Count interpreted calls, for a caller that chooses the plain entries by itself; `ready` may be True afterwards."""
        if self.ready or self._mode == "interpreted":
            return
        if self._mode == "compiled":
            self._load_now()
            return
        self._left -= calls
        if self._left < 0:
            self._left = sys.maxsize
            if "numba" in sys.modules and self.filled() is not None:
                self.load_once()  # some milliseconds
            else:
                _LOADER.want([self])

    def expect(self, rows: int) -> None:
        """Count the rows that one call will work on; for many, load at once where the compiled code is there."""
        if self.ready or self._mode != "auto":
            return
        if rows >= LOAD_ROWS and not self.reason and self.filled() is not None:
            self.load_once()
        else:
            self.count(rows)

    def load_once(self) -> None:
        """Load unless another thread has; wait for it where it does so now."""
        with self._loading:
            if not self.ready:
                self.load()

    def load(self, *, fill: bool = False) -> bool:
        """Bind the compiled entries, from the cache; `fill` compiles in this process what the cache lacks.

        Returns False, with `reason` set, where that cannot be. Takes half a second the first time in a process.
        """
        from advisor.kernels import cache
        from advisor.kernels.beside import beside_others

        if not can_compile():
            return self.stay("numba is not installed")
        folder = self.filled() or (cache.writable_folder(self.folder_name) if fill else None)
        if folder is None and not fill:
            return self.stay("no folder for compiled code can be written")
        try:
            if folder is not None and (folder / cache.COMPLETE).is_file():
                with beside_others():
                    made = self._made(folder, fill=False)
            elif folder is None:
                made = self._made(None, fill=True)
            else:
                with cache.only_one(folder):
                    made = self._made(folder, fill=fill)
                    cache.put(folder / cache.COMPLETE, b"")
        except Exception as error:  # whatever a compiler meets on a strange machine: the source runs as it is
            if self._mode == "compiled":
                raise
            if folder is not None:
                cache.reopen(folder)
            return self.stay(f"{type(error).__name__}: {error}")
        self._compiled = made
        self._bind(made)
        self.ready, self.reason = True, ""
        return True

    def fill(self) -> None:
        """Compile into the cache what it lacks, for the child; raises what the compiler raises, and keeps why."""
        from advisor.kernels import cache

        folder = self.filled() or cache.writable_folder(self.folder_name)
        if folder is None or (folder / cache.COMPLETE).is_file():
            return
        with cache.only_one(folder):
            if (folder / cache.COMPLETE).is_file():
                return
            try:
                self._made(folder, fill=True)
            except Exception as error:
                cache.put(folder / cache.FAILED, f"{type(error).__name__}: {error}".encode())
                raise
            cache.put(folder / cache.COMPLETE, b"")
            cache.remove_others(folder)

    @property
    def folder_name(self) -> str:
        """Name of the folder of the machine code, with the fingerprint of all that is compiled."""
        from advisor.kernels import cache, reading

        if not self._folder_name:
            text = reading.text_of(reading.in_order(self.plain.values())) + repr(self._inline).encode()
            self._folder_name = cache.folder_name(self.module, text)
        return self._folder_name

    def filled(self) -> Path | None:
        """Return the folder that has the compiled kernels; None where there is none."""
        from advisor.kernels import cache

        return cache.complete_folder(self.folder_name)

    def begin_again(self, *, for_good: bool) -> None:
        """Count anew in a forked process; `for_good`: its thread held the compiler's locks when it was forked."""
        self._loading = threading.Lock()
        if self.ready or self.reason or self._left <= self._patience:
            return
        self._left = self._patience
        if for_good:
            self.stay("forked while kernels were loaded")

    def _load_now(self) -> None:
        with _LOADER.lock:
            if not self.ready and not self.load(fill=True):
                raise RuntimeError(f"ADVISOR_KERNELS is compiled, but {self.module} is not: {self.reason}")

    def _made(self, folder: Path | None, *, fill: bool) -> dict[str, Any]:
        from advisor.kernels import compiling

        made = compiling.dispatchers(list(self.plain.values()), self.examples(), folder, fill=fill, inline=self._inline)
        for name, dispatcher in made.items():
            compiling.close(dispatcher, self._stranger(name))
        return made

    def _bind(self, entries: Mapping[str, Callable[..., Any]]) -> None:
        self.entries = dict(entries)
        self.__dict__.update(entries)

    def stay(self, reason: str) -> bool:
        """Be interpreted from now on, for a reason; return False."""
        self.reason = reason
        self._bind(self.plain)
        return False

    def _counted(self, name: str, function: FunctionType) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            if self.ready:  # a reference from before
                return self.entries[name](*given)
            self.count()
            return function(*given)

        return counted

    def _loaded_first(self, name: str) -> Callable[..., Any]:
        def loaded(*given: Any) -> Any:
            self._load_now()
            return self.entries[name](*given)

        return loaded

    def _stranger(self, name: str) -> Callable[..., Any]:
        def stranger(*given: Any) -> Any:
            if self._mode == "compiled":
                kinds = ", ".join(_kind(each) for each in given)
                raise TypeError(
                    f"no example of {self.module} calls {name} with ({kinds}): add one, or pass other types"
                )
            self.strangers += 1
            return self.plain[name]

        return stranger


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_kind(each) for each in cast('tuple[Any, ...]', value))})"
    flags: Any = getattr(value, "flags", None)
    if flags is None:
        return type(value).__name__
    notes = ["" if flags.c_contiguous else " strided", "" if flags.writeable else " read-only"]
    return f"{value.dtype}[{value.ndim}d{''.join(notes)}]"


class _Loader:
    """The one thread of a process that waits for children and loads; it ends when nothing is wanted."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.loading = False
        self._wanted: list[Source] = []
        self._told: Callable[[Source], None] | None = None
        self._thread: threading.Thread | None = None

    def want(self, wanted: Iterable[Source], told: Callable[[Source], None] | None = None) -> None:
        """Have sources compiled and loaded, beside whoever calls; returns at once. `told` hears of each that is done."""
        with self.lock:
            self._told = told or self._told
            self._wanted += [each for each in wanted if not each.ready and each not in self._wanted]
            if self._wanted and self._thread is None:
                thread = threading.Thread(target=self._run, name="advisor-kernels", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # a limit of the system, or the process is about to end
                    for each in self._wanted:
                        each.stay(f"RuntimeError: {error}")
                    self._wanted.clear()
                    return
                self._thread = thread

    def _run(self) -> None:
        while True:
            with self.lock:
                wanted = list(self._wanted)
                if not wanted:
                    self._thread = None
                    return
            source = wanted[0]
            try:
                source = next((each for each in wanted if each.filled()), source)
                self._make(source)
            except Exception as error:  # a full disk, no more processes: the source runs as it is
                source.stay(f"{type(error).__name__}: {error}")
            with self.lock:
                self._wanted = [each for each in self._wanted if each is not source]
            if self._told is not None:
                self._told(source)

    def _make(self, source: Source) -> None:
        from advisor.kernels import cache

        stay = source.stay
        if not can_compile():
            stay("numba is not installed")
            return
        if source.filled() is None:
            folder = cache.writable_folder(source.folder_name)
            if folder is None:
                stay("no folder for compiled code can be written")
                return
            if not _has_python():
                stay("this program is no Python that could compile beside it")
                return
            cache.await_others(folder)
            if source.filled() is None and not cache.failure(folder):
                _compile_in_child(source.module)
            if source.filled() is None:
                stay(cache.failure(folder) or "the process that compiles has ended early")
                return
        self.loading = True
        try:
            source.load_once()
        finally:
            self.loading = False

    def at_exit(self) -> None:
        """Let no thread load machine code while the process is taken down."""
        thread = self._thread
        with self.lock:
            self._wanted.clear()
        if thread is not None and self.loading:
            thread.join(EXIT_WAIT_S)

    def after_fork(self) -> None:
        """Begin anew in a forked process, which has none of the threads."""
        was_loading = self.loading
        self.__init__()
        for source in sources():
            source.begin_again(for_good=was_loading)


def _has_python() -> bool:
    """Return whether `sys.executable` is an interpreter, and not a program with Python within."""
    return "python" in os.path.basename(sys.executable or "").lower() and not getattr(sys, "frozen", False)


def _compile_in_child(module: str) -> None:
    """Run the child that compiles, and wait. It needs nothing of this process, and ends by itself if this one ends first."""
    import subprocess

    path = os.pathsep.join(each for each in sys.path if each)
    child = subprocess.Popen(  # noqa: S603 - this interpreter, and names of our own modules
        [sys.executable, "-P", "-m", "advisor.kernels", module],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"ADVISOR_KERNELS": "interpreted", "PYTHONPATH": path},
    )
    child.wait()


_SOURCES: dict[str, Source] = {}
_LOADER = _Loader()
atexit.register(_LOADER.at_exit)
os.register_at_fork(after_in_child=_LOADER.after_fork)


def can_compile() -> bool:
    """Return whether numba is there for this Python."""
    return find_spec("numba") is not None


def sources() -> list[Source]:
    """Return the sources of the modules that are imported."""
    return list(_SOURCES.values())


def start(told: Callable[[Source], None] | None = None) -> None:
    """Have all sources compiled and loaded, beside whoever calls; returns at once.

    `told` is called, in another thread, with each source that became compiled or stays interpreted for a `reason`.
    """
    if mode_told() == "auto":
        _LOADER.want(sources(), told)


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
    """Load all sources that are in the cache, now; return whether none is left to be compiled.

    Where ``ADVISOR_KERNELS`` is ``compiled``, what the cache lacks is compiled now as well.
    """
    mode = mode_told()
    if mode == "interpreted" or not can_compile():
        return True
    for each in sources():
        if not each.ready and (mode == "compiled" or each.filled()):
            each.load(fill=mode == "compiled")
    return all(each.ready for each in sources())
