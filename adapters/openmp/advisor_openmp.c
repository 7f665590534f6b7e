/* A tool for OpenMP (OMPT) that sends what tasks do to the advisor, as task events of docs/protocol.md.
 *
 * Built by `make`, loaded by OMP_TOOL_LIBRARIES=.../libadvisor_openmp.so. See docs/openmp.md for what may be set.
 * Licence: Apache-2.0, as the project's.
 *
 * Each thread of the program writes records of 32 bytes into a ring of its own; a helper thread sends them straight from there
 * and frees them when the service has acknowledged them. Nothing in a callback waits, takes a lock that the helper holds for
 * long, or allocates beyond a pool. Where a ring is nearly full, tasks created from then on are not followed: they are summed
 * by thread, type and depth instead, so that the tasks that are followed stay whole.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <omp-tools.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "advisor_task.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { THREADS_MAX = 4096 };          /* as the service has it */
enum { TYPES_MAX = 8192 };            /* places in the program and names of parameters; later ones share one */
enum { TYPES_ROOM = 2 * TYPES_MAX };  /* of the table that finds them: a power of two */
enum { CELLS_MAX = 2048 };            /* sums of a thread, by type and depth: a power of two */
enum { DEPTH_MAX = 1023 };            /* deeper tasks are summed as this deep */
enum { NAME_BYTES_MAX = 200 };        /* of a string on the wire */
enum { BATCH_RECORDS_MAX = 131072 };  /* 4 MiB: half a message of the service */
enum { SYNC_DEPTH = 3 };              /* synchronisations inside each other, of one task: a taskgroup's end in a taskloop */
enum { SWEEP_MS = 20 };               /* how long records wait for others: threads' streams stay within the service's window */
enum { CLOCK_NS = 100000000 };        /* before the first batch, whose anchors fix the clock's rate: to 1 in 10^6 */
enum { NO_KIND = 255 };
#define PUSH_TICKS UINT64_C(100000000000)
enum { STALL_MS = 30000 };            /* a service that says nothing for so long is taken for gone */
enum { BACKOFF_FIRST_MS = 50, BACKOFF_LAST_MS = 2000 };
enum { SAMPLE_FIRST = 64 };           /* of so many tasks one is followed when the others are summed; more where that is too many */

enum kind {
    CREATE, BEGIN, SWITCH, END, CANCEL, ENTER, EXIT, DEPENDENCE, SYNC_BEGIN, SYNC_END, IDLE_BEGIN, IDLE_END, WORKER_START,
    WORKER_STOP, PARAMETER, SIZE
};
enum { UNTIED = 1, UNDEFERRED = 2, FINAL = 4, MERGED = 8 };
enum { PLAIN, CREATION, PARALLEL, MANAGEMENT };
enum { TASKWAIT, BARRIER, TASKGROUP, OTHER };
#define ABSENT UINT32_MAX

struct record {
    uint64_t time, instance, other;
    uint32_t type;
    uint16_t thread;
    uint8_t kind, flags;
};

/* ---- tasks and threads ---- */

enum { WORKS, CREATES, WAITS, BUCKETS };

struct task {
    uint64_t id; /* 0: implicit */
    uint32_t type;
    uint16_t depth, creates;
    uint8_t flags, syncs;
    bool followed, begun, implicit, initial, opened_fork;
    uint8_t bucket;
    uint64_t since, ns[BUCKETS]; /* ticks, of a task that is not followed */
    struct {
        uint32_t type;
        uint8_t kind, before;
    } sync[SYNC_DEPTH];
    struct task *base;  /* of an implicit task: the explicit one that encountered its region on this thread */
    struct task *outer; /* of an implicit task: what this thread ran before */
    uint64_t team;
    struct thread *owner;
    struct task *next; /* when free */
};

/* Sums of tasks that were not followed. The thread adds, the helper reads: a sum is never torn, and the last reading, when the
 * program has ended, has them all. */
struct cell {
    uint32_t type; /* ABSENT: free */
    uint32_t depth;
    uint64_t count, creates, ns[BUCKETS], least, most;
    double squares;
};

