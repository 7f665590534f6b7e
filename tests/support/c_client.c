/* A program with the C client, driven by lines on its standard input; answers each with a line.
 * usage: c_client PATH PRODUCER BATCH_ROWS BATCHES WATCH */
#include "advisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char heard[4096]; /* what the client was told */

static void told(void *context, int kind, int32_t watch, const advisor_allocation *allocation, const char *why) {
    size_t used = strlen(heard), i;
    (void)context;
    used += (size_t)snprintf(heard + used, sizeof heard - used, "%d %d %s", kind, (int)watch, why);
    if (allocation) {
        used += (size_t)snprintf(heard + used, sizeof heard - used, "used=%u", (unsigned)allocation->cores_used);
        for (i = 0; i < allocation->count && used < 3000; i++)
            used += (size_t)snprintf(heard + used, sizeof heard - used, " %.*s=%ux%u", (int)allocation->shares[i].length,
                                     allocation->shares[i].key, (unsigned)allocation->shares[i].cores,
                                     (unsigned)allocation->shares[i].instances);
        used += (size_t)snprintf(heard + used, sizeof heard - used, " %a", allocation->throughput_per_s);
    }
    snprintf(heard + used, sizeof heard - used, "; ");
}

/* Records that enter a network: c0, then c1 or c2 in replicas of a split; every fifth with two predictors, under another name. */
static long send_records(advisor_client *client, long records) {
    long i, taken = 0;
    int32_t network = advisor_client_network(client, "net"), square = advisor_client_name(client, "square");
    for (i = 0; i < records; i++) {
        advisor_row row = advisor_row_of(0, 4.0, 1.0, 0.25);
        row.network = network;
        row.entered = 1;
        row.active_cores = 3.0;
        row.peak_bytes = 4096.0;
        taken += advisor_client_observe_row(client, &row) == ADVISOR_OK;
        row.component = i % 4 ? 1 : 2;
        row.entered = 0;
        row.replica = (uint64_t)(i % 3);
        row.energy_j = 2.5;
        taken += advisor_client_observe_row(client, &row) == ADVISOR_OK;
        if (i % 5 == 0) {
            row = advisor_row_of(square, 2.0, 2.0, 0.5);
            row.dimensions = 2;
            row.predictor[1] = 3.0;
            taken += advisor_client_observe_row(client, &row) == ADVISOR_OK;
        }
    }
    return taken;
}

int main(int argc, char **argv) {
    static const char *NAMES[] = {"c0", "c1", "c2"};
    advisor_options options = {0};
    advisor_client *client;
    char word[32];
    long number, sent = 0;
    int i;
    if (argc < 6) return 2;
    options.path = argv[1];
    options.producer = argv[2];
    options.batch_rows = (uint32_t)atoi(argv[3]);
    options.batches = (uint32_t)atoi(argv[4]);
    options.curves_ms = atoi(argv[5]);
    options.linger_ms = -1;
    options.whole_rows = argc > 6;
    options.one_core = argc > 7;
    options.on_advice = told;
    client = advisor_client_new(&options);
    if (!client) return 3;
    for (i = 0; i < 3; i++)
        if (advisor_client_name(client, NAMES[i]) != i || advisor_client_name(client, NAMES[i]) != i) return 4;
    while (scanf("%31s %ld", word, &number) == 2) {
        if (!strcmp(word, "send")) {
            long taken = 0;
            for (; number--; sent++)
                taken += advisor_client_observe(client, (int32_t)(sent % 3), (double)(sent % 7 + 1), (double)(1 << sent % 4),
                                                0.01 * (double)(sent % 7 + 1) / (double)(1 << sent % 4)) == ADVISOR_OK;
            printf("%ld\n", taken);
        } else if (!strcmp(word, "bad")) { /* a row that the service refuses, and a component that is none */
            printf("%d %d\n", advisor_client_observe(client, 0, -1.0, 1.0, 1.0), advisor_client_observe(client, 3, 1.0, 1.0, 1.0));
        } else if (!strcmp(word, "step")) {
            while (number--) advisor_client_step(client);
            printf("%d\n", advisor_client_step(client));
        } else if (!strcmp(word, "flush")) {
            printf("%d\n", advisor_client_flush(client, (int)number));
        } else if (!strcmp(word, "curves")) { /* wait for the curve of c1, and ask it */
            const advisor_bundle *curves = advisor_client_curves(client);
            while (number-- && advisor_find(curves, "c1", 2) < 0) advisor_client_wait(client, 100);
            i = (int)advisor_find(curves, "c1", 2);
            printf("%a %d\n", advisor_predict(curves, (uint32_t)i, 4.0, 2.0, NULL, NULL),
                   advisor_choose_cores(curves, (uint32_t)i, 4.0, 8, 0.0, NULL));
        } else if (!strcmp(word, "define")) {
            printf("%d\n", advisor_client_define_network(client, "net", number ? "c0 .. (c1 | c2) ! <t>" : "no network |"));
        } else if (!strcmp(word, "records")) {
            printf("%ld\n", send_records(client, number));
        } else if (!strcmp(word, "wrong")) { /* rows and questions that the client itself refuses */
            advisor_row row = advisor_row_of(0, 1.0, 1.0, 1.0);
            row.dimensions = 5;
            i = advisor_client_observe_row(client, &row);
            row.dimensions = 1;
            row.network = 7;
            printf("%d %d %d\n", i, advisor_client_observe_row(client, &row), advisor_client_watch(client, "net", 0));
        } else if (!strcmp(word, "allocate")) {
            i = advisor_client_allocate(client, "net", (uint32_t)number); /* and one more, while it waits */
            printf("%d %d\n", i, advisor_client_allocate(client, "net", (uint32_t)number));
        } else if (!strcmp(word, "watch")) {
            printf("%d\n", (int)advisor_client_watch(client, "net", (uint32_t)number));
        } else if (!strcmp(word, "told")) { /* wait until something was told */
            while (number-- && !*heard) advisor_client_wait(client, 100);
            printf("%s\n", heard);
            *heard = 0;
        } else if (!strcmp(word, "stats")) {
            advisor_stats s = advisor_client_stats(client);
            printf("{\"taken\": %lu, \"dropped\": %lu, \"acknowledged\": %lu, \"accepted\": %lu, \"refused\": %lu, \"rejected\": %lu,"
                   " \"held\": %lu, \"resent\": %lu, \"connections\": %lu, \"bundles\": %lu, \"lost\": %lu, \"error\": \"%s\"}\n",
                   (unsigned long)s.rows_taken, (unsigned long)s.rows_dropped, (unsigned long)s.rows_acknowledged,
                   (unsigned long)s.rows_accepted, (unsigned long)s.rows_refused, (unsigned long)s.rows_rejected,
                   (unsigned long)s.rows_held, (unsigned long)s.batches_resent, (unsigned long)s.connections,
                   (unsigned long)s.bundles, (unsigned long)s.state_lost, s.last_error);
        } else
            return 5;
        fflush(stdout);
    }
    advisor_client_free(client);
    return 0;
}
