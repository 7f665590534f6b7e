/* pauses N CUT: fib, then it waits for a line of its input, then fib again in a child of its own (fork) and in itself. */
#include "program.h"

#include <sys/wait.h>
#include <unistd.h>

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

static long run(int n) {
    long found = fib(n, 0);
    int status = 1;
    printf("half\n");
    fflush(stdout);
    if (getchar() == EOF) return -1;
    pid_t child = fork();
    if (!child) _exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status) return -1;
    return fib(n, 0) == found ? found : -1;
}

static long expected(int n) {
    long a = 0, b = 1;
    for (int i = 0; i < n; i++) b += a, a = b - a;
    return a;
}