struct thread {
    /* the program's side */
    struct record *ring;
    uint64_t mask, room, at, tail_seen, ids;
    struct task *current, *free;
    struct task *shown; /* the explicit task that the service takes to run here; NULL: the implicit one */
    bool apart;         /* tasks that are not followed run, as far as the service knows */
    bool idle;
    uint16_t number;
    uint32_t sampled;
    uint32_t creating_type;
    void *creating; /* the task that was allocated and not handed over */
    bool begins_if0;
    struct cell *cells;
    unsigned used;
    atomic_uint_fast64_t dropped, summed_events;
    /* between both */
    _Alignas(64) atomic_uint_fast64_t head;
    _Alignas(64) atomic_uint_fast64_t tail;
    _Atomic(struct task *) returned; /* tasks of this thread that others have freed */
    atomic_bool taken;
    /* the helper's side */
    uint64_t from, to; /* of the batch in flight */
};

enum mode { FULL, AUTO, SUMS };

static struct {
    atomic_bool on;
    atomic_int mode;
    atomic_uint sample; /* of so many tasks one is followed */
    atomic_int threads;
    _Atomic(struct thread *) thread[THREADS_MAX];
    size_t records; /* of a ring */
    double rate_max;
    int flush_ms;
    pthread_t helper;
    bool helps;
    atomic_bool stopping;
    bool tsc;
    const char *sums;
    uint64_t teams;
    ompt_finalize_tool_t finalize;
} tool;

static __thread struct thread *self __attribute__((tls_model("initial-exec")));

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    if (LIKELY(tool.tsc)) return __rdtsc();
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#endif
    return monotonic_ns();
}

/* The cycle counter serves where it runs at one rate on all cores and in all states. */
static bool tsc_is_constant(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
#else
    return false;
#endif
}

/* ---- types: places in the program, by number ---- */

enum name_kind { AT_CODE, CONSTANT };

static struct {
    _Atomic uintptr_t key[TYPES_ROOM];
    uint32_t number[TYPES_ROOM];
    struct {
        uintptr_t at;
        enum name_kind kind;
    } type[TYPES_MAX];
    atomic_uint count;
    pthread_mutex_t lock;
} types = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned place_of(uintptr_t key) { return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (TYPES_ROOM - 1); }

static uint32_t new_type(uintptr_t key, enum name_kind kind) {
    uint32_t number = 0;
    pthread_mutex_lock(&types.lock);
    unsigned place = place_of(key);
    uintptr_t there;
    while ((there = atomic_load_explicit(&types.key[place], memory_order_relaxed)) && there != key)
        place = (place + 1) & (TYPES_ROOM - 1);
    if (there)
        number = types.number[place];
    else {
        number = atomic_load(&types.count);
        if (number < TYPES_MAX) {
            types.type[number].at = key;
            types.type[number].kind = kind;
            types.number[place] = number;
            atomic_store_explicit(&types.count, number + 1, memory_order_release);
            atomic_store_explicit(&types.key[place], key, memory_order_release);
        } else
            number = 0; /* "elsewhere": the first of all */
    }
    pthread_mutex_unlock(&types.lock);
    return number;
}

static inline uint32_t type_at(const void *key, enum name_kind kind) {
    unsigned place = place_of((uintptr_t)key);
    uintptr_t there;
    while ((there = atomic_load_explicit(&types.key[place], memory_order_acquire))) {
        if (there == (uintptr_t)key) return types.number[place];
        place = (place + 1) & (TYPES_ROOM - 1);
    }
    return new_type((uintptr_t)key, kind);
}

static const char ELSEWHERE[] = "elsewhere", DEPTH[] = "depth", APART[] = "tasks not followed", IMPLICIT_BARRIER[] = "barrier",
                  UNKNOWN_PLACE[] = "unknown place";
static char program_name[NAME_BYTES_MAX];
static uint32_t depth_type, apart_type, barrier_type, program_type;

static inline uint32_t type_of_code(const void *code) {
    return code ? type_at(code, AT_CODE) : type_at(UNKNOWN_PLACE, CONSTANT);
}

/* ---- records ---- */

static inline void put(struct thread *t, uint64_t now, enum kind kind, uint64_t instance, uint64_t other, uint32_t type, int flags) {
    if (UNLIKELY(t->at - t->tail_seen > t->mask)) {
        t->tail_seen = atomic_load_explicit(&t->tail, memory_order_acquire);
        if (t->at - t->tail_seen > t->mask) {
            atomic_store_explicit(&t->dropped, atomic_load_explicit(&t->dropped, memory_order_relaxed) + 1, memory_order_relaxed);
            return;
        }
    }
    struct record *r = &t->ring[t->at & t->mask];
    r->time = now;
    r->instance = instance;
    r->other = other;
    r->type = type;
    r->thread = t->number;
    r->kind = (uint8_t)kind;
    r->flags = (uint8_t)flags;
    atomic_store_explicit(&t->head, ++t->at, memory_order_release);
}

