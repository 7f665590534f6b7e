/* strassen N CUT: product of N x N matrices of whole numbers, N a power of two; seven tasks a call above depth CUT. */
#include "program.h"

typedef unsigned long number; /* wraps: exact, whatever the order */
enum { BASE = 32 };

static void plain(const number *a, const number *b, number *c, int n, int pitch_a, int pitch_b) {
    memset(c, 0, (size_t)n * n * sizeof *c);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * pitch_a + k] * b[k * pitch_b + j];
}

/* out = a + sign b, of quarters q and r of a matrix; r < 0: the quarter alone. */
static number *quarter(const number *a, int pitch, int h, int q, int r, int sign) {
    number *out = malloc((size_t)h * h * sizeof *out);
    const number *one = a + (q / 2) * h * pitch + (q % 2) * h, *two = r < 0 ? NULL : a + (r / 2) * h * pitch + (r % 2) * h;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < h; j++) out[i * h + j] = one[i * pitch + j] + (two ? (number)sign * two[i * pitch + j] : 0);
    return out;
}

static void strassen(const number *a, const number *b, number *c, int n, int depth) {
    /* M1 = (A11+A22)(B11+B22), M2 = (A21+A22)B11, M3 = A11(B12-B22), M4 = A22(B21-B11), M5 = (A11+A12)B22, ... */
    static const int left[7][3] = {{0, 3, 1}, {2, 3, 1}, {0, -1, 0}, {3, -1, 0}, {0, 1, 1}, {2, 0, -1}, {1, 3, -1}};
    static const int right[7][3] = {{0, 3, 1}, {0, -1, 0}, {1, 3, -1}, {2, 0, -1}, {3, -1, 0}, {0, 1, 1}, {2, 3, 1}};
    number *m[7];
    int h = n / 2;
    if (n <= BASE) {
        plain(a, b, c, n, n, n);
        return;
    }
    for (int i = 0; i < 7; i++) {
        m[i] = malloc((size_t)h * h * sizeof **m);
        if (depth < cut) {
            TASK(shared(m) firstprivate(i)) {
                count_task();
                number *l = quarter(a, n, h, left[i][0], left[i][1], left[i][2]);
                number *r = quarter(b, n, h, right[i][0], right[i][1], right[i][2]);
                strassen(l, r, m[i], h, depth + 1);
                free(l);
                free(r);
            }
        } else {
            number *l = quarter(a, n, h, left[i][0], left[i][1], left[i][2]);
            number *r = quarter(b, n, h, right[i][0], right[i][1], right[i][2]);
            strassen(l, r, m[i], h, depth);
            free(l);
            free(r);
        }
    }
    if (depth < cut) {
#pragma omp taskwait
    }
    for (int i = 0; i < h; i++)
        for (int j = 0; j < h; j++) {
            int at = i * h + j;
            c[i * n + j] = m[0][at] + m[3][at] - m[4][at] + m[6][at];
            c[i * n + j + h] = m[2][at] + m[4][at];
            c[(i + h) * n + j] = m[1][at] + m[3][at];
            c[(i + h) * n + j + h] = m[0][at] - m[1][at] + m[2][at] + m[5][at];
        }
    for (int i = 0; i < 7; i++) free(m[i]);
}

static long product(int n, int fast) {
    size_t cells = (size_t)n * n;
    number *a = malloc(cells * sizeof *a), *b = malloc(cells * sizeof *b), *c = malloc(cells * sizeof *c), sum = 0;
    for (size_t i = 0; i < cells; i++) a[i] = i * 2654435761u % 1009, b[i] = i * 40503u % 997;
    if (fast)
        strassen(a, b, c, n, 0);
    else
        plain(a, b, c, n, n, n);
    for (size_t i = 0; i < cells; i++) sum = sum * 31 + c[i];
    free(a);
    free(b);
    free(c);
    return (long)(sum >> 1);
}

static long run(int n) { return product(n, 1); }

static long expected(int n) { return product(n, 0); }
