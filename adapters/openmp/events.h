/* What a thread writes while the program runs: records into a ring of its own, and sums of tasks whose records it leaves out. */
#ifndef EVENTS_H
#define EVENTS_H

#include <omp-tools.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* A number that one thread writes and others may read: a plain addition, for no other writes it. */
#define ADD(NUMBER, MORE) \
    atomic_store_explicit(&(NUMBER), atomic_load_explicit(&(NUMBER), memory_order_relaxed) + (MORE), memory_order_relaxed)

enum { THREADS_MAX = 4096 };  /* as the service has it */
enum { CELLS_MAX = 2048 };    /* sums of a thread, by type and depth: a power of two */
enum { DEPTH_MAX = 1023 };    /* deeper tasks are summed as this deep */
enum { NAME_BYTES_MAX = 200 }; /* of a string on the wire */
enum { SYNC_DEPTH = 3 };      /* synchronisations inside each other, of one task: a taskgroup's end in a taskloop */
#define ABSENT UINT32_MAX

/* As docs/profiling.md has them. */
enum kind {
    CREATE, BEGIN, SWITCH, END, CANCEL, ENTER, EXIT, DEPENDENCE, SYNC_BEGIN, SYNC_END, IDLE_BEGIN, IDLE_END, WORKER_START,
    WORKER_STOP, PARAMETER, SIZE
};
enum { UNTIED = 1, UNDEFERRED = 2, FINAL = 4, MERGED = 8, AT_ONCE = 16, DEPENDENT = 32 };
enum { PLAIN, CREATION, PARALLEL, MANAGEMENT, APART };
enum { TASKWAIT, BARRIER, TASKGROUP, OTHER };

struct record {
    uint64_t time, instance, other;
    uint32_t type;
    uint16_t thread;
    uint8_t kind, flags;
};

enum { WORKS, CREATES, WAITS, BUCKETS };
enum { NOT_ALONE, OUTSIDE, TEAM_OF_ONE }; /* of a thread: whether others have its team's tasks, too; OUTSIDE of regions none has */

struct task {
    uint64_t id; /* 0: implicit */
    uint32_t type;
    uint16_t depth, creates, waits;
    uint8_t flags, syncs, bucket;
    bool followed, begun, implicit, initial;
    uint32_t stands;     /* for so many tasks, of a sample; 0: for itself */
    uint8_t creation;    /* it creates a task, and the service knows, or does not: see creation.c */
    uint64_t since, ns[BUCKETS]; /* ticks, of a task that is not followed */
    struct {
        uint32_t type;
        uint8_t kind, before;
        bool sent;
    } sync[SYNC_DEPTH];
    uint8_t outer_alone; /* of an implicit task: what its thread was before */
    struct task *base;  /* of an implicit task: the explicit one that encountered its region on this thread */
    struct task *outer; /* of an implicit task: what this thread ran before */
    uint64_t team;
    struct thread *owner;
    struct task *next; /* when free */
};

/* Sums of tasks that are not followed. Their thread writes them, between two steps of `version`; the helper reads. */
struct cell {
    _Atomic uint32_t type; /* ABSENT: free */
    uint32_t depth;
    atomic_uint version; /* odd while it is written */
    _Atomic uint64_t count, creates, waits, ticks[BUCKETS], least, most;
    _Atomic double squares;
};

/* As docs/protocol.md has them; times in ticks. */
struct sum {
    uint32_t type, parameter;
    int64_t value;
    uint64_t count, work, creation, waiting, creates, waits, least, most;
    double squares;
};

struct thread {
    /* the program's side */
    struct record *ring;
    uint64_t mask, room, at, tail_seen;
    _Atomic uint64_t ids; /* tasks that it has made */
    struct task *current, *free;
    struct task *shown; /* the explicit task that the service takes to run here; NULL: the implicit one */
    struct task *due;   /* the one that it would take to run here if every task were followed */
    bool apart;         /* tasks that are not followed run, as far as the service knows */
    bool idle, begins_if0;
    uint8_t alone; /* the only thread of its team: others have none of its tasks */
    uint16_t number;
    uint64_t fresh;  /* time of the last event where nothing came since and it may stand for the next, too; 0: none */
    uint64_t random; /* which tasks are followed when most are not */
    uint32_t skip, stands, creating_type; /* stands: for so many tasks the next one that is followed */
    void *creating;            /* the task that was allocated and not handed over */
    const struct task *linear; /* the task that is in a taskloop which the program wants undeferred */
    struct cell *cells;
    unsigned used;
    /* Records that found no room; those of tasks that are not followed; and those that only say that tasks are not. So
     * head - extra + dropped + left_out is how many records there are of the program, whatever is sent. */
    _Atomic uint64_t dropped, left_out, extra, followed;
    _Atomic uint64_t held_ns; /* that it waited for room */
    /* between both */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic(struct task *) returned; /* tasks of this thread that others have freed */
    atomic_bool taken;
    /* the helper's side */
    uint64_t from, to; /* of the batch in flight */
    struct sum *reported; /* of each cell, what batches have said */
};

enum mode { FULL, AUTO, SUMS };

extern struct tool {
    atomic_bool on;
    atomic_int mode, threads;
    atomic_uint sample; /* of so many tasks one is followed */
    _Atomic(struct thread *) thread[THREADS_MAX];
    size_t records; /* of a ring */
    double rate_max;
    int flush_ms;
    atomic_bool stopping;
    atomic_bool waits; /* a full ring holds its thread up: every event goes into a file */
    bool tsc;
    _Atomic uint64_t teams;
} tool;

