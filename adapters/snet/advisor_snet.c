/* See advisor_snet.h. */
#define _POSIX_C_SOURCE 200809L

#include "advisor_snet.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORDS_MAX 65536
#define STEP_MS 20 /* between looks at what is to be sent */

enum { OUTSIDE, ENTERED, UNKNOWN }; /* of a record: it came in and met no box yet; it met one; nobody knows */

/* A record on its way. */
typedef struct travelling {
    uint64_t id;
    int state, used;
} travelling;

struct mon_task_t {
    int32_t box;       /* the client's number of its component; -1: no box */
    int inside, first; /* it stands in the network; nothing in the network can have made what comes to it */
    uint64_t replica;
    char blocked;      /* on what: r, w, or 0 */
    int64_t since;     /* begin of what counts for the run, nanoseconds */
    int running, entered;
    int64_t ran_ns;
    int state;         /* of the record that it works on */
    double bytes;
};

struct mon_stream_t {
    struct mon_task_t *task;
    char mode;
};

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    int stop;
    advisor_client *client;
    int32_t network;
    int64_t (*clock_ns)(void);
    travelling *records; /* open addressing, a power of two */
    size_t mask, count, most;
} snet = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- records on their way ---- */

static size_t slot_of(uint64_t id) {
    size_t at = (size_t)mixed(id) & snet.mask;
    while (snet.records[at].used && snet.records[at].id != id) at = (at + 1) & snet.mask;
    return at;
}

static void remember(uint64_t id, int state) {
    size_t at = slot_of(id);
    if (!snet.records[at].used) {
        if (snet.count == snet.most) return;
        snet.count++;
    }
    snet.records[at].id = id;
    snet.records[at].state = state;
    snet.records[at].used = 1;
}

/* Take a record out; 0 when it is not known. What stands behind it moves up, so that no place is ever lost. */
static int recall(uint64_t id, int *state) {
    size_t at = slot_of(id), next = at;
    if (!snet.records[at].used) return 0;
    *state = snet.records[at].state;
    snet.count--;
    for (;;) {
        size_t home;
        snet.records[at].used = 0;
        do {
            next = (next + 1) & snet.mask;
            if (!snet.records[next].used) return 1;
            home = (size_t)mixed(snet.records[next].id) & snet.mask;
        } while (at <= next ? at < home && home <= next : at < home || home <= next);
        snet.records[at] = snet.records[next];
        at = next;
    }
}

/* ---- tasks ---- */

/* Read the way of an entity, ":S1:P0:I3"; return where it ends. */
static const char *read_way(struct mon_task_t *task, const char *at) {
    while (*at == ':') {
        char kind = at[1];
        char *end;
        long number;
        if (!kind) break;
        number = strtol(at + 2, &end, 10);
        if ((kind == 'S' && number > 1) || (kind == 'R' && number > 0) || kind == 'F') task->first = 0;
        if (kind == 'I' && end != at + 2) task->replica = number >= 0 ? (uint64_t)number : ADVISOR_NONE;
        at = end;
    }
    return at;
}

struct mon_task_t *advisor_snet_task(const char *place) {
    struct mon_task_t *task = calloc(1, sizeof *task);
    const char *name;
    if (!task) return NULL;
    task->box = -1;
    task->first = 1;
    task->replica = ADVISOR_NONE;
    task->state = UNKNOWN;
    name = read_way(task, place);
    task->inside = *name == ' ';
    if (task->inside && name[1] && name[1] != '<') {
        pthread_mutex_lock(&snet.lock);
        if (snet.client) task->box = advisor_client_name(snet.client, name + 1);
        pthread_mutex_unlock(&snet.lock);
    }
    return task;
}

void advisor_snet_task_destroy(struct mon_task_t *task) { free(task); }

/* The run is over: a row, with the lock held. */
static void finish(struct mon_task_t *task) {
    advisor_row row;
    if (!task->running) return;
    task->running = 0;
    if (task->box < 0 || !snet.client) return;
    row = advisor_row_of(task->box, task->bytes, 1.0, (double)task->ran_ns / 1e9);
    row.network = snet.network;
    row.entered = task->entered;
    row.replica = task->replica;
    advisor_client_observe_row(snet.client, &row);
}

void advisor_snet_record(struct mon_task_t *task, int taken, uint32_t node, uint32_t number, size_t bytes) {
    uint64_t id = (uint64_t)node << 32 | number;
    int state = OUTSIDE;
    int64_t now;
    if (!task) return;
    now = snet.clock_ns ? snet.clock_ns() : monotonic_ns();
    pthread_mutex_lock(&snet.lock);
    if (!snet.records)
        ;
    else if (!task->inside) {
        if (!recall(id, &state)) remember(id, OUTSIDE); /* it comes in here; those that leave are done with */
    } else if (taken) {
        if (!recall(id, &state)) state = task->first ? OUTSIDE : UNKNOWN;
        if (task->running) {
            task->ran_ns += now - task->since;
            finish(task);
        }
        task->entered = task->box >= 0 && state == OUTSIDE;
        task->state = task->entered ? ENTERED : state; /* what met no box yet stays so behind a filter or a cell */
        task->bytes = (double)bytes;
        task->ran_ns = 0;
        task->since = now;
        task->running = 1;
    } else if (task->running && task->state != UNKNOWN)
        remember(id, task->state);
    pthread_mutex_unlock(&snet.lock);
}

