"""The demand of a request on the curves of the moment: the last one again, as far as it is the same."""

from __future__ import annotations

from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget, InvalidValue
from advisor.planning.asked import Asked, rules_of
from advisor.planning.demand import Demand, demand_of, pieces_at
from advisor.planning.placing import SLACK
from advisor.planning.requests import NEVER


def question_of(asked: Asked, curves: TabulatedCurves, price: float = 0.0) -> Demand:
    """Return what is to be solved, of curves at a price for what is not known: the last one again, as far as it is the same.

    Raises InvalidValue, TooLarge, ImpossibleTarget when limits leave a component nothing, or one instance needs more memory
    than there is.
    """
    last = asked.last.get(price)
    if last is not None:
        old = last.curves
        if old is curves:
            return last
        if old.cores is curves.cores and old.allowed is curves.allowed and not curves.peak_bytes.any():
            last = asked.last[price] = _renewed(last, curves)
            return last
    last = asked.last[price] = _first_question(asked, curves, price)
    return last


def _renewed(old: Demand, curves: TabulatedCurves) -> Demand:
    """Return the demand at other times of the same counts: its limits stay as they were found."""
    level, fall = pieces_at(curves, None if old.request.level is not None else old.price)
    found = object.__new__(Demand)
    vars(found).update(vars(old), level=level * old.scale, fall=fall * old.scale, variation=curves.variation,
                       contention=curves.contention, peak_bytes=curves.peak_bytes, curves=curves)  # fmt: skip
    for cached in ("inner", "expected", "contended", "plan"):
        vars(found).pop(cached, None)
    return found


def _first_question(asked: Asked, curves: TabulatedCurves, price: float) -> Demand:
    keys, machine = asked.keys, asked.machine
    demand = demand_of(asked, curves, price)
    low = int(demand.low.max())
    if low > machine.widest:
        key = keys[int(demand.low.argmax())]
        field = _raised_by(asked, curves, demand)
        raise InvalidValue(f"{field}.{key}", low, f"at most the {machine.widest} cores given")
    peak = float(demand.peak_bytes.max())
    if peak > machine.memory_bytes * (1 + SLACK):
        key = keys[int(demand.peak_bytes.argmax())]
        raise ImpossibleTarget(
            f"one instance of {key} may need {peak:.6g} bytes; there are {machine.memory_bytes:.6g}",
            field=key, value=machine.memory_bytes, bound=peak,
            hint="give a machine with more memory, or a smaller load",
        )  # fmt: skip
    if asked.request.turns == NEVER and demand.cores < len(keys):
        raise InvalidValue("cores", demand.cores, f"at least {len(keys)}, one for each component",
                           "let components take turns on them")  # fmt: skip
    if not demand.sharing and demand.least > demand.cores:
        field = _raised_by(asked, curves, demand)
        raise InvalidValue(field, demand.least, f"at most the {demand.cores} cores given in sum")
    return demand


def _raised_by(asked: Asked, curves: TabulatedCurves, demand: Demand) -> str:
    """Return the field that sets the fewest cores of the components too high: `allowed` where sets of counts raise them."""
    raised = [row for row in rules_of(asked, curves) if row not in asked.pins and demand.low[row] > asked.low[row]]
    return "allowed" if raised else "minimum"
