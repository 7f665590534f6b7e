/* The helper: it empties the rings, a batch at a time, and reads the sums; it alone runs this, but for start and stop. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sending.h"

enum { SWEEP_MS = 20 };        /* how long records wait for others: threads' streams stay within the service's window */
enum { BUSY_MS = 2 };          /* where much came */
enum { CLOCK_NS = 50000000 };  /* before the first batch, whose anchors fix the clock's rate: to 1 in 10^6 */
enum { SUMS_MS = 500 };        /* between two readings of the sums */
enum { JUDGED_NS = 50000000 }; /* between two looks at the rate */
enum { BACKOFF_FIRST_MS = 50, BACKOFF_LAST_MS = 2000 };
enum { GONE_MS = 500 }; /* how long a program that ends waits for a service that went away: it may be starting again */
enum { SAMPLE_MAX = 1 << 20 };

struct batch batch;
char producer[NAME_BYTES_MAX];
unsigned char incarnation[16];
int64_t deadline_ms;

static pthread_t helper;
static sem_t wake;
static bool helps, over, done; /* over: nothing more can be sent; done: all is */
static const struct destination *destination;
static const char *report;
static int64_t sums_at_ms;
static uint64_t sent_records;
static uint32_t strings_known;

int64_t now_ms(void) { return (int64_t)(monotonic_ns() / 1000000u); }

/* Rest, at most until the program ends. */
static void rest(int ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&wake, &until) && errno == EINTR) {
    }
}

void wake_helper(void) { sem_post(&wake); }

static struct thread *thread_at(int i) { return atomic_load_explicit(&tool.thread[i], memory_order_acquire); }

static int threads(void) {
    int n = atomic_load(&tool.threads);
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* One moment on both clocks: of several tries the one that took least. */
static void take_anchor(uint64_t anchor[2]) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = ticks(), ns = monotonic_ns(), after = ticks();
        if (after - before < best) {
            best = after - before;
            anchor[0] = before + (after - before) / 2;
            anchor[1] = ns;
        }
    }
}

/* ---- what a batch holds ---- */

/* The first record after a moment, from a thread's records of a batch: their times rise. */
static uint64_t first_after(const struct thread *t, uint64_t low, uint64_t high, uint64_t until) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->ring[middle & t->mask].time <= until)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Take what is there, at most a batch: up to one moment on all threads, so that their streams stay together. */
static size_t choose_records(void) {
    int n = threads();
    size_t total = 0, share = n ? (size_t)BATCH_RECORDS_MAX / (size_t)n : 0;
    uint64_t until = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        struct thread *t = thread_at(i);
        if (!t) continue;
        t->to = atomic_load_explicit(&t->head, memory_order_acquire);
        if (t->to - t->from > share) {
            uint64_t time = t->ring[(t->from + share - 1) & t->mask].time;
            if (time < until) until = time;
        }
    }
    for (int i = 0; i < n; i++) {
        struct thread *t = thread_at(i);
        if (!t) continue;
        if (until != UINT64_MAX) t->to = first_after(t, t->from, t->to - t->from > share ? t->from + share : t->to, until);
        total += t->to - t->from;
    }
    return total;
}

int gather_records(struct iovec parts[PARTS_MAX]) {
    int count = 1, n = threads();
    for (int i = 0; i < n; i++) {
        struct thread *t = thread_at(i);
        if (!t || t->from == t->to) continue;
        uint64_t first = t->from & t->mask, size = t->to - t->from, before_end = t->mask + 1 - first;
        uint64_t begin = size < before_end ? size : before_end;
        parts[count++] = (struct iovec){&t->ring[first], begin * sizeof(struct record)};
        if (size > begin) parts[count++] = (struct iovec){t->ring, (size - begin) * sizeof(struct record)};
    }
    return count;
}

#define READ(NUMBER) atomic_load_explicit(&(NUMBER), memory_order_relaxed)

/* Read a cell as it stood between two tasks; false where its thread writes it just now. */
static bool read_cell(struct cell *c, struct sum *found) {
    unsigned version = atomic_load_explicit(&c->version, memory_order_acquire);
    *found = (struct sum){
        .type = READ(c->type),
        .parameter = known.depth,
        .value = c->depth,
        .count = READ(c->count),
        .work = READ(c->ticks[WORKS]),
        .creation = READ(c->ticks[CREATES]),
        .waiting = READ(c->ticks[WAITS]),
        .creates = READ(c->creates),
        .waits = READ(c->waits),
        .least = READ(c->least),
        .most = READ(c->most),
        .squares = READ(c->squares),
    };
    atomic_thread_fence(memory_order_acquire);
    return !(version & 1) && READ(c->version) == version;
}

/* What is more now than was reported. */
static struct sum grown(struct sum now, const struct sum *reported) {
    now.count -= reported->count;
    now.work -= reported->work;
    now.creation -= reported->creation;
    now.waiting -= reported->waiting;
    now.creates -= reported->creates;
    now.waits -= reported->waits;
    now.squares -= reported->squares;
    return now;
}