extern __thread struct thread *self __attribute__((tls_model("initial-exec")));

static inline struct thread *here(void) { return LIKELY(atomic_load_explicit(&tool.on, memory_order_relaxed)) ? self : NULL; }

/* ---- time ---- */

static inline uint64_t monotonic_ns(void) {
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

/* ---- records ---- */

bool wait_for_room(struct thread *t, uint64_t used);

static inline bool room_beyond(struct thread *t, uint64_t used) {
    if (LIKELY(t->at - t->tail_seen < used)) return true;
    t->tail_seen = atomic_load_explicit(&t->tail, memory_order_acquire);
    return t->at - t->tail_seen < used || (atomic_load_explicit(&tool.waits, memory_order_relaxed) && wait_for_room(t, used));
}

static inline void write_record(struct thread *t, uint64_t now, enum kind kind, uint64_t instance, uint64_t other, uint32_t type,
                                int flags) {
    struct record *r = &t->ring[t->at & t->mask];
    r->time = now;
    r->instance = instance;
    r->other = other;
    r->type = type;
    r->thread = t->number;
    r->kind = (uint8_t)kind;
    r->flags = (uint8_t)flags;
    t->fresh = 0;
    atomic_store_explicit(&t->head, ++t->at, memory_order_release);
}

/* Put a record that closes something, or that belongs to a task that is followed: up to the last place. */
static inline bool put(struct thread *t, uint64_t now, enum kind kind, uint64_t instance, uint64_t other, uint32_t type, int flags) {
    if (UNLIKELY(!room_beyond(t, t->mask + 1))) {
        ADD(t->dropped, 1);
        return false;
    }
    write_record(t, now, kind, instance, other, type, flags);
    return true;
}

/* Put a record that another one will close: while there is room for that one, too. */
static inline bool put_opening(struct thread *t, uint64_t now, enum kind kind, uint64_t instance, uint64_t other, uint32_t type) {
    if (UNLIKELY(!room_beyond(t, t->room))) {
        ADD(t->dropped, 1);
        return false;
    }
    write_record(t, now, kind, instance, other, type, 0);
    return true;
}

/* Put a record that would not be if every task were followed. */
static inline bool put_extra(struct thread *t, uint64_t now, enum kind kind, uint64_t instance, uint64_t other, uint32_t type) {
    if (!room_beyond(t, t->mask + 1)) return false;
    write_record(t, now, kind, instance, other, type, 0);
    ADD(t->extra, 1);
    return true;
}

/* Records of a task that is not followed. In full mode that is a loss; else the sums stand for them. */
static inline void leave_out(struct thread *t, unsigned records) {
    ADD(t->left_out, records);
    t->fresh = 0;
}

/* ---- sums ---- */

static inline void spend(struct task *task, uint64_t now) {
    task->ns[task->bucket] += now - task->since;
    task->since = now;
}

void add_to_cell(struct thread *t, const struct task *task);

/* ---- threads and the pool of their tasks ---- */

struct thread *make_thread(void);
void close_thread(struct thread *t);
struct task *more_tasks(struct thread *t);

static inline struct task *new_task(struct thread *t) {
    struct task *task = t->free;
    if (UNLIKELY(!task) && !(task = more_tasks(t))) return NULL;
    t->free = task->next;
    __builtin_memset(task, 0, offsetof(struct task, sync)); /* the rest is written before it is read */
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

/* ---- types: places in the program and names, by number ---- */

enum name_kind { AT_CODE, CONSTANT };

enum { TYPES_MAX = 4096 };           /* later ones are called "elsewhere", the first of all; 200 bytes each fit into a batch */
enum { TYPES_ROOM = 4 * TYPES_MAX }; /* of the table that finds them: a power of two */

extern struct types {
    _Atomic uintptr_t key[TYPES_ROOM];
    uint32_t number[TYPES_ROOM];
} types;

uint32_t search_type(uintptr_t key, enum name_kind kind);
uint32_t types_count(void);

static inline unsigned place_of(uintptr_t key) {
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & (TYPES_ROOM - 1);
}

static inline uint32_t type_at(const void *key, enum name_kind kind) {
    unsigned place = place_of((uintptr_t)key);
    if (LIKELY(atomic_load_explicit(&types.key[place], memory_order_acquire) == (uintptr_t)key)) return types.number[place];
    return search_type((uintptr_t)key, kind);
}

void name_type(uint32_t type, char out[NAME_BYTES_MAX + 1]);

/* ---- the rest of the tool, by file ---- */

struct types_known {
    uint32_t depth, apart, barrier, program, unknown;
};
extern struct types_known known;

static inline uint32_t type_of_code(const void *code) { return code ? type_at(code, AT_CODE) : known.unknown; }

static inline uint64_t id_of(const struct task *task) {
    return !task ? 0 : !task->implicit ? task->id : task->base ? task->base->id : 0;
}

void set_callbacks(ompt_set_callback_t set);
void leave_creation(struct thread *t, uint32_t type);
void be_together(struct thread *t, uint64_t now);
void stop_idling(struct thread *t, uint64_t now);
void watch_creation(const void *runtime);

void wake_helper(void);
bool start_sending(void);
void stop_sending(void);

#endif
