"""What a profile says of its run as a whole, in the terms of paper 3: what `observe_run` takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.profile import layout as at
from advisor.profile.tree import Profile


def run_of(profile: Profile) -> dict[str, Any]:
    """Return workers, elapsed_s, work_s, delay_s, no_work_s, creates, waits and span_s of a profile's run.

    Overhead counts as delay, as in the paper. A worker that came late or went early had no work meanwhile. What is unaccounted
    for stays so: the parts then make up less than workers times elapsed. Where tasks came as sums the span is not known:
    None.
    """
    measures = profile.measures
    workers = max(measures.workers_max, 1)
    absent = max(workers * measures.elapsed_s - measures.workers_s, 0.0)
    waits = np.isin(profile.role, (at.TASKWAIT, at.TASKGROUP))
    return {
        "workers": workers,
        "elapsed_s": measures.elapsed_s,
        "work_s": measures.work_s,
        "delay_s": measures.delay_s + measures.overhead_s,
        "no_work_s": measures.no_work_s + absent,
        "creates": measures.creates,
        "waits": int(profile.count[waits].sum()),
        "span_s": None if measures.summed else min(measures.span_s, measures.elapsed_s),
    }
