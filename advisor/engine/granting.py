"""Who has which cores: a machine's cores lent to applications one by one, asked back, and never lent twice.

Pure: times come as arguments. A core is free, offered (granted, not yet answered), held, or asked back; only its application's
answer, or its end, makes it free. `balance` says what to send; whoever calls it sends all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import chain, count
from typing import NamedTuple

from advisor.domain.advice import GAIN_LEAST
from advisor.errors import InvalidValue

ANSWER_S = 60.0  # a client library answers a grant at once; this one is stuck, or no client of this protocol
# RETURN_S: a busy core comes back when its worker stops, minutes later perhaps; a run of a box takes less than that
RETURN_S = 900.0
# TURN_S: where more applications ask than there are cores, each keeps its core for so long before another has its turn
TURN_S = 1.0


class Phase(Enum):
    """Where a core that is not free stands."""

    OFFERED = "offered"
    HELD = "held"
    ASKED_BACK = "asked back"


class CoreOrder(NamedTuple):
    """What to send to an application: ``grant`` or ``revoke``, and the cores."""

    app: Hashable
    verb: str
    cores: tuple[int, ...]


@dataclass(slots=True)
class _App:
    network: str | None
    turn: int  # where there are fewer cores than applications, the least numbers have one
    waits_since: float | None = None  # while it asks and has no core
    access: bool = False
    local: int = 0
    cap: int | None = None  # cores beyond which it gave some back unasked, until it says anew how many it can use
    cores: dict[int, tuple[Phase, float]] = field(default_factory=dict[int, tuple[Phase, float]])  # and since when

    @property
    def most(self) -> int:
        if not self.access:
            return 0
        return self.local if self.cap is None else min(self.local, self.cap)

    def cores_in(self, *phases: Phase) -> list[int]:
        return sorted(core for core, (phase, _) in self.cores.items() if phase in phases)


class Granting:
    """The cores of one machine and the applications that may have them.

    `cores`: iterable of int, the cores to lend, and no others.
    """

    def __init__(self, cores: Iterable[int]) -> None:
        self.cores = tuple(sorted(set(cores)))
        if not self.cores:
            raise InvalidValue("cores", (), "at least one core to lend")
        # cores granted, revoked, accepted and returned, and what clients did that they must not, by name
        self.counts: Counter[str] = Counter()
        self._apps: dict[Hashable, _App] = {}
        self._free = set(self.cores)
        self._turns = count()
        self._gains: dict[str, tuple[float, ...]] = {}
        self._split: dict[Hashable, int] = {}  # the last one by gains

    # -- applications

    def add_app(self, app: Hashable, network: str | None = None) -> None:
        """Take an application in, and the network that it runs, if known."""
        self._apps[app] = _App(network, next(self._turns))

    def remove_app(self, app: Hashable) -> int:
        """Forget an application; its cores are free at once. Return how many it had."""
        gone = self._apps.pop(app, None)
        if gone is None:
            return 0
        self._free.update(gone.cores)
        self._split.pop(app, None)
        return len(gone.cores)

    def access(self, app: Hashable, may_use: bool) -> None:
        """Take in whether an application can use this machine."""
        self._apps[app].access = may_use

    def local(self, app: Hashable, cores: int) -> None:
        """Take in how many cores an application could keep busy."""
        known = self._apps[app]
        known.local, known.cap = cores, None

    def accept(self, app: Hashable, cores: Iterable[int], now: float) -> None:
        """Take in that an application uses cores it was granted; others' are left as they are, and counted."""
        known = self._apps[app]
        for core in cores:
            lent = known.cores.get(core)
            if lent is None or lent[0] is not Phase.OFFERED:
                self.counts["accepted, not offered"] += 1
                continue
            known.cores[core] = Phase.HELD, now
            self.counts["accepted"] += 1

    def give_back(self, app: Hashable, cores: Iterable[int]) -> None:
        """Take in that an application no longer uses cores: asked back, declined or given up.

        What it gives up while nothing is asked back is not offered again before it says anew how many it can use.
        """
        known = self._apps[app]
        for core in cores:
            lent = known.cores.get(core)
            if lent is None:
                self.counts["returned, not held"] += 1
                continue
            unasked = not known.cores_in(Phase.ASKED_BACK)
            del known.cores[core]
            self._free.add(core)
            self.counts["returned"] += 1
            if unasked:
                known.cap = len(known.cores_in(Phase.OFFERED, Phase.HELD))
            elif lent[0] is not Phase.ASKED_BACK:
                self.counts["returned in place of another"] += 1

    # -- what is known of networks

    @property
    def networks(self) -> dict[str, int]:
        """The networks of applications that ask for cores, each with the most that one of them could use."""
        found: dict[str, int] = {}
        for app in self._apps.values():
            if app.network is not None and app.most:
                found[app.network] = max(found.get(app.network, 0), min(app.most, len(self.cores)))
        return found

    def learned(self, gains: Mapping[str, Sequence[float]]) -> None:
        """Take in what networks reach: records per second on 0, 1, 2, … cores, by name; the others have no model."""
        self._gains = {network: tuple(curve) for network, curve in gains.items()}

    # -- what to do

    def balance(self, now: float) -> list[CoreOrder]:
        """Return what to send so that cores come where they should be: one message an application and verb at most.

        Cores are asked back from whoever has more than its target, once each; those that are free go out, first to whoever
        has none. Where applications wait, those that had their turn give way. Cost O(applications times cores squared).
        """
        self._pass_turns(now)
        targets = self.targets()
        orders: list[CoreOrder] = []
        for name, app in self._apps.items():
            firm = app.cores_in(Phase.OFFERED, Phase.HELD)
            # What is offered cannot be asked back before it is answered.
            back = app.cores_in(Phase.HELD)[: max(0, len(firm) - targets.get(name, 0))]
            if back:
                for core in back:
                    app.cores[core] = Phase.ASKED_BACK, now
                self.counts["revoked"] += len(back)
                orders.append(CoreOrder(name, "revoke", tuple(back)))
        for name in sorted(targets, key=lambda name: bool(self._apps[name].cores)):  # stable: else as they came
            app = self._apps[name]
            missing = targets[name] - len(app.cores_in(Phase.OFFERED, Phase.HELD))
            given = sorted(self._free)[: max(0, missing)]
            if given:
                self._free.difference_update(given)
                app.cores.update(dict.fromkeys(given, (Phase.OFFERED, now)))
                self.counts["granted"] += len(given)
                orders.append(CoreOrder(name, "grant", tuple(given)))
        for app in self._apps.values():
            if not app.most or app.cores:
                app.waits_since = None
            elif app.waits_since is None:
                app.waits_since = now
        return orders

    def _pass_turns(self, now: float) -> None:
        """Let those that had a core for `TURN_S` stand behind those that wait, one for each that no core is on its way to."""
        if sum(app.most > 0 for app in self._apps.values()) <= len(self.cores):
            return
        lent = [core for app in self._apps.values() for core in app.cores.values()]
        coming = len(self._free) + sum(
            phase is Phase.ASKED_BACK and now - since < TURN_S for phase, since in lent
        )  # what comes back later belongs to a busy box: another gives way instead
        waiting = sum(app.most > 0 and not app.cores for app in self._apps.values()) - coming
        held = [
            (min(since for _, since in app.cores.values()), app.turn, app) for app in self._apps.values() if app.cores
        ]
        for since, _, app in sorted(held, key=lambda each: each[:2])[: len(self.cores)]:
            firm = app.cores_in(Phase.OFFERED, Phase.HELD)
            if waiting > 0 and firm == app.cores_in(Phase.HELD) != [] and now - since >= TURN_S:
                app.turn, waiting = next(self._turns), waiting - 1

    def waiting(self, now: float) -> dict[Hashable, float]:
        """Return the applications that ask and have no core, each with the seconds that it has waited."""
        return {name: now - app.waits_since for name, app in self._apps.items() if app.waits_since is not None}

    def targets(self) -> dict[Hashable, int]:
        """Return how many cores each application that asks for some should have.

        First by demand, at least one each, in turns where there are too few. Then those whose networks are learned share
        what they got together so that their sum of records per second is largest, at least one each, none more
        than it can use. A split is kept while another gains less than `GAIN_LEAST`.
        """
        apps = sorted(self._apps.items(), key=lambda each: each[1].turn)
        asking = {name: min(app.most, len(self.cores)) for name, app in apps if app.most}
        shares = dict(zip(asking, shared_by_demand(list(asking.values()), len(self.cores)), strict=True))
        known = [name for name in asking if shares[name] and self._apps[name].network in self._gains]
        if len(known) < 2:
            self._split = {}
            return shares
        values = tuple(self._gains[self._apps[name].network or ""] for name in known)
        most, near = tuple(asking[name] for name in known), tuple(shares[name] for name in known)
        pool = sum(near)
        split = _best_split(values, most, pool, near)
        before = [self._split.get(name, 0) for name in known]
        fits = sum(before) == pool and all(1 <= n <= high for n, high in zip(before, most, strict=True))
        if fits and value_of(values, split) < value_of(values, before) * (1.0 + GAIN_LEAST):
            split = before
        self._split = dict(zip(known, split, strict=True))
        return shares | self._split

    def overdue(self, now: float, return_s: float = RETURN_S, answer_s: float = ANSWER_S) -> dict[Hashable, str]:
        """Return the applications that have not answered in time, each with what it owes."""
        limits = {Phase.OFFERED: answer_s, Phase.ASKED_BACK: return_s}
        found: dict[Hashable, str] = {}
        for name, app in self._apps.items():
            late = [phase for phase, since in app.cores.values() if now - since > limits.get(phase, float("inf"))]
            if late:
                found[name] = "a grant unanswered" if late[0] is Phase.OFFERED else "a core not returned"
        return found

    # -- how it stands

    def has(self, app: Hashable) -> dict[str, int]:
        """Return how an application stands: what it could use, and its cores by phase."""
        known = self._apps[app]
        return {
            "local": known.local, "granted": len(known.cores), "accepted": len(known.cores_in(Phase.HELD)),
            "revoked": len(known.cores_in(Phase.ASKED_BACK)),
        }  # fmt: skip

    def lent(self) -> Counter[str]:
        """Return how many cores are in each phase."""
        found = Counter(phase.value for app in self._apps.values() for phase, _ in app.cores.values())
        found["free"] = len(self._free)
        return found

    def check_cores_lent_once(self) -> None:
        """Raise AssertionError unless each core is in one place exactly."""
        places = Counter(core for app in self._apps.values() for core in app.cores) + Counter(self._free)
        assert places == Counter(self.cores), places


