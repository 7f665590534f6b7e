/* Advisor for programs in C: curves that answer without a question, and rows sent exactly once.
 *
 * One header and one file, C99 and POSIX sockets, nothing else to link. Copy both into your program.
 * Licence: Apache-2.0, as the project's.
 *
 * Curves. A bundle holds what a component takes on p cores for an input of value x, as flat bytes that the service writes
 * (`curves` in docs/protocol.md). Reading one checks every byte of it; after that `advisor_predict` and
 * `advisor_choose_cores` allocate nothing, take no lock, and answer within some tens of nanoseconds. Any number of threads
 * may ask one bundle. Answers are those of the service's own reader, to the bit, where doubles are IEEE 754 and are not
 * computed in a wider format; do not compile with -ffast-math.
 *
 * Rows. A client sends rows in numbered batches, and again after a cut until they are acknowledged: each counts once.
 * Nothing waits but `advisor_client_wait` and `_flush`: `advisor_client_observe` copies a row into memory that was taken at the start,
 * and says no when that is full; `advisor_client_step` moves bytes while it can. One thread at a time.
 */
#ifndef ADVISOR_H
#define ADVISOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ADVISOR_OK = 0,
    ADVISOR_MALFORMED = -1, /* bytes that are no bundle */
    ADVISOR_MEMORY = -2,
    ADVISOR_FILE = -3,    /* it could not be read */
    ADVISOR_ASK = -4,     /* this component has no curve that can be carried: ask the service */
    ADVISOR_INVALID = -5, /* an argument outside its domain */
    ADVISOR_FULL = -6     /* no more room: a row was dropped, a name was not taken */
};

/* ---- curves ---- */

typedef struct advisor_bundle {
    uint64_t version;    /* of the service's curves: what `since` takes */
    double level;        /* share of runs that the intervals hold */
    uint32_t components; /* in order of their names' bytes */
    /* private */
    double *words;
    size_t size;
    size_t *starts;
    char *names;
    size_t *name_ends;
} advisor_bundle;

/* Read a bundle; the bytes are copied. On an error `bundle` is empty, and need not be freed. */
int advisor_bundle_read(advisor_bundle *bundle, const void *bytes, size_t size);
int advisor_bundle_load(advisor_bundle *bundle, const char *path);

/* Put the components of `news` into `bundle`, in place of those of the same name. On an error `bundle` is as it was. */
int advisor_bundle_merge(advisor_bundle *bundle, const advisor_bundle *news);

void advisor_bundle_free(advisor_bundle *bundle);

/* The index of a component, or -1. It holds until the bundle is merged into. */
long advisor_find(const advisor_bundle *bundle, const char *name, size_t length);

/* The expected seconds of one run, and the interval that holds `level` of all runs; NaN where there is no answer. `low`, `high`
 * may be NULL. x is 0 to 2^60, p is 2^-10 to 2^20. */
double advisor_predict(const advisor_bundle *bundle, uint32_t component, double x, double p, double *low, double *high);

/* How far (x, p) lies outside what was seen, in octaves; 0 inside. NaN where there is no answer. */
double advisor_extrapolates(const advisor_bundle *bundle, uint32_t component, double x, double p);

/* The cores for one run: of the counts that the component allows, 1 to cores_max (at most 2^20) and half the least to twice the
 * largest seen, the fewest whose time is within (1 + tolerance) of the fastest, tolerance 0 to 1, or that runs have not shown to be
 * slower; or the last count, while it is nearly as good. An error is negative. `elapsed_s`, which may be NULL, gets its time. */
int32_t advisor_choose_cores(const advisor_bundle *bundle, uint32_t component, double x, uint32_t cores_max, double tolerance,
                             double *elapsed_s);

/* The same of `count` listed counts, ascending, at most 256. */
int32_t advisor_choose_allowed(const advisor_bundle *bundle, uint32_t component, double x, const uint32_t *allowed, size_t count,
                               double tolerance, double *elapsed_s);

/* The largest error of the tables against the model, in log2 of a time, as the service measured it. */
double advisor_table_error(const advisor_bundle *bundle, uint32_t component);

/* ---- rows ---- */

typedef struct advisor_client advisor_client;

#define ADVISOR_NONE UINT64_MAX /* no replica */

/* A run, with all that may be known of it; `advisor_row_of` begins one of which nothing more is. */
typedef struct advisor_row {
    int32_t component;    /* of advisor_client_name */
    uint32_t dimensions;  /* values of the predictor, 1 to 4 */
    double predictor[4];
    double cores, elapsed_s;
    int32_t network;      /* of advisor_client_network; -1: none */
    int entered;          /* nonzero: with this run its record entered the network */
    uint64_t replica;     /* of the innermost index split: the value of its tag */
    double active_cores;  /* busy on the machine meanwhile, its own among them; NaN: not known */
    double peak_bytes, energy_j; /* NaN: not measured */
} advisor_row;

