/* Reads a bundle, then as many mutants of it as asked; asks every mutant that is taken. Run under sanitizers.
 * Each is read from memory of exactly its size. Prints how many were taken, and a sum that keeps the answers alive. */
#include "advisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long state = 88172645463325252ULL;

static unsigned long long chance(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(int argc, char **argv) {
    static const double WILD[] = {0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 4096.0, 1048576.0, 3.5, 1e18};
    long mutants = argc > 2 ? atol(argv[2]) : 0, i, taken = 0;
    unsigned char bytes[1 << 20];
    double sum = 0.0;
    FILE *file = fopen(argv[1], "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file) fclose(file);
    for (i = 0; i < mutants; i++) {
        advisor_bundle bundle, other;
        size_t length = i % 5 == 4 ? chance() % (size + 1) : size, k;
        unsigned char *copy = malloc(length ? length : 1);
        memcpy(copy, bytes, length);
        for (k = chance() % 4 + (i > 0); k && length >= 8; k--) {
            size_t at = chance() % 3 ? chance() % length : chance() % (length < 1600 ? length : 1600);
            if (chance() % 2)
                copy[at] = (unsigned char)chance();
            else if (chance() % 2)
                memcpy(copy + at / 8 * 8 - (at / 8 * 8 + 8 > length ? 8 : 0), &WILD[chance() % 11], 8);
            else if (chance() % 2)
                memset(copy + at, 0xff, length - at < 8 ? length - at : 8);
            else
                copy[at] ^= (unsigned char)(1u << chance() % 8);
        }
        if (advisor_bundle_read(&bundle, copy, length) == ADVISOR_OK) {
            unsigned c;
            taken++;
            for (c = 0; c < bundle.components; c++) {
                static const double X[] = {0.0, 1e-18, 1.0, 70.5, 3e3, 1.152921504606847e18};
                static const double P[] = {0.0009765625, 0.7, 1.0, 5.0, 300.0, 1048576.0};
                for (k = 0; k < 6; k++) {
                    double low, high, elapsed;
                    double value = advisor_predict(&bundle, c, X[k], P[chance() % 6], &low, &high);
                    int cores = advisor_choose_cores(&bundle, c, X[k], 1u << (4 * k), 0.05, &elapsed);
                    /* An answer there is is ordered, and a number. */
                    if (value == value && !(low <= value && value <= high && value > 0.0)) return 1;
                    if (cores > (1 << (4 * k))) return 2;
                    sum += value == value && value < 1e300 ? value : 0.0;
                }
            }
            memset(&other, 0, sizeof other);
            if (advisor_bundle_merge(&other, &bundle) != ADVISOR_OK || other.components != bundle.components) return 3;
            advisor_bundle_free(&other);
            advisor_bundle_free(&bundle);
        }
        free(copy);
    }
    printf("%ld %g\n", taken, sum);
    return 0;
}