/* In full mode what is not followed is lost: its records are counted as if the ring had dropped them. */
static inline void leave_out(struct thread *t, unsigned records) {
    atomic_uint_fast64_t *count = atomic_load_explicit(&tool.mode, memory_order_relaxed) == FULL ? &t->dropped : &t->summed_events;
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + records, memory_order_relaxed);
}

/* Whether the next task is followed: while there is room for the rest of those that are. */
static inline bool follow(struct thread *t) {
    int mode = atomic_load_explicit(&tool.mode, memory_order_relaxed);
    if (mode == SUMS && ++t->sampled < atomic_load_explicit(&tool.sample, memory_order_relaxed)) return false;
    if (UNLIKELY(t->at - t->tail_seen > t->room)) {
        t->tail_seen = atomic_load_explicit(&t->tail, memory_order_acquire);
        if (t->at - t->tail_seen > t->room) {
            if (mode == AUTO) atomic_store_explicit(&tool.mode, SUMS, memory_order_relaxed);
            return false;
        }
    }
    t->sampled = 0;
    return true;
}

/* ---- sums ---- */

static inline void spend(struct task *task, uint64_t now) {
    task->ns[task->bucket] += now - task->since;
    task->since = now;
}

static void add_to_cell(struct thread *t, const struct task *task) {
    uint32_t depth = task->depth;
    unsigned place = (task->type * 2654435761u + depth * 40503u) & (CELLS_MAX - 1);
    struct cell *cell = &t->cells[place];
    while (cell->type != task->type || cell->depth != depth) {
        if (cell->type == ABSENT) {
            if (t->used >= CELLS_MAX / 2 && depth) { /* no room for further depths: all in one */
                depth = 0;
                place = (task->type * 2654435761u) & (CELLS_MAX - 1);
                cell = &t->cells[place];
                continue;
            }
            if (t->used == CELLS_MAX - 1) return;
            t->used++;
            cell->depth = depth;
            cell->least = UINT64_MAX;
            __atomic_store_n(&cell->type, task->type, __ATOMIC_RELEASE);
            break;
        }
        place = (place + 1) & (CELLS_MAX - 1);
        cell = &t->cells[place];
    }
    uint64_t took = task->ns[WORKS] + task->ns[CREATES] + task->ns[WAITS];
    cell->count++;
    cell->creates += task->creates;
    for (int i = 0; i < BUCKETS; i++) cell->ns[i] += task->ns[i];
    if (took < cell->least) cell->least = took;
    if (took > cell->most) cell->most = took;
    cell->squares += (double)took * (double)took;
}

/* ---- the pool of tasks ---- */

static struct task *new_task(struct thread *t) {
    struct task *task = t->free;
    if (UNLIKELY(!task)) {
        task = atomic_exchange_explicit(&t->returned, NULL, memory_order_acquire);
        if (!task) {
            enum { BLOCK = 256 };
            struct task *block = aligned_alloc(64, sizeof *block * BLOCK);
            if (!block) return NULL;
            for (int i = 0; i < BLOCK; i++) {
                block[i].owner = t;
                block[i].next = i + 1 < BLOCK ? &block[i + 1] : NULL;
            }
            task = block;
        }
    }
    t->free = task->next;
    memset(task, 0, offsetof(struct task, owner));
    return task;
}

static inline void free_task(struct thread *t, struct task *task) {
    struct thread *owner = task->owner;
    if (LIKELY(owner == t)) {
        task->next = t->free;
        t->free = task;
        return;
    }
    task->next = atomic_load_explicit(&owner->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&owner->returned, &task->next, task, memory_order_release, memory_order_relaxed)) {
    }
}

/* ---- what the service is told about who runs ---- */

static void be_apart(struct thread *t, uint64_t now) {
    if (t->apart) return;
    if (t->shown) put(t, now, SWITCH, 0, 0, ABSENT, 0);
    put(t, now, ENTER, 0, PLAIN, apart_type, 0);
    t->shown = NULL;
    t->apart = true;
}

