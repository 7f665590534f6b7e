/* What OMPT tells, as records. Nothing here waits, and nothing allocates but a block of tasks now and then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advisor_task.h"
#include "events.h"

/* ---- whether a task is followed ---- */

/* Choose the next task to follow: each is as likely as any other, whatever came before, so that it stands for `sample` of them.
 * The tasks in between are geometrically many; a fixed step could always meet the same branch of a tree. */
static __attribute__((noinline)) void choose(struct thread *t) {
    double sample = atomic_load_explicit(&tool.sample, memory_order_relaxed);
    t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double chance = ((double)(t->random >> 11) + 0.5) * 0x1p-53;
    t->skip = (uint32_t)(log(chance) / log1p(-1.0 / sample));
    t->stands = (uint32_t)sample;
}

/* Follow the next task where there is room for the rest of those that are followed, and its turn has come. */
static inline bool follow(struct thread *t, struct task *task) {
    int mode = atomic_load_explicit(&tool.mode, memory_order_relaxed);
    if (mode == SUMS && t->skip) {
        t->skip--;
        return false;
    }
    if (UNLIKELY(!room_beyond(t, t->room))) {
        if (mode == AUTO) atomic_store_explicit(&tool.mode, SUMS, memory_order_relaxed);
        return false;
    }
    if (mode == SUMS) {
        task->stands = t->stands; /* a thread's first task, which is always followed, stands for itself */
        choose(t);
    }
    return true;
}

/* ---- what the service gets about who runs ---- */

static void be_apart(struct thread *t, uint64_t now) {
    if (t->apart) return;
    if (t->shown) put_extra(t, now, SWITCH, 0, 0, ABSENT);
    t->shown = NULL;
    t->apart = put_extra(t, now, ENTER, 0, APART, known.apart);
}

void be_together(struct thread *t, uint64_t now) {
    if (!t->apart) return;
    put_extra(t, now, EXIT, 0, APART, known.apart);
    t->apart = false;
}

/* `next` runs on the thread from now on. */
static void show(struct thread *t, struct task *next, uint64_t now) {
    struct task *wanted = next->implicit ? next->base : next;
    bool begins = wanted && !wanted->begun;
    unsigned due = wanted == t->due ? 0 : begins ? 2 : 1; /* records, if every task were followed */
    t->due = wanted;
    if (begins) wanted->begun = true;
    if (wanted && !wanted->followed) {
        leave_out(t, due);
        be_apart(t, now);
        return;
    }
    be_together(t, now);
    if (wanted == t->shown) {
        if (due) leave_out(t, due);
    } else if (begins) {
        put(t, now, BEGIN, wanted->id, 0, wanted->type, wanted->flags);
        put(t, now, PARAMETER, wanted->id, wanted->depth, known.depth, 0);
    } else if (due)
        put(t, now, SWITCH, wanted ? wanted->id : 0, 0, ABSENT, 0);
    else
        put_extra(t, now, SWITCH, wanted ? wanted->id : 0, 0, ABSENT);
    t->shown = wanted;
}

void stop_idling(struct thread *t, uint64_t now) {
    if (!t->idle) return;
    put(t, now, IDLE_END, 0, 0, ABSENT, 0);
    t->idle = false;
}

static void start_idling(struct thread *t, uint64_t now) {
    if (t->idle) return;
    put(t, now, IDLE_BEGIN, 0, 0, ABSENT, 0);
    t->idle = true;
}

/* ---- threads and implicit tasks ---- */

static void on_thread_begin(ompt_thread_t kind, ompt_data_t *data) {
    (void)data;
    if (!atomic_load(&tool.on) || self || !(self = make_thread())) return;
    uint64_t now = ticks();
    put(self, now, WORKER_START, 0, 0, ABSENT, 0);
    if (kind == ompt_thread_worker) start_idling(self, now);
}

static void on_thread_end(ompt_data_t *data) {
    (void)data;
    struct thread *t = here();
    if (!t) return;
    close_thread(t);
    self = NULL;
}

struct team {
    uint64_t number;
    uint32_t type;
};

