"""Print the processor time to a verb's first compiled answer, or the digest of a state; fails where kernels are interpreted.

python .ci/first_answer.py predict|choose_cores|allocate|simulate|profile|digest
"""

from __future__ import annotations

import sys
import time
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any

MOST_S = 1.0  # of processor time, Python's start and imports included


def learned(rows: int) -> Any:
    """Return an Advisor that has learned a stream of two components."""
    from advisor import Advisor

    advisor = Advisor()
    for i in range(rows):
        x, cores = 100.0 + 37.0 * (i % 41), 1 + i % 7
        for name, scale in (("a", 1e-3), ("b", 3e-3)):
            advisor.observe(
                name, predictor=x, cores=cores, elapsed_s=scale * x * (0.1 + 0.9 / cores) * (1.0 + 0.01 * (i % 11))
            )
    return advisor


def answer(verb: str) -> None:
    """Ask a verb once."""
    if verb == "predict":
        learned(20).predict("a", predictor=300.0, cores=4)
    elif verb == "choose_cores":
        learned(20).choose_cores("a", predictor=300.0, cores_max=16)
    elif verb == "allocate":
        learned(20).allocate("net main connect a .. b;", cores=16)
    elif verb == "simulate":
        import numpy as np

        from advisor.domain.task_graphs import task_graph
        from advisor.simulation import simulate

        simulate(task_graph(np.arange(1.0, 9.0), [(0, 1), (0, 2)], unit="ns"), 2, "fifo")
    else:
        from advisor.profile.profiler import Profiler

        Profiler(compiled=True)


def main(verb: str) -> int:
    """Answer; return 1 where it took too long or a kernel is interpreted."""
    if verb == "digest":
        print(blake2b(learned(700).to_bytes(), digest_size=16).hexdigest())
        return 0
    answer(verb)
    from advisor import kernels

    seconds = time.process_time()
    states = kernels.states()
    print(f"wheel: {verb}: {seconds:.2f} s of processor time to the first answer")
    if find_spec("numba") or set(states.values()) != {"compiled"}:
        print(f"wheel: numba is there or kernels are not compiled: {states}")
        return 1
    return int(seconds > MOST_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
