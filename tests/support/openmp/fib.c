/* fib N CUT: a task a call, none below depth CUT; prints the tasks it made. */
#include "program.h"

static long fib(int n, int depth) {
    long a, b;
    if (n < 2) return n;
    if (depth >= cut) return fib(n - 1, depth) + fib(n - 2, depth);
    TASK(shared(a)) {
        count_task();
        a = fib(n - 1, depth + 1);
    }
    TASK(shared(b)) {
        count_task();
        b = fib(n - 2, depth + 1);
    }
#pragma omp taskwait
    return a + b;
}

static long run(int n) { return fib(n, 0); }

static long expected(int n) {
    long a = 0, b = 1;
    for (int i = 0; i < n; i++) b += a, a = b - a;
    return a;
}
