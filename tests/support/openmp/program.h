/* What the programs of the tests share: `program N CUT`, where CUT is the depth from which on they make no tasks.
 *
 * Each defines `run` (in the single construct of a parallel region) and `expected`; main prints "tasks=... seconds=... ok=...".
 * -DUNTIED makes their tasks untied.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor_task.h"

#ifdef UNTIED
#define TIEDNESS untied
#else
#define TIEDNESS
#endif
#define PRAGMA(text) _Pragma(#text)
#define TASK_WITH(clauses) PRAGMA(omp task clauses)
#define TASK(...) TASK_WITH(TIEDNESS __VA_ARGS__)

static int cut = 1 << 30;

/* A count of its own for each thread: untied tasks take it before they may move. */
static struct {
    _Alignas(64) long tasks;
} counted[1024];

static inline void count_task(void) { counted[omp_get_thread_num()].tasks++; }

static long run(int n);
static long expected(int n);

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10;
    long found = 0, tasks = 0;
    double seconds;
    if (argc > 2) cut = atoi(argv[2]);
    seconds = omp_get_wtime();
#pragma omp parallel
#pragma omp single
    found = run(n);
    seconds = omp_get_wtime() - seconds;
    for (int i = 0; i < 1024; i++) tasks += counted[i].tasks;
    printf("tasks=%ld seconds=%.6f ok=%d\n", tasks, seconds, found == expected(n));
    return found == expected(n) ? 0 : 1;
}
