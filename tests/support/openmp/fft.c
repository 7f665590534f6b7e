/* fft N CUT: transform of N numbers, N a power of two, and back; two tasks a call above depth CUT. */
#include "program.h"

#include <complex.h>
#include <math.h>

typedef double complex number;

static void transform(const number *in, number *out, int n, int step, int sign, int depth) {
    int h = n / 2;
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    if (depth < cut) {
        TASK() {
            count_task();
            advisor_parameter("n", h);
            transform(in, out, h, 2 * step, sign, depth + 1);
        }
        TASK() {
            count_task();
            advisor_parameter("n", h);
            transform(in + step, out + h, h, 2 * step, sign, depth + 1);
        }
#pragma omp taskwait
    } else {
        transform(in, out, h, 2 * step, sign, depth);
        transform(in + step, out + h, h, 2 * step, sign, depth);
    }
    for (int k = 0; k < h; k++) {
        double angle = sign * 2.0 * 3.14159265358979323846 * k / n;
        number turned = (cos(angle) + sin(angle) * I) * out[k + h];
        out[k + h] = out[k] - turned;
        out[k] += turned;
    }
}

static long run(int n) {
    number *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b), *c = malloc((size_t)n * sizeof *c);
    long same = 1;
    for (int i = 0; i < n; i++) a[i] = (i * 37 % 101) + (i * 11 % 17) * I;
    transform(a, b, n, 1, -1, 0);
    transform(b, c, n, 1, 1, 0);
    for (int i = 0; i < n; i++) same &= cabs(c[i] / n - a[i]) < 1e-6;
    free(a);
    free(b);
    free(c);
    return same;
}

static long expected(int n) { return n >= 0; }
