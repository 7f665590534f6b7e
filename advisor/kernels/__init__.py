"""Kernels: loops written once in plain Python, compiled when the package is built, equal to the bit compiled and interpreted.

A source is a set of plain functions over numpy arrays and scalars::

    KERNELS = kernels.Source(__name__, (fold, predict), examples)

    KERNELS.fold(table, slot, x, p, t)

`KERNELS.fold` is an attribute: the machine code where a library has it, else the function itself, counted, until it is
compiled. Fetch it at each call; a reference kept from before works too, some 100 ns slower. ``examples()`` yields ``(name,
arguments)`` once for each entry, with the types that it is called with: it gives the compiler the types, and nothing is
run.

What a kernel may do
    Call functions of ours by their bare name (they are found, and compiled with it) and what numba knows of numpy and math; use
    numbers, strings, tuples, arrays and enumerations of its module as constants: they are frozen. Arguments go by position and
    are numbers, arrays or tuples of them. An entry writes into arrays that it is given; it returns numbers or a tuple of
    numbers, no array. A kernel may allocate arrays, but no list, set or text, and assigns no slice of two dimensions: these
    call Python.
What keeps the bytes the same
    No ``**``, no ``np.sum``, ``np.dot`` or other reduction (the order differs); whole numbers within 63 bits; no division by
    zero and no `math` call outside its domain, where the interpreter raises and compiled code gives inf or nan (``math.exp``
    overflows above 709). The law is `both_ways` in tests/support/kernel_laws.py.
When it is compiled
    When the package is built: `emitting` makes one library of each source, linked by ``$CC``, ``cc`` or the package `ziglang`.
    A wheel has the libraries; an editable installation has them beside the sources, under names with a fingerprint of all
    code and constants that are compiled. So an edited kernel has no library until ``python -m advisor.kernels`` builds it.
    A library loads in a millisecond, where its source is imported, and needs no numba.
Where there is no library
    The entries are interpreted, and calls are counted (time is not). After `patience` of them a thread starts ``python -m
    advisor.kernels MODULE``, waits, and loads the library that it built. Nothing is compiled in the process that answers, and
    without numba and a C compiler nothing is compiled at all.
Where it is written
    ``$ADVISOR_KERNELS_DIR``, else beside this package where that can be written, else ``$XDG_CACHE_HOME/advisor``. A folder or
    file that others may write, or that belongs to another user, is not read: what lies there is run.
``ADVISOR_KERNELS``
    ``interpreted``: never anything else. ``compiled``: from the first call on, and compiled by a child where it was not, for
    tests; a call with types that no example has raises TypeError, where otherwise it is interpreted and counted.
"""

from __future__ import annotations

from advisor.kernels.reading import prefetch
from advisor.kernels.source import Mode, Source, can_compile, load_filled, sources, start, states, stay_interpreted

__all__ = ["Mode", "Source", "can_compile", "load_filled", "prefetch", "sources", "start", "states", "stay_interpreted"]
