"""Cores lent to clients honest, slow, cut off, or lie: none is lent twice, none lost, none asked back that was not lent.

A client here asserts what the runtime's own library asserts of its server: it is never granted a core that it still holds, and
a core is asked back once, from who holds it. It may leave grants unanswered, keep a busy core, and say what is not so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from advisor.engine.granting import ANSWER_S, RETURN_S, Granting

CORES = (0, 1, 2, 5, 9)
GAINS = {"steep": [0, 10, 20, 30, 40, 50], "flat": [0, 1, 1.1, 1.1, 1.1, 1.1]}


@dataclass
class Library:
    """What one client knows."""

    unanswered: list[int] = field(default_factory=list)
    holds: set[int] = field(default_factory=set)
    owes: set[int] = field(default_factory=set)
    access: bool = False
    local: int = 0

    def granted(self, cores: tuple[int, ...]) -> None:
        for core in cores:
            assert core not in self.holds
            assert core not in self.unanswered
            self.unanswered.append(core)

    def asked_back(self, cores: tuple[int, ...]) -> None:
        for core in cores:
            assert core in self.holds
            assert core not in self.owes
            self.owes.add(core)


class Lending(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.granting = Granting(CORES)
        self.known: dict[int, Library] = {}
        self.numbered = 0
        self.now = 0.0

    def settle(self) -> None:
        for order in self.granting.balance(self.now):
            library = self.known[order.app]  # type: ignore[index]
            (library.granted if order.verb == "grant" else library.asked_back)(order.cores)

    @rule(target=clients, network=st.sampled_from([None, "steep", "flat", "unknown"]))
    def comes(self, network: str | None) -> int:
        self.numbered += 1
        self.known[self.numbered] = Library()
        self.granting.add_app(self.numbered, network)
        self.settle()
        return self.numbered

    @rule(target=clients, client=consumes(clients), clean=st.booleans())
    def is_cut(self, client: int, clean: bool) -> object:
        if client in self.known:
            library = self.known.pop(client)
            freed = self.granting.remove_app(client)
            assert freed == len(library.holds) + len(library.unanswered)
            self.settle()
        return multiple()

    @rule(client=clients, local=st.integers(0, 7), access=st.booleans())
    def says(self, client: int, local: int, access: bool) -> None:
        if client in self.known:
            library = self.known[client]
            library.local, library.access = local, access or library.access
            self.granting.access(client, library.access)
            self.granting.local(client, local)
            self.settle()

    @rule(client=clients, decline=st.booleans(), part=st.integers(1, 5))
    def answers(self, client: int, decline: bool, part: int) -> None:
        """Accept or decline the first of what was granted."""
        if client in self.known and self.known[client].unanswered:
            library = self.known[client]
            cores, library.unanswered = library.unanswered[:part], library.unanswered[part:]
            if decline:
                self.granting.give_back(client, cores)
            else:
                library.holds.update(cores)
                self.granting.accept(client, cores, self.now)
            self.settle()

    @rule(client=clients, data=st.data())
    def returns(self, client: int, data: st.DataObject) -> None:
        """A worker stops: its core goes back, asked for or not."""
        if client in self.known and self.known[client].holds:
            library = self.known[client]
            core = data.draw(st.sampled_from(sorted(library.owes or library.holds)))
            library.holds.discard(core)
            library.owes.discard(core)
            self.granting.give_back(client, [core])
            self.settle()

    @rule(client=clients, core=st.integers(-1, 70), verb=st.sampled_from(["accept", "return"]))
    def lies(self, client: int, core: int, verb: str) -> None:
        """Say something of a core that one never had: it changes nothing for anybody."""
        if client in self.known:
            library = self.known[client]
            if core in library.holds or core in library.unanswered:
                return
            before = self.granting.lent()
            if verb == "accept":
                self.granting.accept(client, [core], self.now)
            else:
                self.granting.give_back(client, [core])
            assert self.granting.lent() == before
            self.settle()

    @rule(which=st.sets(st.sampled_from(sorted(GAINS))))
    def learns(self, which: set[str]) -> None:
        self.granting.learned({name: GAINS[name] for name in which})
        self.settle()

    @rule(seconds=st.sampled_from([1.0, ANSWER_S + 1, RETURN_S + 1]))
    def time_passes(self, seconds: float) -> None:
        """Who owes an answer for too long is cut off, and nobody else."""
        self.now += seconds
        for client, owed in self.granting.overdue(self.now).items():
            library = self.known.pop(client)  # type: ignore[arg-type]
            assert library.owes or library.unanswered, owed
            self.granting.remove_app(client)
        self.settle()

    @invariant()
    def each_core_is_in_one_place(self) -> None:
        self.granting.check_cores_lent_once()
        held = [core for library in self.known.values() for core in (*library.holds, *library.unanswered)]
        assert len(held) == len(set(held))
        assert set(held) <= set(CORES)
        assert self.granting.lent()["free"] == len(CORES) - len(held)

    @invariant()
    def targets_are_legal(self) -> None:
        targets = self.granting.targets()
        assert sum(targets.values()) <= len(CORES)
        for client, library in self.known.items():
            assert targets.get(client, 0) <= (library.local if library.access else 0)

    def teardown(self) -> None:
        """Once all answer, everybody has what it should; once all are gone, all is free."""
        for _ in range(4 * len(CORES)):
            for client, library in self.known.items():
                self.granting.local(client, library.local)  # what was declined may be offered again
                library.holds.update(library.unanswered)
                self.granting.accept(client, library.unanswered, self.now)
                library.unanswered = []
                library.holds -= library.owes
                self.granting.give_back(client, sorted(library.owes))
                library.owes = set()
            self.settle()
        targets = self.granting.targets()
        for client, library in self.known.items():
            assert len(library.holds) == targets.get(client, 0)
        for client in list(self.known):
            self.granting.remove_app(client)
        assert self.granting.lent() == {"free": len(CORES)}


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
