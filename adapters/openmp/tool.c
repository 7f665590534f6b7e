/* A tool for OpenMP (OMPT) that sends what tasks do to the advisor: README.md says how to use it and what may be set.
 * Licence: Apache-2.0, as the project's.
 *
 * Each thread of the program writes records of 32 bytes into a ring of its own; a helper thread sends them straight from there
 * and frees them when they have arrived. Nothing in a callback takes a lock that is held for long, or allocates but a block of
 * tasks now and then; none waits, but for room where every event goes into a file (ADVISOR_OPENMP_MODE=full). Where a ring is nearly full, or where there are more records than a service folds, tasks created
 * from then on are not followed: they are summed by thread, type and depth, so that those that are followed stay whole.
 *
 *   events.h     what a thread writes            threads.c    threads, their pools and sums
 *   callbacks.c  OMPT to records                 creation.c   how long a creation takes
 *   types.c      places in the program, named    sending.c    the helper: rings to batches
 *   service.c    batches over a socket           file.c       batches into a file
 *   bytes.c      MessagePack
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "events.h"

enum { SAMPLE_FIRST = 64 }; /* of so many tasks one is followed when most are not; fewer where that is too many */

struct tool tool;

/* The cycle counter serves where it runs at one rate on all cores and in all states. */
static bool tsc_is_constant(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
#else
    return false;
#endif
}

static double number_from(const char *name, double otherwise, double least, double most) {
    const char *text = getenv(name);
    char *end;
    double value = text ? strtod(text, &end) : otherwise;
    if (!text || end == text) return otherwise;
    return value < least ? least : value > most ? most : value;
}

static void know_types(void) {
    static char program[NAME_BYTES_MAX];
    snprintf(program, sizeof program, "%s", program_invocation_short_name);
    type_at("elsewhere", CONSTANT); /* the first: for all beyond the most that there may be */
    known.depth = type_at("depth", CONSTANT);
    known.apart = type_at("tasks not followed", CONSTANT);
    known.barrier = type_at("barrier", CONSTANT);
    known.unknown = type_at("unknown place", CONSTANT);
    known.program = type_at(program, CONSTANT);
}

static int start(ompt_function_lookup_t lookup, int device, ompt_data_t *data) {
    static bool started; /* the runtime of a forked child starts again, but its parent is the one that is watched */
    (void)device, (void)data;
    if (started) return 0;
    started = true;
    ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
    if (!set) return 0;
    know_types();
    if (!start_sending()) return 0;
    set_callbacks(set);
    watch_creation((const void *)lookup);
    atomic_store(&tool.on, true);
    return 1;
}

static void finish(ompt_data_t *data) {
    (void)data;
    if (!atomic_exchange(&tool.on, false)) return;
    if (self) close_thread(self);
    self = NULL;
    stop_sending();
}

__attribute__((visibility("default"))) ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
    static ompt_start_tool_result_t result = {start, finish, {0}};
    const char *mode = getenv("ADVISOR_OPENMP_MODE");
    double records = number_from("ADVISOR_OPENMP_BUFFER", 262144, 1024, 16777216);
    (void)version, (void)runtime;
    if (mode && !strcmp(mode, "off")) return NULL;
    for (tool.records = 1024; (double)tool.records < records;) tool.records *= 2;
    tool.rate_max = number_from("ADVISOR_OPENMP_RATE", 2e6, 1.0, 1e12);
    tool.flush_ms = (int)number_from("ADVISOR_OPENMP_FLUSH_MS", 10000, 0, 3600000);
    tool.tsc = tsc_is_constant();
    atomic_store(&tool.sample, SAMPLE_FIRST);
    atomic_store(&tool.mode, mode && !strcmp(mode, "full") ? FULL : mode && !strcmp(mode, "sums") ? SUMS : AUTO);
    return &result;
}
