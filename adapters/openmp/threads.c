/* Threads of the program, the pools of their tasks, and their sums. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "events.h"

__thread struct thread *self;

static struct thread *claim(struct thread *t) {
    bool no = false;
    return t && atomic_compare_exchange_strong(&t->taken, &no, true) ? t : NULL;
}

static struct cell *new_cells(void) {
    struct cell *cells = calloc(CELLS_MAX, sizeof *cells);
    for (int i = 0; cells && i < CELLS_MAX; i++) atomic_init(&cells[i].type, ABSENT);
    return cells;
}

/* The ring is not touched before it is used, and all of it only by who writes much between two sweeps of the helper. */
static bool equip(struct thread *t) {
    size_t bytes = tool.records * sizeof *t->ring;
    void *ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    t->cells = new_cells();
    t->reported = calloc(CELLS_MAX, sizeof *t->reported);
    t->mask = tool.records - 1;
    t->room = tool.records - tool.records / 8;
    t->ring = ring;
    if (ring != MAP_FAILED && t->cells && t->reported) return true;
    if (ring != MAP_FAILED) munmap(ring, bytes);
    free(t->cells);
    free(t->reported);
    return false;
}

/* A thread that has ended leaves its ring to the next one, which takes its number. */
struct thread *make_thread(void) {
    struct thread *t;
    int n = atomic_load(&tool.threads);
    for (int i = 0; i < n && i < THREADS_MAX; i++)
        if ((t = claim(atomic_load(&tool.thread[i])))) return t;
    if (n >= THREADS_MAX || !(t = aligned_alloc(64, (sizeof *t + 63) & ~(size_t)63))) return NULL;
    memset(t, 0, sizeof *t);
    if (!equip(t)) {
        free(t);
        return NULL;
    }
    int number = atomic_fetch_add(&tool.threads, 1);
    if (number >= THREADS_MAX) { /* others came first: as many as there may be; this one is not watched */
        atomic_fetch_sub(&tool.threads, 1);
        return NULL;
    }
    t->number = (uint16_t)number;
    t->random = (uint64_t)number * 2 + 1;
    atomic_store(&t->taken, true);
    atomic_store_explicit(&tool.thread[number], t, memory_order_release);
    return t;
}

/* Close what is open on a thread that ends. */
void close_thread(struct thread *t) {
    uint64_t now = ticks();
    be_together(t, now);
    stop_idling(t, now);
    for (struct task *task = t->current; task; task = task->outer) {
        while (task->syncs && task->implicit) {
            task->syncs--;
            if (task->sync[task->syncs].sent) put(t, now, SYNC_END, 0, task->sync[task->syncs].kind, task->sync[task->syncs].type, 0);
        }
        if (task->implicit) put(t, now, EXIT, task->team, task->initial ? PLAIN : PARALLEL, task->type, 0);
    }
    t->current = t->shown = t->due = NULL;
    put(t, now, WORKER_STOP, 0, 0, ABSENT, 0);
    atomic_store(&t->taken, false);
}

/* Wait until the helper has made room in the ring; false where it has ended. */
bool wait_for_room(struct thread *t, uint64_t used) {
    const struct timespec pause = {.tv_nsec = 50000}; /* the helper writes a batch in some hundred microseconds */
    uint64_t since = monotonic_ns();
    bool room = false;
    wake_helper();
    while (!room && atomic_load(&tool.waits)) {
        nanosleep(&pause, NULL);
        t->tail_seen = atomic_load_explicit(&t->tail, memory_order_acquire);
        room = t->at - t->tail_seen < used;
    }
    ADD(t->held_ns, monotonic_ns() - since);
    return room;
}

/* Take back what others have freed; else a block of tasks, which is never returned: their number is what was open at once. */
struct task *more_tasks(struct thread *t) {
    enum { BLOCK = 256 };
    struct task *task = atomic_exchange_explicit(&t->returned, NULL, memory_order_acquire);
    if (task) return task;
    struct task *block = aligned_alloc(64, sizeof *block * BLOCK);
    if (!block) return NULL;
    for (int i = 0; i < BLOCK; i++) {
        block[i].owner = t;
        block[i].next = i + 1 < BLOCK ? &block[i + 1] : NULL;
    }
    return block;
}

static struct cell *cell_of(struct thread *t, uint32_t type, uint32_t depth) {
    unsigned place = (type * 2654435761u + depth * 40503u) & (CELLS_MAX - 1);
    for (;;) {
        struct cell *cell = &t->cells[place];
        uint32_t there = atomic_load_explicit(&cell->type, memory_order_relaxed);
        if (there == type && cell->depth == depth) return cell;
        if (there == ABSENT) {
            if (t->used >= CELLS_MAX / 2 && depth) return cell_of(t, type, 0); /* no room for more depths: all in one */
            if (t->used == CELLS_MAX - 1) return NULL;
            t->used++;
            cell->depth = depth;
            atomic_store_explicit(&cell->least, UINT64_MAX, memory_order_relaxed);
            atomic_store_explicit(&cell->type, type, memory_order_release);
            return cell;
        }
        place = (place + 1) & (CELLS_MAX - 1);
    }
}

void add_to_cell(struct thread *t, const struct task *task) {
    struct cell *cell = cell_of(t, task->type, task->depth);
    if (!cell) return;
    uint64_t took = task->ns[WORKS] + task->ns[CREATES] + task->ns[WAITS];
    unsigned version = atomic_load_explicit(&cell->version, memory_order_relaxed);
    atomic_store_explicit(&cell->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    ADD(cell->count, 1);
    ADD(cell->creates, task->creates);
    ADD(cell->waits, task->waits);
    for (int i = 0; i < BUCKETS; i++) ADD(cell->ticks[i], task->ns[i]);
    if (took < atomic_load_explicit(&cell->least, memory_order_relaxed))
        atomic_store_explicit(&cell->least, took, memory_order_relaxed);
    if (took > atomic_load_explicit(&cell->most, memory_order_relaxed))
        atomic_store_explicit(&cell->most, took, memory_order_relaxed);
    ADD(cell->squares, (double)(int64_t)took * (double)(int64_t)took);
    atomic_store_explicit(&cell->version, version + 2, memory_order_release);
}