advisor_row advisor_row_of(int32_t component, double predictor, double cores, double elapsed_s);

/* What an answer gives to a key of a network: cores of one instance, its own or in its turn, and instances. */
typedef struct advisor_share {
    const char *key; /* `length` bytes of UTF-8, no end after them */
    size_t length;
    uint32_t cores, instances;
} advisor_share;

typedef struct advisor_allocation {
    double throughput_per_s, latency_s;
    uint32_t cores_used, count;
    const advisor_share *shares;
} advisor_allocation;

/* What a client gets: an answer to advisor_client_allocate, an advice of a watch (the first allocation among them), or
 * why there is none. Called within a step; what it points to ends with it. */
enum { ADVISOR_ALLOCATED = 1, ADVISOR_ADVICE = 2, ADVISOR_REFUSED = 4 };
typedef void (*advisor_advised)(void *context, int kind, int32_t watch, const advisor_allocation *allocation, const char *why);

typedef struct advisor_stats {
    uint64_t rows_taken;        /* = acknowledged + rejected + held */
    uint64_t rows_dropped;      /* for which there was no room */
    uint64_t rows_acknowledged; /* durable at the service; of them, as far as its receipts came: */
    uint64_t rows_accepted, rows_refused;
    uint64_t rows_rejected; /* in batches that the service will never take */
    uint64_t rows_held;
    uint64_t batches_resent, connections, bundles, state_lost;
    char last_error[160];
} advisor_stats;

typedef struct advisor_options {
    const char *path;     /* of the service's Unix socket */
    const char *producer; /* this program's name at the service */
    uint32_t batch_rows;  /* 0: 1000 */
    uint32_t batches;     /* held at most, 0: 64; memory is 28 bytes a row */
    uint32_t names_max;   /* 0: 1000 */
    int linger_ms;        /* how long a row waits for others to fill its batch; 0: 20, negative: not at all */
    int curves_ms;        /* ask for curves that changed every so often; 0: never */
    double level;         /* of the curves' intervals; 0: 0.9 */
    uint32_t cores_max;   /* of the curves' tables; 0: 256 */
    int one_core;         /* nonzero: allocate and watch give each component one core, as S-Net's boxes have */
    int whole_rows;       /* nonzero: room for advisor_client_observe_row, 72 bytes a row more */
    advisor_advised on_advice; /* may be NULL */
    void *context;
} advisor_options;

/* NULL when there is no memory, or an option is wrong. Nothing is connected yet. */
advisor_client *advisor_client_new(const advisor_options *options);
void advisor_client_free(advisor_client *client);

/* Number a component's name (1 to 200 bytes of UTF-8) for `advisor_client_observe`; the same name, the same number. */
int32_t advisor_client_name(advisor_client *client, const char *name);

/* Take a row: ADVISOR_OK, ADVISOR_FULL or ADVISOR_INVALID. Never waits. */
int advisor_client_observe(advisor_client *client, int32_t component, double predictor, double cores, double elapsed_s);

/* The same with all that is known of a run; ADVISOR_INVALID also without `whole_rows`. */
int advisor_client_observe_row(advisor_client *client, const advisor_row *row);

/* ---- networks ---- */

/* Number a network's name for rows: at most 64. */
int32_t advisor_client_network(advisor_client *client, const char *name);

/* Say what a network is, in S-Net's language, before rows and questions name it: on every connection of this client. */
int advisor_client_define_network(advisor_client *client, const char *name, const char *text);

/* Ask for the allocation of so many cores to a network (its name, or S-Net text); one question at a time. `on_advice` gets it. */
int advisor_client_allocate(advisor_client *client, const char *network, uint32_t cores);

/* Get allocations that are worth the change, on every connection; at most 16. The watch's number, or an error. */
int32_t advisor_client_watch(advisor_client *client, const char *network, uint32_t cores);

/* Connect, send and receive what can be without waiting. Call it when `advisor_client_fd` is ready and now and then;
 * `advisor_client_wait_ms` says within how long. Returns nonzero while the service is connected and has said hello. */
int advisor_client_step(advisor_client *client);
int advisor_client_fd(const advisor_client *client);        /* -1 while there is no connection */
int advisor_client_wants_write(const advisor_client *client); /* poll for writing, too */
int advisor_client_wait_ms(const advisor_client *client);

/* Wait until there is something to do, at most so long, and step. */
int advisor_client_wait(advisor_client *client, int timeout_ms);

/* Step until every row is acknowledged or rejected, for at most so long; return nonzero when it is so. */
int advisor_client_flush(advisor_client *client, int timeout_ms);

advisor_stats advisor_client_stats(const advisor_client *client);

/* The curves as they are known, valid until the next step; empty until some came. */
const advisor_bundle *advisor_client_curves(const advisor_client *client);

#ifdef __cplusplus
}
#endif
#endif
