/* nqueens N CUT: a task for each safe place of a queen in rows above CUT. */
#include "program.h"

enum { QUEENS_MAX = 16 };

static int safe(const char *row, int n, char at) {
    for (int i = 0; i < n; i++)
        if (row[i] == at || row[i] - at == n - i || at - row[i] == n - i) return 0;
    return 1;
}

static long serial(int n, int depth, char *row) {
    long found = 0;
    if (depth == n) return 1;
    for (int i = 0; i < n; i++)
        if (safe(row, depth, (char)i)) {
            row[depth] = (char)i;
            found += serial(n, depth + 1, row);
        }
    return found;
}

static long solve(int n, int depth, const char *row) {
    long found[QUEENS_MAX] = {0}, sum = 0;
    if (depth == n) return 1;
    if (depth >= cut) {
        char own[QUEENS_MAX];
        memcpy(own, row, sizeof own);
        return serial(n, depth, own);
    }
    for (int i = 0; i < n; i++) {
        if (!safe(row, depth, (char)i)) continue;
        TASK(shared(found) firstprivate(i)) {
            char own[QUEENS_MAX];
            count_task();
            advisor_size(n - depth);
            memcpy(own, row, sizeof own);
            own[depth] = (char)i;
            found[i] = solve(n, depth + 1, own);
        }
    }
#pragma omp taskwait
    for (int i = 0; i < n; i++) sum += found[i];
    return sum;
}

static long run(int n) {
    char row[QUEENS_MAX] = {0};
    return solve(n, 0, row);
}

static long expected(int n) {
    static const long known[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712};
    return known[n];
}
