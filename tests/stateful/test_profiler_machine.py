"""Random legal interleavings of tasks on threads, the laws after each event; illegal events leave no trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profile_laws import APART, check_laws, same, state_bytes

from advisor.domain.task_events import EventWriter, Flag, Kind, RegionKind, SyncKind
from advisor.kernels import can_compile
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.view import profile_of

THREADS = 3
REGIONS = ("foo", "bar")
TYPES = ("A", "B")


@dataclass
class Instance:
    number: int
    untied: bool = False
    thread: int = -1  # where it runs, or ran last
    regions: list[tuple[Kind, int, str, int]] = field(default_factory=list)  # how to leave them, the last its team


class Interleavings(RuleBasedStateMachine):
    """The machine knows which events are legal; the profiler must agree, and account for every nanosecond."""

    @initialize()
    def begin(self) -> None:
        self.plain = Profiler(window_ns=0, compiled=False)
        self.other = Profiler(window_ns=0, compiled=can_compile())
        self.out = EventWriter()
        self.now = 0
        self.numbers = 0
        self.implicit = {thread: Instance(0, thread=thread) for thread in range(THREADS)}
        self.current: dict[int, Instance] = dict(self.implicit)
        self.started: set[int] = set()
        self.created: list[int] = []
        self.suspended: list[Instance] = []
        self.most_active = 0
        self.newest = 0
        self.begun_at: dict[int, int] = {}  # threads that are there
        self.was_there = dict.fromkeys(range(THREADS), 0)
        self.counts = dict.fromkeys(("creates", "begins", "ends", "cancels", "dependences"), 0)

    # -- saying and checking ----------------------------------------------------------------------------------------------

    def say(self, kind: Kind, thread: int, **fields: object) -> None:
        self.out.add_event(self.now, kind, thread=thread, **fields)  # type: ignore[arg-type]
        events = self.out.batch()
        folded = [profiler.fold_batch(events) for profiler in (self.plain, self.other)]
        assert [each.accepted for each in folded] == [1, 1], folded[0].first
        self.newest = self.now
        if kind == Kind.WORKER_STOP:
            self.was_there[thread] += self.now - self.begun_at.pop(thread)
            self.started.discard(thread)
        elif thread not in self.started:
            self.begun_at[thread] = self.now
            self.started.add(thread)

    def refuse(self, word: str, kind: Kind, thread: int, time: int | None = None, **fields: object) -> None:
        self.out.add_event(self.now if time is None else time, kind, thread=thread, **fields)  # type: ignore[arg-type]
        events = self.out.batch()
        for profiler in (self.plain, self.other):
            profiler.tables.make_room(1, THREADS)
            before, known = state_bytes(profiler), profile_of(profiler).as_dict()
            folded = profiler.fold_batch(events)
            assert folded.accepted == 0
            assert folded.refused == {word: 1}
            assert folded.first[0][1] == word
            # The first event of a thread, refused, may leave a free row behind that was used; nobody can tell.
            assert thread not in self.started or state_bytes(profiler) == before
            after = profile_of(profiler).as_dict()
            assert after | {"notes": {}} == known | {"notes": {}}

    @rule(by=st.integers(1, 50))
    def time_passes(self, by: int) -> None:
        self.now += by

    threads = st.integers(0, THREADS - 1)

    # -- what tasks do ----------------------------------------------------------------------------------------------------

    @rule(thread=threads, kind=st.sampled_from(TYPES), untied=st.booleans(), flags=st.integers(0, 31))
    def create(self, thread: int, kind: str, untied: bool, flags: int) -> None:
        self.numbers += 1
        self.counts["creates"] += 1
        flags = 2 * flags | (
            Flag.UNTIED if untied else 0
        )  # undeferred, final, merged, at once, dependent in any mixture
        self.say(Kind.CREATE, thread, instance=self.numbers, type=kind, flags=flags)
        self.created.append(self.numbers * 2 + untied)

    @precondition(lambda self: self.created)
    @rule(thread=threads, which=st.integers(0, 1000), kind=st.sampled_from(TYPES))
    def begin_task(self, thread: int, which: int, kind: str) -> None:
        coded = self.created.pop(which % len(self.created))
        self.pause(thread)
        self.current[thread] = Instance(coded // 2, bool(coded % 2), thread)
        self.counts["begins"] += 1
        self.say(Kind.BEGIN, thread, instance=coded // 2, type=kind)

    @precondition(lambda self: self.created)
    @rule(thread=threads, which=st.integers(0, 1000))
    def give_up(self, thread: int, which: int) -> None:
        coded = self.created.pop(which % len(self.created))
        self.counts["cancels"] += 1
        self.say(Kind.CANCEL, thread, instance=coded // 2)

    @rule(thread=threads)
    def cancel_what_runs(self, thread: int) -> None:
        """A cancelled task leaves its regions open: they are closed with it."""
        task = self.current[thread]
        if task.number:
            self.current[thread] = self.implicit[thread]
            self.counts["cancels"] += 1
            self.say(Kind.CANCEL, thread, instance=task.number)

    @precondition(lambda self: self.created)
    @rule(thread=threads, which=st.integers(0, 1000), before=st.integers(1, 20))
    def depend(self, thread: int, which: int, before: int) -> None:
        number = self.created[which % len(self.created)] // 2
        if before < number:  # on what was made earlier, so that none waits for itself
            self.counts["dependences"] += 1
            self.say(Kind.DEPENDENCE, thread, instance=number, other=before)

    @rule(thread=threads)
    def stop(self, thread: int) -> None:
        if thread in self.started and not self.current[thread].number:
            if not self.implicit[thread].regions:
                self.say(Kind.WORKER_STOP, thread)
                self.implicit[thread] = self.current[thread] = Instance(0, thread=thread)
            else:
                self.refuse("open_regions", Kind.WORKER_STOP, thread)
        elif thread in self.started:
            self.refuse("task_on_thread", Kind.WORKER_STOP, thread)
        else:
            self.refuse("thread_stopped", Kind.WORKER_STOP, thread)

    @rule(thread=threads)
    def end(self, thread: int) -> None:
        task = self.current[thread]
        if task.number and not task.regions:
            self.current[thread] = self.implicit[thread]
            self.counts["ends"] += 1
            self.say(Kind.END, thread, instance=task.number)

    @rule(thread=threads, which=st.integers(0, 1000))
    def switch(self, thread: int, which: int) -> None:
        fit = [task for task in self.suspended if task.untied or task.thread == thread]
        if fit:
            task = fit[which % len(fit)]
            self.suspended.remove(task)
            self.pause(thread)
            task.thread = thread
            self.current[thread] = task
            self.say(Kind.SWITCH, thread, instance=task.number)

    @rule(thread=threads)
    def switch_to_implicit(self, thread: int) -> None:
        self.pause(thread)
        self.current[thread] = self.implicit[thread]
        self.say(Kind.SWITCH, thread)

    def pause(self, thread: int) -> None:
        if self.current[thread].number:
            self.suspended.append(self.current[thread])

    # -- regions ----------------------------------------------------------------------------------------------------------

    @rule(
        thread=threads, region=st.sampled_from(REGIONS), kind=st.sampled_from(list(RegionKind)), team=st.integers(1, 3)
    )
    def enter(self, thread: int, region: str, kind: RegionKind, team: int) -> None:
        task = self.current[thread]
        region = APART if kind == RegionKind.APART else region
        number = team if kind == RegionKind.PARALLEL else task.number
        task.regions.append((Kind.EXIT, int(kind), region, number))
        self.say(Kind.ENTER, thread, instance=number, other=kind, type=region)

    @rule(thread=threads, kind=st.sampled_from(list(SyncKind)))
    def synchronise(self, thread: int, kind: SyncKind) -> None:
        self.current[thread].regions.append((Kind.SYNC_END, int(kind), "sync", 0))
        self.say(Kind.SYNC_BEGIN, thread, other=kind, type="sync")

    @rule(thread=threads)
    def idle(self, thread: int) -> None:
        self.current[thread].regions.append((Kind.IDLE_END, 0, "", 0))
        self.say(Kind.IDLE_BEGIN, thread)

    @rule(thread=threads)
    def leave(self, thread: int) -> None:
        task = self.current[thread]
        if task.regions:
            kind, other, name, number = task.regions.pop()
            self.say(kind, thread, other=other, type=name or None, instance=number)

    @rule(thread=threads, value=st.integers(-2, 2))
    def parameter(self, thread: int, value: int) -> None:
        self.say(Kind.PARAMETER, thread, other=value, type="depth")

    # -- what is illegal ---------------------------------------------------------------------------------------------------

    @rule(thread=threads, kind=st.sampled_from([Kind.END, Kind.SWITCH, Kind.CANCEL]))
    def unknown_instance(self, thread: int, kind: Kind) -> None:
        self.refuse("unknown_instance", kind, thread, instance=10**6)

    @rule(thread=threads)
    def time_back(self, thread: int) -> None:
        latest = self.plain.tables.threads
        if thread in self.started and latest[thread * at.THREADS + at.LATEST] > 0:
            self.refuse("time_back", Kind.SWITCH, thread, time=latest[thread * at.THREADS + at.LATEST] - 1)

    @rule(thread=threads)
    def not_open(self, thread: int) -> None:
        self.out.string_number("nowhere")
        self.refuse("not_open", Kind.EXIT, thread, type="nowhere")

    @precondition(lambda self: self.created)
    @rule(thread=threads)
    def end_before_begin(self, thread: int) -> None:
        self.refuse("not_begun", Kind.END, thread, instance=self.created[0] // 2)
        self.refuse("not_begun", Kind.SWITCH, thread, instance=self.created[0] // 2)
        self.refuse("created_twice", Kind.CREATE, thread, instance=self.created[0] // 2, type="A")

    @precondition(lambda self: self.suspended)
    @rule(thread=threads)
    def end_of_another(self, thread: int) -> None:
        task = self.suspended[0]
        self.refuse("not_current", Kind.END, thread, instance=task.number)
        self.refuse("begun_twice", Kind.BEGIN, thread, instance=task.number, type="A")
        if not task.untied and task.thread != thread:
            self.refuse("tied_moved", Kind.SWITCH, thread, instance=task.number)

    @rule(thread=threads)
    def end_with_open_regions(self, thread: int) -> None:
        task = self.current[thread]
        if task.number and task.regions:
            self.refuse("open_regions", Kind.END, thread, instance=task.number)
        other = (thread + 1) % THREADS
        if task.number:
            self.refuse("runs_elsewhere", Kind.SWITCH, other, instance=task.number)

    @rule(thread=threads)
    def nonsense(self, thread: int) -> None:
        self.out.string_number("foo")
        self.refuse("unknown_region_kind", Kind.ENTER, thread, other=7, type="foo")
        self.refuse("unknown_string", Kind.CREATE, thread, instance=10**6)
        self.refuse("unknown_instance", Kind.CREATE, thread, instance=0, type="foo")
        self.refuse("unknown_thread", Kind.SWITCH, 60_000)

    # -- laws -------------------------------------------------------------------------------------------------------------

    @invariant()
    def laws(self) -> None:
        profile = profile_of(self.plain)
        check_laws(profile)
        same(self.plain, self.other)
        running = [task for task in self.current.values() if task.number]
        active = len(self.suspended) + len(running)
        self.most_active = max(self.most_active, active)
        assert profile.measures.active == active
        assert profile.measures.active_max == self.most_active
        # Memory: a row for each instance made or active, each thread and the team there may be.
        tables = self.plain.tables
        used = len(tables.contexts) // at.CONTEXT - tables.g[at.CONTEXTS_LEFT]
        teams = int((tables.column("contexts", at.CONTEXT)[:, at.TAG] == at.TAG_TEAM).sum()) if used else 0
        assert teams <= 3
        for root in profile.roots(at.THREAD):
            thread = int(profile.names[root])
            there = self.was_there[thread] + self.newest - self.begun_at.get(thread, self.newest)
            assert profile.inclusive_ns[root] == there
            assert profile.open[root] == (thread in self.begun_at)
        assert {name: getattr(profile.measures, name) for name in self.counts} == self.counts
        assert profile.measures.workers == len(self.begun_at)
        assert 0 <= profile.measures.ready <= len(self.created) + len(self.suspended)
        assert used == active + len(self.created) + len(self.started) + teams


Interleavings.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestInterleavings = Interleavings.TestCase
