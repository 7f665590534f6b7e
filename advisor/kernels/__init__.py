"""Kernels: loops written once in plain Python, interpreted until they are compiled, equal to the bit either way.

A source is a set of plain functions over numpy arrays and scalars::

    KERNELS = kernels.Source(__name__, (fold, predict), examples)

    KERNELS.fold(table, slot, x, p, t)

`KERNELS.fold` is an attribute that is bound anew: at first to the function itself, counted, later to numba's dispatcher of the
same code. Fetch it at each call; a reference kept from before works too, some 100 ns slower. ``examples()`` yields ``(name,
arguments)`` for each combination of types that an entry is called with: it tells the compiler the types, and nothing is run.

What a kernel may do
    Call functions of ours by their bare name (they are found, and compiled with it) and what numba knows of numpy and math; use
    numbers, strings, tuples, arrays and enumerations of its module as constants: they are frozen. Arguments go by position and
    are numbers, arrays or tuples of them. An entry writes into arrays that it is given; it returns numbers or tuples of
    numbers, no array.
What keeps the bytes the same
    No ``**``, no ``np.sum``, ``np.dot`` or other reduction (the order differs); whole numbers within 63 bits; no division by
    zero and no `math` call outside its domain, where the interpreter raises and compiled code gives inf or nan (``math.exp``
    overflows above 709). The law is `both_ways` in tests/support/kernel_laws.py.
When it is compiled
    Never in the process that answers. After `patience` interpreted calls (calls are counted, time is not) a thread looks into
    the cache; where the kernels are missing it starts ``python -m advisor.kernels MODULE``, one on a machine at a time, waits,
    then imports numba and loads them. Short processes never pay for numba. `load_filled` loads at once what is in the cache.
Where
    ``$ADVISOR_KERNELS_DIR``, else beside this package where that can be written, else ``$XDG_CACHE_HOME/advisor``. A folder
    that is filled may be read-only. Its name has a fingerprint of all code and constants that are compiled, the versions of
    Python, numba and llvmlite, and the processor: nothing stale is ever loaded.
``ADVISOR_KERNELS``
    ``interpreted``: never anything else. ``compiled``: from the first call on, compiled in this process where the cache lacks
    it, for tests; a call with types that no example has raises TypeError, where otherwise it is interpreted and counted.
"""

from __future__ import annotations

from advisor.kernels.source import Mode, Source, can_compile, load_filled, sources, start, states, stay_interpreted

__all__ = ["Mode", "Source", "can_compile", "load_filled", "sources", "start", "states", "stay_interpreted"]
