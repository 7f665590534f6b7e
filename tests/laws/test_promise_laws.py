"""Laws of promises on learned curves: more cores promise no less where all was seen, and give what fewer promise."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import Advisor, Allocation


@st.composite
def learned(draw: st.DrawFn) -> tuple[Advisor, list[str]]:
    """An engine that saw two or three components, some of which slow down with cores, and their names."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    advisor, names = Advisor(), list("abc"[: draw(st.integers(2, 3))])
    most = draw(st.sampled_from([1, 2, 4, 8, 16]))
    for name in names:
        work, serial, cost = rng.uniform(0.05, 1.0), rng.uniform(0.0, 0.5), rng.choice([0.0, 0.0, 0.02])
        for cores in rng.integers(1, most + 1, int(rng.integers(2, 60))).tolist():
            time = work * (serial + (1 - serial) / cores + cost * cores) * rng.lognormal(0.0, 0.1)
            advisor.observe(name, cores=cores, elapsed_s=float(time))
    return advisor, names


def was_seen(plan: Allocation) -> bool:
    """Return whether no component is asked beyond its counts."""
    return all(known.extrapolates == 0 for known in plan.evidence.values())


@given(learned(), st.sampled_from(["better", "never"]))
@settings(max_examples=20, deadline=None)
def test_more_cores_promise_no_less_where_all_was_seen_and_give_what_fewer_promise(
    case: tuple[Advisor, list[str]], turns: str
) -> None:
    advisor, names = case
    promised_seen = promised = 0.0
    for cores in range(len(names), 21):
        plan = advisor.allocate(" .. ".join(names), cores=cores, turns=turns)
        assert plan.expected_per_s is not None
        assert plan.expected_per_s >= plan.throughput_per_s * (1 - 1e-9)
        assert plan.expected_per_s >= promised * (1 - 1e-9)
        promised = max(promised, plan.throughput_per_s)
        if was_seen(plan):
            assert plan.throughput_per_s >= promised_seen * (1 - 1e-9)
            promised_seen = plan.throughput_per_s
