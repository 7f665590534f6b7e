/* Nanoseconds a call of the C client's curves, at random points that no branch predictor knows. See bundle.py. */
#define _POSIX_C_SOURCE 200809L

#include "advisor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POINTS 4096
#define ROUNDS 200

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    static double x[POINTS], p[POINTS];
    unsigned most = argc > 3 ? (unsigned)atoi(argv[3]) : 256;
    double best[4] = {1e9, 1e9, 1e9, 1e9}, sum = 0.0, low, high;
    unsigned long long state = 88172645463325252ULL;
    advisor_bundle bundle;
    unsigned c, i, round;
    if (advisor_bundle_load(&bundle, argv[1])) return 1;
    c = (unsigned)advisor_find(&bundle, argv[2], strlen(argv[2]));
    for (i = 0; i < POINTS; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        x[i] = exp2(5.0 + 7.0 * (double)(state >> 11) / 9007199254740992.0);
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        p[i] = exp2(6.0 * (double)(state >> 11) / 9007199254740992.0);
    }
    for (round = 0; round < ROUNDS; round++) {
        double began[5];
        began[0] = now();
        for (i = 0; i < POINTS; i++) sum += exp2(0.5 * log2(x[i]) - log2(p[i])); /* the baseline: a power law by libm */
        began[1] = now();
        for (i = 0; i < POINTS; i++) sum += advisor_predict(&bundle, c, x[i], p[i], NULL, NULL);
        began[2] = now();
        for (i = 0; i < POINTS; i++) sum += advisor_predict(&bundle, c, x[i], p[i], &low, &high) + low + high;
        began[3] = now();
        for (i = 0; i < POINTS; i++) sum += advisor_choose_cores(&bundle, c, x[i], most, 0.05, NULL);
        began[4] = now();
        for (i = 0; i < 4; i++) {
            double ns = 1e9 * (began[i + 1] - began[i]) / POINTS;
            if (ns < best[i]) best[i] = ns;
        }
    }
    printf("%.1f %.1f %.1f %.1f %g\n", best[0], best[1], best[2], best[3], sum);
    advisor_bundle_free(&bundle);
    return 0;
}
