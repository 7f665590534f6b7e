/* What OpenMP does not tell a tool: the size of a task, and parameters that tell its instances apart.
 *
 *     #pragma omp task
 *     {
 *         advisor_size(n);              // what the task's time depends on
 *         advisor_parameter("row", i);  // a sub-tree of the profile for each value
 *         ...
 *     }
 *
 * Both are about the task that runs on the calling thread. Without the tool they do nothing, and cost a comparison; nothing
 * needs to be linked. The depth of a task is counted by the tool.
 * Licence: Apache-2.0, as the project's.
 */
#ifndef ADVISOR_TASK_H
#define ADVISOR_TASK_H

#ifndef _GNU_SOURCE
#define ADVISOR_TASK_NOLOAD 4 /* RTLD_NOLOAD of Linux, which <dlfcn.h> keeps from strict programs */
#else
#define ADVISOR_TASK_NOLOAD RTLD_NOLOAD
#endif

#include <dlfcn.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct advisor_task_hooks {
    void (*size)(double);
    void (*parameter)(const char *, int64_t);
};

/* The tool, once it is there. The runtime loads it at the first use of OpenMP; a thread's calls before are looked at again
 * after 1, 2, 4, 8, ... of them, so that a program without the tool does not pay for asking. */
static inline const struct advisor_task_hooks *advisor_task_tool(void) {
    static const struct advisor_task_hooks *found;
    static __thread uint64_t asked;
    const struct advisor_task_hooks *hooks = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    if (!hooks) {
        uint64_t times = asked++;
        if (!(times & (times - 1))) {
            void *tool = dlopen("libadvisor_openmp.so", RTLD_LAZY | ADVISOR_TASK_NOLOAD);
            if (tool) {
                hooks = (const struct advisor_task_hooks *)dlsym(tool, "advisor_task_hooks");
                __atomic_store_n(&found, hooks, __ATOMIC_RELEASE);
            }
        }
    }
    return hooks;
}

/* The size of the running task, finite and from 0 to 2^60. */
static inline void advisor_size(double n) {
    const struct advisor_task_hooks *tool = advisor_task_tool();
    if (tool) tool->size(n);
}

/* A parameter of the running task; `name` must last as long as the program, such as a literal. */
static inline void advisor_parameter(const char *name, int64_t value) {
    const struct advisor_task_hooks *tool = advisor_task_tool();
    if (tool) tool->parameter(name, value);
}

#ifdef __cplusplus
}
#endif
#endif