void advisor_snet_task_start(struct mon_task_t *task) {
    if (!task) return;
    task->blocked = 0;
    task->since = snet.clock_ns ? snet.clock_ns() : monotonic_ns();
}

/* A task that waits for anything but room for its output has done with its record. */
void advisor_snet_task_stop(struct mon_task_t *task, char state) {
    int64_t now;
    if (!task || !task->running) return;
    now = snet.clock_ns ? snet.clock_ns() : monotonic_ns();
    task->ran_ns += now - task->since;
    if (state == 'Z' || state == 'I' || state == 'A' || (state == 'B' && task->blocked != 'w')) {
        pthread_mutex_lock(&snet.lock);
        finish(task);
        pthread_mutex_unlock(&snet.lock);
    }
}

struct mon_stream_t *advisor_snet_stream_open(struct mon_task_t *task, unsigned int stream, char mode) {
    struct mon_stream_t *made = task ? malloc(sizeof *made) : NULL;
    (void)stream;
    if (made) {
        made->task = task;
        made->mode = mode;
    }
    return made;
}

void advisor_snet_stream_close(struct mon_stream_t *stream) { free(stream); }

void advisor_snet_stream_blockon(struct mon_stream_t *stream) {
    if (stream) stream->task->blocked = stream->mode;
}

/* ---- the service ---- */

static void *talk(void *nothing) {
    int stop = 0;
    while (!stop) {
        struct pollfd ready;
        int wait;
        pthread_mutex_lock(&snet.lock);
        stop = snet.stop;
        advisor_client_step(snet.client);
        ready.fd = advisor_client_fd(snet.client);
        ready.events = (short)(POLLIN | (advisor_client_wants_write(snet.client) ? POLLOUT : 0));
        wait = advisor_client_wait_ms(snet.client);
        pthread_mutex_unlock(&snet.lock);
        if (!stop) poll(&ready, ready.fd >= 0, wait < STEP_MS ? wait : STEP_MS);
    }
    return nothing;
}

int advisor_snet_begin(const advisor_snet_options *options) {
    advisor_options of_client;
    size_t room = 2;
    int error = ADVISOR_OK;
    if (snet.client) return ADVISOR_FULL;
    memset(&of_client, 0, sizeof of_client);
    of_client.path = options->socket;
    of_client.producer = options->network;
    of_client.whole_rows = 1;
    of_client.one_core = 1;
    of_client.on_advice = options->on_advice;
    of_client.context = options->context;
    snet.most = options->records_max ? options->records_max : RECORDS_MAX;
    while (room < 2 * snet.most) room *= 2; /* at most half full */
    snet.mask = room - 1;
    snet.count = 0;
    snet.stop = 0;
    snet.clock_ns = options->clock_ns;
    snet.records = calloc(room, sizeof *snet.records);
    snet.client = advisor_client_new(&of_client);
    if (!snet.records || !snet.client) error = ADVISOR_INVALID;
    if (!error) {
        snet.network = advisor_client_network(snet.client, options->network);
        if (snet.network < 0) error = (int)snet.network;
    }
    if (!error && options->definition) error = advisor_client_define_network(snet.client, options->network, options->definition);
    if (!error && options->watch_cores)
        error = advisor_client_watch(snet.client, options->network, options->watch_cores) < 0 ? ADVISOR_INVALID : ADVISOR_OK;
    if (!error && pthread_create(&snet.thread, NULL, talk, NULL)) error = ADVISOR_MEMORY;
    if (error) {
        advisor_client_free(snet.client);
        free(snet.records);
        snet.client = NULL;
        snet.records = NULL;
    }
    return error;
}

int advisor_snet_end(int timeout_ms) {
    int done;
    if (!snet.client) return 0;
    pthread_mutex_lock(&snet.lock);
    snet.stop = 1;
    pthread_mutex_unlock(&snet.lock);
    pthread_join(snet.thread, NULL);
    done = advisor_client_flush(snet.client, timeout_ms);
    advisor_client_free(snet.client);
    free(snet.records);
    snet.client = NULL;
    snet.records = NULL;
    return done;
}

advisor_stats advisor_snet_stats(void) {
    advisor_stats stats;
    memset(&stats, 0, sizeof stats);
    pthread_mutex_lock(&snet.lock);
    if (snet.client) stats = advisor_client_stats(snet.client);
    pthread_mutex_unlock(&snet.lock);
    return stats;
}