static void be_together(struct thread *t, uint64_t now) {
    if (!t->apart) return;
    put(t, now, EXIT, 0, PLAIN, apart_type, 0);
    t->apart = false;
}

/* `next` runs on the thread from now on. */
static void show(struct thread *t, struct task *next, uint64_t now) {
    struct task *wanted = next && next->implicit ? next->base : next;
    if (wanted && !wanted->followed) {
        be_apart(t, now);
        return;
    }
    be_together(t, now);
    if (wanted == t->shown) return;
    if (wanted && !wanted->begun) {
        wanted->begun = true;
        put(t, now, BEGIN, wanted->id, 0, wanted->type, wanted->flags);
        put(t, now, PARAMETER, wanted->id, wanted->depth, depth_type, 0);
    } else
        put(t, now, SWITCH, wanted ? wanted->id : 0, 0, ABSENT, 0);
    t->shown = wanted;
}

static inline uint64_t id_of(const struct task *task) {
    if (!task) return 0;
    return task->implicit ? (task->base ? task->base->id : 0) : task->id;
}

static void stop_idling(struct thread *t, uint64_t now) {
    if (!t->idle) return;
    put(t, now, IDLE_END, 0, 0, ABSENT, 0);
    t->idle = false;
}

static void start_idling(struct thread *t, uint64_t now) {
    if (t->idle) return;
    put(t, now, IDLE_BEGIN, 0, 0, ABSENT, 0);
    t->idle = true;
}

/* ---- threads ---- */

static struct thread *claim(struct thread *t) {
    bool no = false;
    return t && atomic_compare_exchange_strong(&t->taken, &no, true) ? t : NULL;
}