/* Put what the sums have grown by into the batch, to what is there of one that did not arrive; return whether that was all. */
static bool choose_sums(bool last) {
    int n = threads();
    if (!last && now_ms() < sums_at_ms) return true;
    sums_at_ms = now_ms() + SUMS_MS;
    for (int i = 0; i < n; i++) {
        struct thread *t = thread_at(i);
        for (int k = 0; t && k < CELLS_MAX; k++) {
            struct sum now;
            if (atomic_load_explicit(&t->cells[k].type, memory_order_acquire) == ABSENT) continue;
            if (READ(t->cells[k].count) == t->reported[k].count || !read_cell(&t->cells[k], &now)) continue;
            if (batch.sums_count == BATCH_SUMS_MAX) return false;
            batch.sums[batch.sums_count++] = grown(now, &t->reported[k]);
            t->reported[k] = now;
        }
    }
    return true;
}

/* What the program has lost: by records that found no room, and by services that forgot. */
static uint64_t dropped_records(void) {
    uint64_t sum = restarts;
    for (int i = 0, n = threads(); i < n; i++)
        if (thread_at(i)) sum += READ(thread_at(i)->dropped) + (atomic_load(&tool.mode) == FULL ? READ(thread_at(i)->left_out) : 0);
    return sum;
}

/* Whether there is more than the batch holds. */
static bool anything_left(void) {
    for (int i = 0, n = threads(); i < n; i++) {
        struct thread *t = thread_at(i);
        if (t && t->to != atomic_load_explicit(&t->head, memory_order_acquire)) return true;
    }
    return false;
}

/* Fill the batch; false where there is nothing to say. Strings come last: what records and sums name was numbered before. */
double cpu_s(void) {
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used)) return 0.0;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static bool fill_batch(bool last) {
    static bool begun;
    if (!begun && !last && monotonic_ns() - batch.anchors[0][1] < CLOCK_NS) return false;
    batch.dropped = dropped_records();
    batch.records = choose_records();
    bool all = choose_sums(last);
    batch.ended = last && all && !anything_left();
    if (!batch.records && !batch.sums_count && !batch.ended) return false;
    batch.strings_from = strings_known;
    batch.strings_to = types_count();
    if (begun) memcpy(batch.anchors[0], batch.anchors[1], sizeof batch.anchors[0]);
    take_anchor(batch.anchors[1]);
    if (!begun)
        batch.ticks_per_s =
            (double)(batch.anchors[1][0] - batch.anchors[0][0]) * 1e9 / (double)(batch.anchors[1][1] - batch.anchors[0][1]);
    begun = true;
    batch.held = true;
    return true;
}

void batch_arrived(void) {
    for (int i = 0, n = threads(); i < n; i++) {
        struct thread *t = thread_at(i);
        if (!t || t->from == t->to) continue;
        sent_records += t->to - t->from;
        t->from = t->to;
        atomic_store_explicit(&t->tail, t->to, memory_order_release);
    }
    strings_known = batch.strings_to;
    batch.sums_count = 0;
    batch.held = false;
    done = batch.ended;
}

void begin_anew(void) {
    strings_known = 0;
    batch.held = false;
}

/* ---- the helper ---- */

/* Look at the rate of records: beyond the most, tasks are summed, and the fewer followed the more there still are. */
static void judge_rate(void) {
    static uint64_t before, since;
    uint64_t now = monotonic_ns(), sum = 0;
    if (now - since < JUDGED_NS) return;
    for (int i = 0, n = threads(); i < n; i++)
        if (thread_at(i)) sum += READ(thread_at(i)->head);
    double rate = (double)(sum - before) * 1e9 / (double)(now - since);
    int mode = atomic_load(&tool.mode);
    unsigned sample = atomic_load(&tool.sample);
    if (mode == AUTO && since && rate > tool.rate_max) atomic_store(&tool.mode, SUMS);
    if (mode == SUMS && since && rate > tool.rate_max / 8 && sample < SAMPLE_MAX) atomic_store(&tool.sample, sample * 2);
    before = sum;
    since = now;
}

static struct {
    int64_t next_ms, wait_ms, lost_ms; /* when to try again; then; since when it cannot be reached, 0: it can */
    bool ever;
} line = {.wait_ms = BACKOFF_FIRST_MS};

static void line_lost(void) {
    if (!line.lost_ms) line.lost_ms = now_ms();
    line.next_ms = now_ms() + line.wait_ms;
    if (line.wait_ms < BACKOFF_LAST_MS) line.wait_ms *= 2;
}

static bool reached(bool last) {
    if (!last && now_ms() < line.next_ms) return false;
    if (!destination->open()) {
        line_lost();
        return false;
    }
    line.wait_ms = BACKOFF_FIRST_MS;
    line.lost_ms = 0;
    line.ever = true;
    return true;
}

/* Send one batch, if there is one and it can be; return how many records. */
static size_t send_batch(bool last) {
    if (!reached(last) || !(batch.held || fill_batch(last))) return 0;
    size_t records = batch.records;
    enum sent how = destination->send();
    if (how == FAILED_NOW) line_lost();
    if (how == FAILED_FOR_EVER) over = true;
    return how == ARRIVED ? records : 0;
}

