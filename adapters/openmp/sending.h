/* The helper's side: a batch of what the rings hold, and where it goes: to a service, or into a file. */
#ifndef SENDING_H
#define SENDING_H

#include <sys/uio.h>

#include "events.h"

enum { BATCH_RECORDS_MAX = 32768 }; /* 1 MiB: the service folds one batch in one turn of its loop */
enum { BATCH_SUMS_MAX = 8192 };      /* as the service has it */
enum { PARTS_MAX = 2 * THREADS_MAX + 1 };

/* What was sent and is not acknowledged stays as it was, and where it was: in the rings. */
extern struct batch {
    bool held;
    size_t records;
    uint64_t dropped;
    uint32_t strings_from, strings_to;
    struct sum sums[BATCH_SUMS_MAX];
    unsigned sums_count;
    bool ended; /* nothing comes after it */
    double ticks_per_s;
    uint64_t anchors[2][2]; /* ticks, ns: of the batch before and of this one */
} batch;

extern char producer[NAME_BYTES_MAX];
extern unsigned char incarnation[16];

/* Processor time of the program: where others had the processors in between, times of tasks hold their turns; the reader compares. */
double cpu_s(void);
/* Put the records of the batch behind the first part; return the number of parts. */
int gather_records(struct iovec parts[PARTS_MAX]);
/* The batch has arrived: its records' places are free. */
void batch_arrived(void);
/* The other side is new: what it got is sent again, strings and all. */
void begin_anew(void);

enum sent { ARRIVED, FAILED_NOW, FAILED_FOR_EVER };

struct destination {
    bool (*open)(void); /* whether batches can be sent now; else it is tried again later */
    enum sent (*send)(void);
    void (*close)(void);
};
extern const struct destination to_service, to_file;
extern uint64_t restarts; /* how often a service had lost what it had acknowledged */

bool find_service(const char *path);
bool make_file(const char *path);

/* When to give up, for the program waits: on CLOCK_MONOTONIC in ms; 0: it does not wait yet. */
extern int64_t deadline_ms;
int64_t now_ms(void);

#endif