static struct thread *make_thread(void) {
    struct thread *t;
    int n = atomic_load(&tool.threads);
    for (int i = 0; i < n; i++)
        if ((t = claim(atomic_load(&tool.thread[i])))) return t;
    t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->mask = tool.records - 1;
    t->room = tool.records - tool.records / 8;
    void *ring = mmap(NULL, tool.records * sizeof *t->ring, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    t->cells = malloc(CELLS_MAX * sizeof *t->cells);
    int number = atomic_fetch_add(&tool.threads, 1);
    if (ring == MAP_FAILED || !t->cells || number >= THREADS_MAX) {
        if (ring != MAP_FAILED) munmap(ring, tool.records * sizeof *t->ring);
        free(t->cells);
        free(t);
        atomic_fetch_sub(&tool.threads, number >= THREADS_MAX);
        return NULL;
    }
    memset(t->cells, 0, CELLS_MAX * sizeof *t->cells);
    for (int i = 0; i < CELLS_MAX; i++) t->cells[i].type = ABSENT;
    t->ring = ring;
    t->number = (uint16_t)number;
    atomic_store(&t->taken, true);
    atomic_store_explicit(&tool.thread[number], t, memory_order_release);
    return t;
}

static inline struct thread *here(void) { return LIKELY(atomic_load_explicit(&tool.on, memory_order_relaxed)) ? self : NULL; }

static void on_thread_begin(ompt_thread_t kind, ompt_data_t *data) {
    (void)data;
    if (!atomic_load(&tool.on) || self || !(self = make_thread())) return;
    uint64_t now = ticks();
    put(self, now, WORKER_START, 0, 0, ABSENT, 0);
    if (kind == ompt_thread_worker) start_idling(self, now);
}

static void close_thread(struct thread *t) {
    uint64_t now = ticks();
    be_together(t, now);
    stop_idling(t, now);
    for (struct task *task = t->current; task; task = task->outer) {
        while (task->syncs && task->implicit) {
            task->syncs--;
            put(t, now, SYNC_END, 0, task->sync[task->syncs].kind, task->sync[task->syncs].type, 0);
        }
        if (task->implicit) put(t, now, EXIT, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
    }
    t->current = NULL;
    put(t, now, WORKER_STOP, 0, 0, ABSENT, 0);
    atomic_store(&t->taken, false);
}

static void on_thread_end(ompt_data_t *data) {
    (void)data;
    struct thread *t = here();
    if (!t) return;
    close_thread(t);
    self = NULL;
}

/* ---- parallel regions and implicit tasks ---- */

struct team {
    uint64_t number;
    uint32_t type;
};

static void on_parallel_begin(ompt_data_t *encountering, const ompt_frame_t *frame, ompt_data_t *parallel, unsigned requested,
                              int flags, const void *code) {
    (void)encountering, (void)frame, (void)requested, (void)flags;
    struct thread *t = here();
    if (!t) return;
    struct team *team = malloc(sizeof *team);
    if (!team) return;
    team->number = __atomic_add_fetch(&tool.teams, 1, __ATOMIC_RELAXED);
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
    (void)actual, (void)index;
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
        task->type = team ? team->type : task->initial ? program_type : type_of_code(NULL);
        task->team = team ? team->number : 0;
        data->ptr = task;
        t->current = task;
        stop_idling(t, now);
        if (task->followed) put(t, now, ENTER, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
        return;
    }
    if (!(task = data->ptr) || t->current != task) return;
    if (task->followed) put(t, now, EXIT, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
    t->current = task->outer;
    data->ptr = NULL;
    if (!t->current) start_idling(t, now);
    free_task(t, task);
}

/* ---- explicit tasks ---- */

static uint8_t flags_of(int flags) {
    return (uint8_t)((flags & ompt_task_untied ? UNTIED : 0) | (flags & ompt_task_undeferred ? UNDEFERRED : 0) |
                     (flags & ompt_task_final ? FINAL : 0) | ((unsigned)flags & (unsigned)ompt_task_merged ? MERGED : 0));
}

static void leave_creation(struct thread *t, uint64_t now, uint32_t type) {
    struct task *current = t->current;
    if (!current) return;
    if (current->followed)
        put(t, now, EXIT, id_of(current), CREATION, type, 0);
    else {
        leave_out(t, 1);
        spend(current, now);
        current->bucket = WORKS;
    }
}

static void on_task_create(ompt_data_t *encountering, const ompt_frame_t *frame, ompt_data_t *made, int flags, int has_dependences,
                           const void *code) {
    (void)frame, (void)has_dependences, (void)encountering;
    struct thread *t = here();
    struct task *task;
    if (!t || !(flags & ompt_task_explicit) || !(task = new_task(t))) return;
    struct task *current = t->current;
    task->id = (uint64_t)(t->number + 1) << 44 | ++t->ids;
    task->type = t->creating ? t->creating_type : type_of_code(code);
    unsigned depth = current ? current->depth + (unsigned)!current->implicit : 0;
    task->depth = (uint16_t)(depth < DEPTH_MAX ? depth : DEPTH_MAX);
    task->flags = flags_of(flags);
    task->followed = follow(t);
    made->ptr = task;
    if (task->followed)
        put(t, ticks(), CREATE, task->id, 0, task->type, task->flags);
    else
        leave_out(t, 1);
    if (current) current->creates += current->creates < UINT16_MAX;
    if (t->begins_if0) {
        t->begins_if0 = false;
        leave_creation(t, ticks(), task->type);
    }
}

static void on_task_dependence(ompt_data_t *source, ompt_data_t *sink) {
    struct thread *t = here();
    struct task *before = source ? source->ptr : NULL, *after = sink ? sink->ptr : NULL;
    if (!t || !before || !after) return;
    if (after->followed && before->followed)
        put(t, ticks(), DEPENDENCE, after->id, before->id, ABSENT, 0);
    else
        leave_out(t, 1);
}

static void on_task_schedule(ompt_data_t *prior_data, ompt_task_status_t status, ompt_data_t *next_data) {
    struct thread *t = here();
    struct task *prior = prior_data ? prior_data->ptr : NULL, *next = next_data ? next_data->ptr : NULL;
    if (!t || status == ompt_taskwait_complete || status == ompt_task_late_fulfill) return;
    uint64_t now = ticks();
    bool over = status == ompt_task_complete || status == ompt_task_cancel || status == ompt_task_detach || status == ompt_task_early_fulfill;
    if (prior && !prior->implicit) {
        if (!prior->followed) {
            leave_out(t, 1);
            if (t->current == prior) spend(prior, now);
        }
        if (over) {
            if (prior->followed && (prior->begun || status == ompt_task_cancel)) {
                put(t, now, status == ompt_task_cancel ? CANCEL : END, prior->id, 0, ABSENT, 0);
                if (t->shown == prior) t->shown = NULL;
            } else if (!prior->followed && status != ompt_task_cancel)
                add_to_cell(t, prior);
            prior_data->ptr = NULL;
            free_task(t, prior);
        }
    }
    if (!next) return;
    t->current = next;
    if (!next->implicit && !next->followed) {
        leave_out(t, 1);
        next->since = now;
        next->begun = true;
    }
    show(t, next, now);
}

static void on_sync_region(ompt_sync_region_t kind, ompt_scope_endpoint_t endpoint, ompt_data_t *parallel, ompt_data_t *data,
                           const void *code) {
    (void)parallel, (void)data;
    struct thread *t = here();
    struct task *task = t ? t->current : NULL;
    if (!task || kind == ompt_sync_region_reduction) return;
    uint64_t now = ticks();
    if (endpoint == ompt_scope_begin) {
        if (task->syncs == SYNC_DEPTH) return;
        uint8_t waits = kind == ompt_sync_region_taskwait ? TASKWAIT : kind == ompt_sync_region_taskgroup ? TASKGROUP : BARRIER;
        /* The end of a parallel region is told with or without a place, by thread. */
        uint32_t type = waits == BARRIER && kind != ompt_sync_region_barrier_explicit ? barrier_type : type_of_code(code);
        task->sync[task->syncs].kind = waits;
        task->sync[task->syncs].type = type;
        task->sync[task->syncs].before = task->bucket;
        task->syncs++;
        if (task->followed)
            put(t, now, SYNC_BEGIN, id_of(task), waits, type, 0);
        else {
            leave_out(t, 1);
            spend(task, now);
            task->bucket = WAITS;
        }
        return;
    }
    if (!task->syncs) return;
    task->syncs--;
    if (task->followed)
        put(t, now, SYNC_END, id_of(task), task->sync[task->syncs].kind, task->sync[task->syncs].type, 0);
    else {
        leave_out(t, 1);
        spend(task, now);
        task->bucket = task->sync[task->syncs].before;
    }
}

/* ---- what the program says itself ---- */

static void say_size(double n) {
    struct thread *t = here();
    uint64_t bits;
    if (!t || !t->current || !t->current->followed) return;
    memcpy(&bits, &n, sizeof bits);
    put(t, ticks(), SIZE, id_of(t->current), bits, ABSENT, 0);
}

static void say_parameter(const char *name, int64_t value) {
    struct thread *t = here();
    if (!t || !t->current || !t->current->followed) return;
    put(t, ticks(), PARAMETER, id_of(t->current), (uint64_t)value, type_at(name, CONSTANT), 0);
}

__attribute__((visibility("default"))) const struct advisor_task_hooks advisor_task_hooks = {say_size, say_parameter};

/* ---- how long a creation takes: OMPT tells that a task was created, not when that began and ended ----
 *
 * The compiler calls __kmpc_omp_task_alloc, copies what the task captures, and hands the task over. The tool puts itself between
 * the program's modules and the runtime, in their tables of imported functions; ADVISOR_OPENMP_CREATION=0 leaves them alone. */

typedef void *alloc_t(void *, int32_t, int32_t, size_t, size_t, void *);
typedef int32_t hand_t(void *, int32_t, void *);
typedef int32_t hand_dependent_t(void *, int32_t, void *, int32_t, void *, int32_t, void *);
typedef void if0_t(void *, int32_t, void *);
typedef void loop_t(void *, int, void *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, void *);
static alloc_t *real_alloc;
static hand_t *real_hand;
static hand_dependent_t *real_hand_dependent;
static if0_t *real_if0;
static loop_t *real_loop;

static void *wrapped_alloc(void *place, int32_t gtid, int32_t flags, size_t task_bytes, size_t shared_bytes, void *entry) {
    struct thread *t = here();
    if (!t || !t->current) return real_alloc(place, gtid, flags, task_bytes, shared_bytes, entry);
    struct task *current = t->current;
    uint64_t now = ticks();
    t->creating_type = type_of_code(__builtin_return_address(0));
    if (current->followed)
        put(t, now, ENTER, id_of(current), CREATION, t->creating_type, 0);
    else {
        leave_out(t, 1);
        if (!current->implicit) spend(current, now);
        current->bucket = CREATES;
    }
    return t->creating = real_alloc(place, gtid, flags, task_bytes, shared_bytes, entry);
}

/* Take note that the task is about to be handed over: whatever runs inside makes tasks of its own. */
#define HAND_OVER(CALL, TASK)                                                     \
    struct thread *t = here();                                                    \
    bool creates = t && t->creating && t->creating == (TASK);                     \
    uint32_t type = creates ? t->creating_type : 0;                               \
    int32_t result = (CALL);                                                      \
    if (creates && (t = here())) {                                                \
        t->creating = NULL;                                                       \
        leave_creation(t, ticks(), type);                                         \
    }                                                                             \
    return result

static int32_t wrapped_hand(void *place, int32_t gtid, void *task) { HAND_OVER(real_hand(place, gtid, task), task); }

static int32_t wrapped_hand_dependent(void *place, int32_t gtid, void *task, int32_t n, void *list, int32_t n_more, void *more) {
    HAND_OVER(real_hand_dependent(place, gtid, task, n, list, n_more, more), task);
}

static void wrapped_if0(void *place, int32_t gtid, void *task) {
    struct thread *t = here();
    if (t && t->creating == task) t->begins_if0 = true; /* the creation ends before the task begins: see on_task_create */
    real_if0(place, gtid, task);
    if (t) t->creating = NULL, t->begins_if0 = false;
}

static int32_t hand_loop(void *place, int gtid, void *task, int if_value, uint64_t *low, uint64_t *high, int64_t step, int nogroup,
                         int schedule, uint64_t grain, void *copy) {
    real_loop(place, gtid, task, if_value, low, high, step, nogroup, schedule, grain, copy);
    return 0;
}

static int32_t loop_handed(void *place, int gtid, void *task, int if_value, uint64_t *low, uint64_t *high, int64_t step, int nogroup,
                           int schedule, uint64_t grain, void *copy) {
    HAND_OVER(hand_loop(place, gtid, task, if_value, low, high, step, nogroup, schedule, grain, copy), task);
}

static void wrapped_loop(void *place, int gtid, void *task, int if_value, uint64_t *low, uint64_t *high, int64_t step, int nogroup,
                         int schedule, uint64_t grain, void *copy) {
    loop_handed(place, gtid, task, if_value, low, high, step, nogroup, schedule, grain, copy);
}

static struct {
    const char *name;
    void **real, *wrapped;
} const wraps[] = {
    {"__kmpc_omp_task_alloc", (void **)&real_alloc, (void *)wrapped_alloc},
    {"__kmpc_omp_task", (void **)&real_hand, (void *)wrapped_hand},
    {"__kmpc_omp_task_with_deps", (void **)&real_hand_dependent, (void *)wrapped_hand_dependent},
    {"__kmpc_omp_task_begin_if0", (void **)&real_if0, (void *)wrapped_if0},
    {"__kmpc_taskloop", (void **)&real_loop, (void *)wrapped_loop},
};
enum { WRAPS = sizeof wraps / sizeof *wraps };

#if defined(__x86_64__)
enum { SLOT_A = R_X86_64_JUMP_SLOT, SLOT_B = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { SLOT_A = R_AARCH64_JUMP_SLOT, SLOT_B = R_AARCH64_GLOB_DAT };
#else
enum { SLOT_A = -1, SLOT_B = -1 };
#endif

static void patch(uintptr_t slot, void *value, const ElfW(Phdr) * relro, uintptr_t base) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = slot & ~(page - 1);
    bool locked = relro && slot >= base + relro->p_vaddr && slot < base + relro->p_vaddr + relro->p_memsz;
    if (locked && mprotect((void *)at, page, PROT_READ | PROT_WRITE)) return;
    __atomic_store_n((void **)slot, value, __ATOMIC_RELEASE);
    if (locked) mprotect((void *)at, page, PROT_READ);
}

static int patch_module(struct dl_phdr_info *module, size_t size, void *mine) {
    const ElfW(Phdr) *relro = NULL;
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    (void)size;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC) dynamic = (const void *)(module->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_GNU_RELRO) relro = part;
        if (part->p_type == PT_LOAD && (uintptr_t)mine - (module->dlpi_addr + part->p_vaddr) < part->p_memsz) return 0;
    }
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) symbols = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB) strings = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_JMPREL) tables[0] = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_RELA) tables[1] = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELASZ) bytes[1] = dynamic->d_un.d_val;
    }
    /* glibc relocates these pointers; the kernel's own module does not, and has none of these functions. */
    if (!symbols || !strings || (uintptr_t)symbols < module->dlpi_addr || (uintptr_t)strings < module->dlpi_addr) return 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; tables[k] && i < bytes[k] / sizeof *tables[k]; i++) {
            const ElfW(Rela) *slot = &tables[k][i];
            int type = (int)ELF64_R_TYPE(slot->r_info);
            if (type != SLOT_A && type != SLOT_B) continue;
            const char *name = strings + symbols[ELF64_R_SYM(slot->r_info)].st_name;
            if (strncmp(name, "__kmpc_", 7)) continue;
            for (int w = 0; w < WRAPS; w++)
                if (*wraps[w].real && !strcmp(name, wraps[w].name))
                    patch(module->dlpi_addr + slot->r_offset, wraps[w].wrapped, relro, module->dlpi_addr);
        }
    return 0;
}