# ----------------------------------------------------------------------------------------------------------------------------
# How the cores of a machine are shared by applications that each can keep so many of them busy.


TIE = 1e-9  # of the largest value: differences below are none, and the split nearest to `near` is taken


def shared_by_demand(most: Sequence[int], cores: int) -> list[int]:
    """Return cores for applications in proportion to how many each could use, at least one each as far as there are cores.

    `most` are the cores that each could use, in the order of their coming: where there are fewer cores, the first get
    one. The answer is at most `most`, in sum ``min(cores, sum(most))``; fractions go to the largest, then to who came
    first. Cost O(n cores).
    """
    shares = [0] * len(most)
    for order, wanted in enumerate(most):
        shares[order] = int(wanted > 0 and sum(shares) < cores)
    left = min(cores, sum(most)) - sum(shares)
    total = sum(most)
    for _ in range(left):
        # Whose due by proportion is furthest from what it has.
        open_ = [order for order, wanted in enumerate(most) if shares[order] < wanted]
        best = max(open_, key=lambda order: (cores * most[order] / total - shares[order], -order))
        shares[best] += 1
    return shares


def best_split(values: Sequence[Sequence[float]], most: Sequence[int], cores: int, near: Sequence[int]) -> list[int]:
    """Return the split of all `cores` with the largest sum of values, at least one each.

    ``values[i][n]`` is what application i is worth on n cores, beyond the end as at the end; ``len(most) <= cores <=
    sum(most)``. Among splits of the same value the one nearest to `near` is taken. Exact, for values of any shape:
    dynamic programming over applications, O(n cores^2).
    """
    tie = max(map(abs, chain(*values)), default=0.0) * TIE / (cores * cores * len(values))
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}  # by cores that those so far have
    for row, high, at in zip(values, most, near, strict=True):
        found: dict[int, tuple[float, list[int]]] = {}
        for used, (worth, split) in best.items():
            for n in range(1, min(high, cores - used) + 1):
                reached = worth + row[min(n, len(row) - 1)] - tie * (n - at) ** 2
                if used + n not in found or reached > found[used + n][0]:
                    found[used + n] = reached, [*split, n]
        best = found
    return best[cores][1]


_best_split = lru_cache(4)(best_split)  # the same one, as long as nobody asks for more or less


def value_of(values: Sequence[Sequence[float]], split: Sequence[int]) -> float:
    """Return the sum of the values of a split."""
    return float(sum(row[min(n, len(row) - 1)] for row, n in zip(values, split, strict=True)))
