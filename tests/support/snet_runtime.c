/* A threading layer like that of S-Net's stream runtime, as far as the adapter sees it: two threads with a replica of a network each.
 * usage: snet_runtime SOCKET RECORDS */
#include "advisor_snet.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NET "read .. [] .. ((small | large) .. step * {<done>} .. write) ! <k>"

static __thread int64_t clock_now;
static int64_t clock_ns(void) { return clock_now; }
static long records;

/* One dispatch: a task takes a record in, runs, is blocked on its output in between, perhaps, and gives one out. */
static uint32_t dispatch(struct mon_task_t *task, uint32_t node, uint32_t record, uint32_t made, int64_t ns, int blocked) {
    struct mon_stream_t *in = advisor_snet_stream_open(task, 1, 'r'), *out = advisor_snet_stream_open(task, 2, 'w');
    clock_now += 7;
    advisor_snet_task_start(task);
    clock_now += 5; /* to read takes a moment, which is of no run */
    advisor_snet_record(task, 1, node, record, 64);
    if (blocked) {
        clock_now += ns / 2;
        advisor_snet_stream_blockon(out);
        advisor_snet_task_stop(task, 'B');
        clock_now += 1000000;
        advisor_snet_task_start(task);
        ns -= ns / 2;
    }
    clock_now += ns;
    advisor_snet_record(task, 0, node, made, 64);
    advisor_snet_stream_blockon(in);
    advisor_snet_task_stop(task, 'B');
    advisor_snet_stream_close(in);
    advisor_snet_stream_close(out);
    return made;
}

static void *work(void *context) {
    static const char *boxes[] = {":S1 read", ":S2 <filter>", ":S3:I%d:S1:P0 small", ":S3:I%d:S1:P1 large",
                                  ":S3:I%d:S2:R0 step", ":S3:I%d:S2:R1 step", ":S3:I%d:S3 write"};
    struct mon_task_t *source = advisor_snet_task("glob_input"), *sink = advisor_snet_task("glob_output"), *tasks[7];
    uint32_t node = *(uint32_t *)context, made = 0;
    long n;
    int i;
    char place[64];
    for (i = 0; i < 7; i++) {
        snprintf(place, sizeof place, boxes[i], (int)node);
        tasks[i] = advisor_snet_task(place);
    }
    for (n = 0; n < records; n++) {
        uint32_t at = ++made;
        advisor_snet_record(source, 1, node, at, 64);
        at = dispatch(tasks[0], node, at, ++made, 1000, n % 2 == 0);
        at = dispatch(tasks[1], node, at, ++made, 10, 0);
        at = dispatch(tasks[n % 4 ? 3 : 2], node, at, ++made, n % 4 ? 9000 : 2000, 0);
        for (i = 0; i < n % 3; i++) at = dispatch(tasks[4 + i], node, at, ++made, 3000, 0);
        at = dispatch(tasks[6], node, at, ++made, 500, 0);
        advisor_snet_record(sink, 1, node, at, 64);
    }
    for (i = 0; i < 7; i++) {
        advisor_snet_task_start(tasks[i]);
        advisor_snet_task_stop(tasks[i], 'Z');
        advisor_snet_task_destroy(tasks[i]);
    }
    advisor_snet_task_destroy(source);
    advisor_snet_task_destroy(sink);
    return NULL;
}

int main(int argc, char **argv) {
    advisor_snet_options options;
    pthread_t threads[2];
    uint32_t nodes[2] = {0, 1};
    int i, done;
    advisor_stats stats;
    if (argc < 3) return 2;
    memset(&options, 0, sizeof options);
    options.socket = argv[1];
    options.network = "film";
    options.definition = NET;
    options.clock_ns = clock_ns;
    records = atol(argv[2]);
    if (advisor_snet_begin(&options) || !advisor_snet_begin(&options)) return 3;
    for (i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, &nodes[i]);
    for (i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    stats = advisor_snet_stats();
    done = advisor_snet_end(20000);
    printf("%d %lu %lu\n", done, (unsigned long)stats.rows_taken, (unsigned long)stats.rows_dropped);
    advisor_snet_record(NULL, 1, 0, 1, 1);
    return 0;
}