static void on_parallel_begin(ompt_data_t *encountering, const ompt_frame_t *frame, ompt_data_t *parallel, unsigned requested,
                              int flags, const void *code) {
    (void)encountering, (void)frame, (void)requested, (void)flags;
    struct team *team = here() ? malloc(sizeof *team) : NULL;
    if (!team) return;
    team->number = atomic_fetch_add_explicit(&tool.teams, 1, memory_order_relaxed) + 1;
    team->type = type_of_code(code);
    parallel->ptr = team;
}

static void on_parallel_end(ompt_data_t *parallel, ompt_data_t *encountering, int flags, const void *code) {
    (void)encountering, (void)flags, (void)code;
    free(parallel->ptr);
    parallel->ptr = NULL;
}

static void on_implicit_task(ompt_scope_endpoint_t endpoint, ompt_data_t *parallel, ompt_data_t *data, unsigned actual,
                             unsigned index, int flags) {
    (void)index;
    struct thread *t = here();
    struct task *task;
    if (!t) return;
    uint64_t now = ticks();
    if (endpoint == ompt_scope_begin) {
        struct team *team = parallel ? parallel->ptr : NULL;
        if (!(task = new_task(t))) return;
        task->implicit = true;
        task->initial = (flags & ompt_task_initial) != 0;
        task->outer = t->current;
        task->base = t->current && t->current->implicit ? t->current->base : t->current;
        task->followed = !task->base || task->base->followed;
        task->depth = task->base ? task->base->depth : 0;
        task->type = team ? team->type : task->initial ? known.program : known.unknown;
        task->team = team ? team->number : 0;
        task->outer_alone = t->alone;
        data->ptr = task;
        t->current = task;
        t->alone = actual != 1 ? NOT_ALONE : task->initial ? OUTSIDE : TEAM_OF_ONE;
        stop_idling(t, now);
        if (task->followed)
            put(t, now, ENTER, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
        else
            leave_out(t, 1);
        return;
    }
    if (!(task = data->ptr) || t->current != task) return;
    if (task->followed)
        put(t, now, EXIT, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
    else
        leave_out(t, 1);
    t->current = task->outer;
    t->alone = task->outer_alone;
    data->ptr = NULL;
    if (!t->current) start_idling(t, now);
    free_task(t, task);
}

/* ---- explicit tasks ---- */

static uint8_t flags_of(int flags) {
    return (uint8_t)((flags & ompt_task_untied ? UNTIED : 0) | (flags & ompt_task_undeferred ? UNDEFERRED : 0) |
                     (flags & ompt_task_final ? FINAL : 0) | ((unsigned)flags & (unsigned)ompt_task_merged ? MERGED : 0));
}

/* A team of one runs every task at once, and calls all of them undeferred. Those that another team would defer are marked:
 * all but tasks under if(0) and tasks of final ones. What tasks with dependences depend on the runtime does not tell there. */
static int at_once(const struct thread *t, int flags, int has_dependences) {
    const struct task *current = t->current;
    if (t->alone != TEAM_OF_ONE || !(flags & ompt_task_undeferred)) return 0;
    if (has_dependences) return DEPENDENT;
    return !t->begins_if0 && current && !(current->flags & FINAL) && t->linear != current ? AT_ONCE : 0;
}

static void on_task_create(ompt_data_t *encountering, const ompt_frame_t *frame, ompt_data_t *made, int flags, int has_dependences,
                           const void *code) {
    (void)frame, (void)encountering;
    struct thread *t = here();
    struct task *task;
    if (!t || !(flags & ompt_task_explicit) || !(task = new_task(t))) return;
    struct task *current = t->current;
    uint64_t fresh = current && current->creation ? t->fresh : 0; /* its creation has just begun: it was created then */
    ADD(t->ids, 1);
    task->id = (uint64_t)(t->number + 1) << 44 | atomic_load_explicit(&t->ids, memory_order_relaxed);
    task->type = t->creating ? t->creating_type : type_of_code(code);
    unsigned depth = current ? current->depth + (unsigned)!current->implicit : 0;
    task->depth = (uint16_t)(depth < DEPTH_MAX ? depth : DEPTH_MAX);
    task->flags = (uint8_t)(flags_of(flags) | at_once(t, flags, has_dependences));
    bool followed = task->followed = follow(t, task);
    made->ptr = task;
    if (UNLIKELY(followed)) {
        ADD(t->followed, 1);
        put(t, fresh ? fresh : ticks(), CREATE, task->id, 0, task->type, task->flags);
    } else
        leave_out(t, 1);
    if (current) current->creates += current->creates < UINT16_MAX;
    if (t->begins_if0) {
        t->begins_if0 = false;
        leave_creation(t, task->type);
    }
}

/* The task before may end meanwhile, its place in the pool be another's: what was read is true if it still stands there. */
static void on_task_dependence(ompt_data_t *source, ompt_data_t *sink) {
    struct thread *t = here();
    struct task *after = sink ? sink->ptr : NULL;
    struct task *before = source ? __atomic_load_n((struct task **)&source->ptr, __ATOMIC_ACQUIRE) : NULL;
    if (!t || !before || !after) return;
    uint64_t id = __atomic_load_n(&before->id, __ATOMIC_RELAXED);
    bool followed = __atomic_load_n(&before->followed, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_acquire);
    if (__atomic_load_n((struct task **)&source->ptr, __ATOMIC_RELAXED) != before) return;
    if (after->followed && followed)
        put(t, ticks(), DEPENDENCE, after->id, id, ABSENT, 0);
    else
        leave_out(t, 1);
}

static void end_task(struct thread *t, struct task *task, uint64_t now, bool cancelled) {
    if (task->creation) leave_creation(t, t->creating_type); /* whose hand-over was not seen */
    if (!task->begun && !cancelled) return;
    if (task->followed)
        put(t, now, cancelled ? CANCEL : END, task->id, task->stands, ABSENT, 0);
    else {
        leave_out(t, 1);
        if (!cancelled) add_to_cell(t, task);
    }
    if (t->shown == task) t->shown = NULL;
    if (t->due == task) t->due = NULL;
}

static inline bool is_summed(const struct task *task) { return task && !task->implicit && !task->followed; }

/* One task that is not followed makes way for another, as nearly all do where tasks are tiny: what the service gets stays so. */
static inline void pass_on(struct thread *t, struct task *prior, struct task *next, uint64_t now, bool over) {
    unsigned records = next->begun ? 1 : 2; /* if every task were followed */
    if (t->current == prior) spend(prior, now);
    if (over) {
        if (prior->creation) leave_creation(t, t->creating_type); /* whose hand-over was not seen */
        records++;
        add_to_cell(t, prior);
        free_task(t, prior);
    }
    ADD(t->left_out, records);
    next->begun = true;
    next->since = now;
    t->current = t->due = next;
    t->fresh = now;
}

static void on_task_schedule(ompt_data_t *prior_data, ompt_task_status_t status, ompt_data_t *next_data) {
    struct thread *t = here();
    struct task *prior = prior_data ? prior_data->ptr : NULL, *next = next_data ? next_data->ptr : NULL;
    if (!t || status == ompt_taskwait_complete || status == ompt_task_late_fulfill) return;
    uint64_t now = ticks();
    bool ends = status == ompt_task_complete;
    bool over = ends || status == ompt_task_cancel || status == ompt_task_detach || status == ompt_task_early_fulfill;
    if (t->apart && is_summed(prior) && is_summed(next) && t->due != next && (ends || status == ompt_task_switch)) {
        if (ends) __atomic_store_n((struct task **)&prior_data->ptr, NULL, __ATOMIC_RELEASE);
        pass_on(t, prior, next, now, ends);
        return;
    }
    bool apart = is_summed(prior);
    if (apart && t->current == prior) spend(prior, now);
    if (prior && !prior->implicit && over) {
        end_task(t, prior, now, status == ompt_task_cancel);
        __atomic_store_n((struct task **)&prior_data->ptr, NULL, __ATOMIC_RELEASE);
        free_task(t, prior);
    }
    if (!next) return;
    t->current = next;
    if (!next->implicit && !next->followed) next->since = now;
    show(t, next, now);
    if (apart) t->fresh = now; /* the creator of a task that ran at once may take it for the end of its creation */
}

/* ---- synchronisation ---- */

static void begin_sync(struct thread *t, struct task *task, ompt_sync_region_t kind, const void *code) {
    uint8_t waits = kind == ompt_sync_region_taskwait ? TASKWAIT : kind == ompt_sync_region_taskgroup ? TASKGROUP : BARRIER;
    if (task->syncs == SYNC_DEPTH) return;
    if (task->creation) leave_creation(t, t->creating_type); /* whose hand-over was not seen */
    unsigned i = task->syncs++;
    task->sync[i].kind = waits;
    task->sync[i].before = task->bucket;
    task->sync[i].sent = false;
    if (task->followed) {
        /* The end of a parallel region is sent with or without a place, by thread. */
        uint32_t type = waits == BARRIER && kind != ompt_sync_region_barrier_explicit ? known.barrier : type_of_code(code);
        task->sync[i].type = type;
        task->sync[i].sent = put_opening(t, ticks(), SYNC_BEGIN, id_of(task), waits, type);
        return;
    }
    leave_out(t, 1);
    task->waits += task->waits < UINT16_MAX;
    spend(task, ticks());
    task->bucket = WAITS;
}

static void end_sync(struct thread *t, struct task *task) {
    if (!task->syncs) return;
    unsigned i = --task->syncs;
    if (task->followed && task->sync[i].sent)
        put(t, ticks(), SYNC_END, id_of(task), task->sync[i].kind, task->sync[i].type, 0);
    else if (task->followed)
        ADD(t->dropped, 1);
    else {
        leave_out(t, 1);
        spend(task, ticks());
        task->bucket = task->sync[i].before;
    }
}

static void on_sync_region(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *parallel, ompt_data_t *data,
                           const void *code) {
    (void)parallel, (void)data;
    struct thread *t = here();
    struct task *task = t ? t->current : NULL;
    if (!task || kind == ompt_sync_region_reduction) return;
    if (t->alone && !task->followed) { /* the runtime has run its tasks as they were made: there is nothing to wait for */
        leave_out(t, 1);
        task->waits += endpoint == ompt_scope_begin && task->waits < UINT16_MAX;
    } else if (endpoint == ompt_scope_begin)
        begin_sync(t, task, kind, code);
    else
        end_sync(t, task);
}

/* ---- what the program says itself ---- */

static void say(enum kind kind, uint64_t value, const char *name) {
    struct thread *t = here();
    struct task *task = t ? t->current : NULL;
    if (!task) return;
    if (task->followed)
        put(t, ticks(), kind, id_of(task), value, name ? type_at(name, CONSTANT) : ABSENT, 0);
    else
        leave_out(t, 1);
}

static void say_size(double n) {
    uint64_t bits;
    memcpy(&bits, &n, sizeof bits);
    say(SIZE, bits, NULL);
}

static void say_parameter(const char *name, int64_t value) { say(PARAMETER, (uint64_t)value, name); }

__attribute__((visibility("default"))) const struct advisor_task_hooks advisor_task_hooks = {say_size, say_parameter};

void set_callbacks(ompt_set_callback_t set) {
    static const struct {
        ompt_callbacks_t which;
        ompt_callback_t call;
    } calls[] = {
        {ompt_callback_thread_begin, (ompt_callback_t)on_thread_begin},
        {ompt_callback_thread_end, (ompt_callback_t)on_thread_end},
        {ompt_callback_parallel_begin, (ompt_callback_t)on_parallel_begin},
        {ompt_callback_parallel_end, (ompt_callback_t)on_parallel_end},
        {ompt_callback_implicit_task, (ompt_callback_t)on_implicit_task},
        {ompt_callback_task_create, (ompt_callback_t)on_task_create},
        {ompt_callback_task_schedule, (ompt_callback_t)on_task_schedule},
        {ompt_callback_task_dependence, (ompt_callback_t)on_task_dependence},
        {ompt_callback_sync_region, (ompt_callback_t)on_sync_region},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) set(calls[i].which, calls[i].call);
}