static void watch_creation(ompt_function_lookup_t lookup) {
    const char *wish = getenv("ADVISOR_OPENMP_CREATION");
    Dl_info runtime;
    if ((wish && !strcmp(wish, "0")) || SLOT_A < 0 || !dladdr((void *)lookup, &runtime) || !runtime.dli_fname) return;
    void *library = dlopen(runtime.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    for (int w = 0; w < WRAPS; w++) *wraps[w].real = dlsym(library, wraps[w].name);
    if (real_alloc && real_hand) dl_iterate_phdr(patch_module, (void *)lookup);
}

#include "sending.h"

/* ---- beginning and end ---- */

static double number_from(const char *name, double otherwise, double least, double most) {
    const char *text = getenv(name);
    char *end;
    double value = text ? strtod(text, &end) : otherwise;
    if (!text || end == text) return otherwise;
    return value < least ? least : value > most ? most : value;
}

static void in_child(void) { /* a forked child has no helper: it is not watched */
    atomic_store(&tool.on, false);
    tool.helps = false;
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data) {
    (void)device, (void)data;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
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
    if (!set || tool.helps) return 0;
    tool.finalize = (ompt_finalize_tool_t)lookup("ompt_finalize_tool");
    type_at(ELSEWHERE, CONSTANT);
    depth_type = type_at(DEPTH, CONSTANT);
    apart_type = type_at(APART, CONSTANT);
    barrier_type = type_at(IMPLICIT_BARRIER, CONSTANT);
    snprintf(program_name, sizeof program_name, "%s", program_invocation_short_name);
    program_type = type_at(program_name, CONSTANT);
    pthread_atfork(NULL, NULL, in_child);
    if (!start_sending()) return 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) set(calls[i].which, calls[i].call);
    watch_creation(lookup);
    atomic_store(&tool.on, true);
    return 1;
}

