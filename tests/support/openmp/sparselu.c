/* sparselu N CUT: LU decomposition of N x N blocks, many of them empty, a task a block and step; CUT 0: none. */
#include "program.h"

#include <math.h>

enum { B = 24 };
typedef double block[B][B];

static block **blocks;

static void factor(block a) {
    for (int k = 0; k < B; k++)
        for (int i = k + 1; i < B; i++) {
            a[i][k] /= a[k][k];
            for (int j = k + 1; j < B; j++) a[i][j] -= a[i][k] * a[k][j];
        }
}

static void forward(block d, block a) {
    for (int j = 0; j < B; j++)
        for (int k = 0; k < B; k++)
            for (int i = k + 1; i < B; i++) a[i][j] -= d[i][k] * a[k][j];
}

static void backward(block d, block a) {
    for (int i = 0; i < B; i++)
        for (int k = 0; k < B; k++) {
            a[i][k] /= d[k][k];
            for (int j = k + 1; j < B; j++) a[i][j] -= a[i][k] * d[k][j];
        }
}

static void update(block row, block column, block a) {
    for (int i = 0; i < B; i++)
        for (int j = 0; j < B; j++)
            for (int k = 0; k < B; k++) a[i][j] -= row[i][k] * column[k][j];
}

static block *new_block(void) { return calloc(1, sizeof(block)); }

static void fill(int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            block *a = i == j || (i * 7 + j * 3) % 4 == 0 || abs(i - j) == 1 ? new_block() : NULL;
            for (int k = 0; a && k < B * B; k++) (*a)[k / B][k % B] = (double)((i * 31 + j * 17 + k * 13) % 97) / 97.0;
            for (int k = 0; a && i == j && k < B; k++) (*a)[k][k] += 4.0 * B * n;
            blocks[i * n + j] = a;
        }
}

static void decompose(int n, int tasks) {
    for (int k = 0; k < n; k++) {
        factor(*blocks[k * n + k]);
        for (int j = k + 1; j < n; j++) {
            if (blocks[k * n + j]) {
                if (tasks) {
                    TASK(firstprivate(k, j)) {
                        count_task();
                        forward(*blocks[k * n + k], *blocks[k * n + j]);
                    }
                } else
                    forward(*blocks[k * n + k], *blocks[k * n + j]);
            }
            if (blocks[j * n + k]) {
                if (tasks) {
                    TASK(firstprivate(k, j)) {
                        count_task();
                        backward(*blocks[k * n + k], *blocks[j * n + k]);
                    }
                } else
                    backward(*blocks[k * n + k], *blocks[j * n + k]);
            }
        }
        if (tasks) {
#pragma omp taskwait
        }
        for (int i = k + 1; i < n; i++)
            for (int j = k + 1; blocks[i * n + k] && j < n; j++) {
                if (!blocks[k * n + j]) continue;
                if (!blocks[i * n + j]) blocks[i * n + j] = new_block();
                if (tasks) {
                    TASK(firstprivate(k, i, j)) {
                        count_task();
                        update(*blocks[i * n + k], *blocks[k * n + j], *blocks[i * n + j]);
                    }
                } else
                    update(*blocks[i * n + k], *blocks[k * n + j], *blocks[i * n + j]);
            }
        if (tasks) {
#pragma omp taskwait
        }
    }
}

static long checksum(int n, int tasks) {
    double sum = 0.0;
    blocks = calloc((size_t)n * n, sizeof *blocks);
    fill(n);
    decompose(n, tasks);
    for (int i = 0; i < n * n; i++) {
        for (int k = 0; blocks[i] && k < B * B; k++) sum += (*blocks[i])[k / B][k % B] * (k % 7 + 1);
        free(blocks[i]);
    }
    free(blocks);
    return lround(sum * 1e3);
}

static long run(int n) { return checksum(n, cut > 0); }

static long expected(int n) { return checksum(n, 0); }
