/* A program with the C client, driven by lines on its standard input; answers each with a line.
 * usage: c_client PATH PRODUCER BATCH_ROWS BATCHES WATCH */
#include "advisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    options.watch_curves = atoi(argv[5]);
    options.linger_ms = -1;
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