static void finish(ompt_data_t *data) {
    (void)data;
    if (!atomic_exchange(&tool.on, false)) return;
    if (self) close_thread(self);
    self = NULL;
    /* What lies within the service's window of time is folded when something later comes: a record that it refuses. */
    struct thread *t = atomic_load(&tool.thread[0]);
    if (t) put(t, ticks() + PUSH_TICKS, NO_KIND, 0, 0, ABSENT, 0);
    stop_sending();
}

__attribute__((visibility("default"))) ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
    static ompt_start_tool_result_t result = {start, finish, {0}};
    const char *mode = getenv("ADVISOR_OPENMP_MODE");
    double records = number_from("ADVISOR_OPENMP_BUFFER", 262144, 1024, 16777216);
    (void)version, (void)runtime;
    for (tool.records = 1024; (double)tool.records < records;) tool.records *= 2;
    tool.rate_max = number_from("ADVISOR_OPENMP_RATE", 2e6, 1.0, 1e12);
    tool.flush_ms = (int)number_from("ADVISOR_OPENMP_FLUSH_MS", 10000, 0, 3600000);
    tool.sums = getenv("ADVISOR_OPENMP_SUMS");
    tool.tsc = tsc_is_constant();
    atomic_store(&tool.sample, SAMPLE_FIRST);
    atomic_store(&tool.mode, mode && !strcmp(mode, "full") ? FULL : mode && !strcmp(mode, "sums") ? SUMS : AUTO);
    if (mode && !strcmp(mode, "off")) return NULL;
    return &result;
}
