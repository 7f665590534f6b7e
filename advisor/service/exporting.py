"""What an engine has learned, page by page: for a reader on a wire, while the engine goes on learning."""

from __future__ import annotations

from typing import Final

from advisor.engine.engine import Engine
from advisor.errors import InvalidValue

# Of each kind so many a page, a megabyte of components, in this order: a page is made within a few ms.
A_PAGE: Final = {"components": 256, "task_types": 64, "networks": 4, "programs": 32, "totals": 1}
KINDS: Final = tuple(A_PAGE)


def page(engine: Engine, after: str | None) -> tuple[bytes, str | None]:
    """Return a part of the state, and the `after` of the next one; None behind the last.

    The parts merge to what was learned: all that was there throughout, each component as it stood when its page was made.
    What comes meanwhile may be in it or not. Cost O(page). Raises InvalidValue when no page ends with `after`.
    """
    kind, sign, at = (after or f"{KINDS[0]}:").partition(":")
    if kind not in KINDS or not sign:
        raise InvalidValue("after", after, "what `next` of an answer said", "leave it out to begin")
    if kind == "totals":
        return engine.extract((), (kind,)), None
    found, last = _components(engine, at) if kind == "components" else _named(engine, kind, at)
    of_components = kind in ("components", "task_types")
    state = engine.extract(found if of_components else (), () if of_components else {kind: found})
    return state, f"{KINDS[KINDS.index(kind) + 1]}:" if last is None else f"{kind}:{last}"


def _components(engine: Engine, at: str) -> tuple[list[str], str | None]:
    """Return the components of the next slots: a slot stays its component's."""
    names, start = engine.advisor.components.slots.names, int(at) if at.isascii() and at.isdigit() else 0
    end = start + A_PAGE["components"]
    slots = engine.advisor.components.slots
    owners = dict.fromkeys(slots.owner(slot) for slot in range(start, min(end, len(names))))
    found = [name for name in owners if name and min(slots.group(name)) >= start]  # what began before is there
    return found, str(end) if end < len(names) else None


def _named(engine: Engine, kind: str, at: str) -> tuple[list[str], str | None]:
    """Return the next few of what there is little of, in the order of the names."""
    advisor = engine.advisor
    names = {
        "task_types": advisor.task_types.known.keys() - advisor.components.slots.components.keys(),
        "networks": advisor.components.flows.known, "programs": advisor.programs.known,
    }[kind]  # fmt: skip
    due = sorted(name for name in names if name > at)
    found = due[: A_PAGE[kind]]
    return found, found[-1] if len(found) < len(due) else None