static bool enough(void) { /* of a program that has ended */
    if (done || over || now_ms() >= deadline_ms || !line.ever) return true;
    return line.lost_ms && now_ms() - line.lost_ms > GONE_MS;
}

static void *help(void *nothing) {
    (void)nothing;
    pthread_setname_np(pthread_self(), "advisor"); /* for who looks at the program's threads */
    while (!over) {
        bool last = atomic_load(&tool.stopping);
        if (last && !deadline_ms) deadline_ms = now_ms() + tool.flush_ms;
        judge_rate();
        size_t records = send_batch(last);
        if (last && enough()) break;
        if (records < BATCH_RECORDS_MAX / 4 && (!last || line.lost_ms)) rest(records > BATCH_RECORDS_MAX / 16 ? BUSY_MS : SWEEP_MS);
    }
    atomic_store(&tool.waits, false);
    destination->close();
    return NULL;
}

/* ---- beginning and end ---- */

static void name_run(void) {
    const char *name = getenv("ADVISOR_PRODUCER"), *wanted = getenv("ADVISOR_INCARNATION"); /* whoever starts the program knows its run */
    snprintf(producer, sizeof producer, "%.190s", name && *name ? name : program_invocation_short_name);
    int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (random < 0 || read(random, incarnation, sizeof incarnation) != (ssize_t)sizeof incarnation) {
        uint64_t seed[2] = {monotonic_ns(), (uint64_t)getpid()};
        memcpy(incarnation, seed, sizeof seed);
    }
    if (random >= 0) close(random);
    for (unsigned i = 0, byte; wanted && strlen(wanted) == 2 * sizeof incarnation && i < sizeof incarnation; i++)
        if (sscanf(wanted + 2 * i, "%2x", &byte) == 1) incarnation[i] = (unsigned char)byte;
}

/* Programs that this one starts are runs of their own, and write no file of this one's. */
static void keep_to_itself(void) {
    static const char *const own[] = {"ADVISOR_INCARNATION", "ADVISOR_OPENMP_FILE", "ADVISOR_OPENMP_REPORT"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) unsetenv(own[i]);
}

static void in_child(void) { /* a forked child has no helper: it is not watched */
    atomic_store(&tool.on, false);
    atomic_store(&tool.waits, false);
    helps = false;
}

bool start_sending(void) {
    const char *file = getenv("ADVISOR_OPENMP_FILE"), *wish = getenv("ADVISOR_OPENMP_REPORT");
    sigset_t all, before;
    if (helps || !(file && *file ? make_file(file) : find_service(getenv("ADVISOR_SOCKET")))) return false;
    destination = file && *file ? &to_file : &to_service;
    atomic_store(&tool.waits, destination == &to_file && atomic_load(&tool.mode) == FULL);
    report = wish && *wish ? strdup(wish) : NULL;
    name_run();
    keep_to_itself();
    take_anchor(batch.anchors[0]);
    sem_init(&wake, 0, 0);
    sigfillset(&all); /* the program's signals are its own threads' */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    helps = !pthread_create(&helper, NULL, help, NULL);
    if (!helps) atomic_store(&tool.waits, false);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_atfork(NULL, NULL, in_child);
    return helps;
}

/* What became of the events, for whoever started the program. */
static void write_report(void) {
    FILE *out = report ? fopen(report, "we") : NULL;
    uint64_t made = 0, dropped = 0, summed = 0, extra = 0, tasks = 0, followed = 0, held_ns = 0;
    static const char *const modes[] = {"full", "auto", "sums"};
    if (!out) return;
    for (int i = 0, n = threads(); i < n; i++) {
        struct thread *t = thread_at(i);
        if (!t) continue;
        made += READ(t->head);
        dropped += READ(t->dropped);
        *(atomic_load(&tool.mode) == FULL ? &dropped : &summed) += READ(t->left_out);
        extra += READ(t->extra);
        tasks += READ(t->ids);
        followed += READ(t->followed);
        held_ns += READ(t->held_ns);
    }
    typedef unsigned long long wide;
    fprintf(out, "{\"incarnation\": \"");
    for (size_t i = 0; i < sizeof incarnation; i++) fprintf(out, "%02x", incarnation[i]);
    fprintf(out, "\", \"mode\": \"%s\", \"sample\": %u, \"threads\": %d, \"tasks\": %llu, \"followed\": %llu, ",
            modes[atomic_load(&tool.mode)], atomic_load(&tool.sample), threads(), (wide)tasks, (wide)followed);
    fprintf(out, "\"sent\": %llu, \"unsent\": %llu, \"dropped\": %llu, \"summed\": %llu, \"extra\": %llu, \"restarts\": %llu, ",
            (wide)sent_records, (wide)(made - sent_records), (wide)dropped, (wide)summed, (wide)extra, (wide)restarts);
    fprintf(out, "\"held_ns\": %llu, \"ended\": %s}\n", (wide)held_ns, done ? "true" : "false");
    fclose(out);
}

void stop_sending(void) {
    if (!helps) return;
    atomic_store(&tool.stopping, true);
    sem_post(&wake);
    pthread_join(helper, NULL);
    write_report();
    helps = false;
}
