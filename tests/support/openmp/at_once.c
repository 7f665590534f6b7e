/* at_once N: a task of each kind, N times, each kind in a function of its name. What a team of one runs at once is told apart:
 * tasks that another team would defer, and those that the program itself wants in line. */
#include "program.h"

static long made;

static void deferred(void) {
    TASK(shared(made)) {
        count_task();
        made++;
    }
}

static void under_if0(void) {
    TASK(if (0) shared(made)) {
        count_task();
        made++;
    }
}

/* The final task may be deferred; what it makes may not, but by a task that is not final. */
static void inside_final(void) {
    TASK(shared(made)) {
        count_task();
        made++;
    }
}

static void final_itself(void) {
    TASK(final(1) shared(made)) {
        count_task();
        made++;
        inside_final();
    }
}

static void dependent(void) {
    TASK(depend(inout : made) shared(made)) {
        count_task();
        made++;
    }
}

static void loop_if0(void) {
#pragma omp taskloop num_tasks(1) if (0) shared(made)
    for (int i = 0; i < 1; i++) {
        count_task();
        made++;
        deferred();
    }
}

static void loop_deferred(void) {
#pragma omp taskloop num_tasks(1) shared(made)
    for (int i = 0; i < 1; i++) {
        count_task();
        made++;
    }
}

static void outside(void) {
    TASK(shared(made)) made++;
}

static long run(int n) {
    for (int i = 0; i < n; i++) {
        deferred();
#pragma omp taskwait
        under_if0();
        final_itself();
#pragma omp taskwait
        dependent();
#pragma omp taskwait
        loop_if0();
#pragma omp taskwait
        loop_deferred();
#pragma omp taskwait
    }
    return made;
}

__attribute__((constructor)) static void before_any_region(void) {
    if (getenv("AT_ONCE_OUTSIDE")) outside();
    made = 0;
}

static long expected(int n) { return 8L * n; }
