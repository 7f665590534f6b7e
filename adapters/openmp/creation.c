/* How long a creation takes. OMPT tells that a task was created, not when that began and ended.
 *
 * The compiler's code calls __kmpc_omp_task_alloc, copies what the task captures, and hands the task over. The tool puts itself
 * between the program's modules and the runtime, in their tables of imported functions, before there is a second thread.
 * ADVISOR_OPENMP_CREATION=0 leaves them alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "events.h"

enum { NONE, SENT, UNSENT }; /* of task.creation */

typedef void *alloc_t(void *, int32_t, int32_t, size_t, size_t, void *);
typedef int32_t hand_t(void *, int32_t, void *);
typedef int32_t hand_dependent_t(void *, int32_t, void *, int32_t, void *, int32_t, void *);
typedef void if0_t(void *, int32_t, void *);
typedef void loop_t(void *, int, void *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, void *);
typedef void loop_5_t(void *, int, void *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, int, void *);
static alloc_t *real_alloc;
static hand_t *real_hand;
static hand_dependent_t *real_hand_dependent;
static if0_t *real_if0;
static loop_t *real_loop;
static loop_5_t *real_loop_5;

static void enter_creation(struct thread *t, struct task *task, uint32_t type) {
    uint64_t now = ticks();
    t->creating_type = type;
    task->creation = UNSENT;
    if (task->followed) {
        if (put_opening(t, now, ENTER, id_of(task), CREATION, type)) task->creation = SENT;
    } else {
        spend(task, now); /* both of its records are left out when it ends */
        task->bucket = CREATES;
    }
    t->fresh = now;
}

/* End the creation that the running task is in; a time that was just read will do where the task is only summed. */
void leave_creation(struct thread *t, uint32_t type) {
    struct task *task = t->current;
    if (!task || task->creation == NONE) return;
    if (task->creation == SENT)
        put(t, ticks(), EXIT, id_of(task), CREATION, type, 0);
    else if (task->followed)
        ADD(t->dropped, 1);
    else {
        uint64_t now = t->fresh ? t->fresh : ticks();
        leave_out(t, 2);
        spend(task, now);
        task->bucket = WORKS;
    }
    task->creation = NONE;
}

static void *wrapped_alloc(void *place, int32_t gtid, int32_t flags, size_t task_bytes, size_t shared_bytes, void *entry) {
    struct thread *t = here();
    if (!t || !t->current) return real_alloc(place, gtid, flags, task_bytes, shared_bytes, entry);
    leave_creation(t, t->creating_type); /* an earlier one, whose hand-over was not seen */
    enter_creation(t, t->current, type_of_code(__builtin_return_address(0)));
    return t->creating = real_alloc(place, gtid, flags, task_bytes, shared_bytes, entry);
}

/* What is handed over may run at once, and make tasks of its own: the type is kept here meanwhile. The runtime gives the thread
 * back to the same task. */
#define HAND_OVER(CALL, TASK)                                 \
    do {                                                      \
        struct thread *t = here();                            \
        bool creates = t && t->creating && t->creating == (TASK); \
        uint32_t type = creates ? t->creating_type : 0;       \
        CALL;                                                 \
        if (creates && (t = here())) {                        \
            t->creating = NULL;                               \
            leave_creation(t, type);                          \
        }                                                     \
    } while (0)

static int32_t wrapped_hand(void *place, int32_t gtid, void *task) {
    int32_t result;
    HAND_OVER(result = real_hand(place, gtid, task), task);
    return result;
}

static int32_t wrapped_hand_dependent(void *place, int32_t gtid, void *task, int32_t n, void *list, int32_t n_more, void *more) {
    int32_t result;
    HAND_OVER(result = real_hand_dependent(place, gtid, task, n, list, n_more, more), task);
    return result;
}

/* The task runs between this call and one that completes it: its creation ends before it begins, see on_task_create. */
static void wrapped_if0(void *place, int32_t gtid, void *task) {
    struct thread *t = here();
    if (t && t->creating == task) t->begins_if0 = true;
    real_if0(place, gtid, task);
    if (t) t->creating = NULL, t->begins_if0 = false;
}

/* Its tasks are undeferred where `if_value` is 0, those that they make are not. */
#define LOOP(CALL, TASK)                                        \
    do {                                                        \
        struct thread *in = here();                             \
        const struct task *before = in ? in->linear : NULL;     \
        if (in) in->linear = if_value ? NULL : in->current;     \
        HAND_OVER(CALL, TASK);                                  \
        if ((in = here())) in->linear = before;                 \
    } while (0)

static void wrapped_loop(void *place, int gtid, void *task, int if_value, uint64_t *low, uint64_t *high, int64_t step, int nogroup,
                         int schedule, uint64_t grain, void *copy) {
    LOOP(real_loop(place, gtid, task, if_value, low, high, step, nogroup, schedule, grain, copy), task);
}

static void wrapped_loop_5(void *place, int gtid, void *task, int if_value, uint64_t *low, uint64_t *high, int64_t step, int nogroup,
                           int schedule, uint64_t grain, int modifier, void *copy) {
    LOOP(real_loop_5(place, gtid, task, if_value, low, high, step, nogroup, schedule, grain, modifier, copy), task);
}

static const struct {
    const char *name;
    void **real, *wrapped;
} wraps[] = {
    {"__kmpc_omp_task_alloc", (void **)&real_alloc, (void *)wrapped_alloc},
    {"__kmpc_omp_task", (void **)&real_hand, (void *)wrapped_hand},
    {"__kmpc_omp_task_with_deps", (void **)&real_hand_dependent, (void *)wrapped_hand_dependent},
    {"__kmpc_omp_task_begin_if0", (void **)&real_if0, (void *)wrapped_if0},
    {"__kmpc_taskloop", (void **)&real_loop, (void *)wrapped_loop},
    {"__kmpc_taskloop_5", (void **)&real_loop_5, (void *)wrapped_loop_5},
};
enum { WRAPS = sizeof wraps / sizeof *wraps };

/* ---- into the modules' tables ---- */

#if defined(__x86_64__)
enum { SLOT_A = R_X86_64_JUMP_SLOT, SLOT_B = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { SLOT_A = R_AARCH64_JUMP_SLOT, SLOT_B = R_AARCH64_GLOB_DAT };
#else
enum { SLOT_A = -1, SLOT_B = -1 };
#endif

struct imports {
    uintptr_t base;
    const ElfW(Phdr) * relro; /* what was made read-only after loading */
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2];
    size_t bytes[2];
};

static void patch(const struct imports *of, uintptr_t slot, void *value) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = slot & ~(page - 1);
    bool locked = of->relro && slot >= of->base + of->relro->p_vaddr && slot < of->base + of->relro->p_vaddr + of->relro->p_memsz;
    if (locked && mprotect((void *)at, page, PROT_READ | PROT_WRITE)) return;
    __atomic_store_n((void **)slot, value, __ATOMIC_RELEASE);
    if (locked) mprotect((void *)at, page, PROT_READ);
}

static struct imports imports_of(const struct dl_phdr_info *module, const ElfW(Dyn) * dynamic) {
    struct imports found = {.base = module->dlpi_addr};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB) found.symbols = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB) found.strings = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_JMPREL) found.tables[0] = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_PLTRELSZ) found.bytes[0] = dynamic->d_un.d_val;
        if (dynamic->d_tag == DT_RELA) found.tables[1] = (const void *)dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_RELASZ) found.bytes[1] = dynamic->d_un.d_val;
    }
    return found;
}

static int patch_module(struct dl_phdr_info *module, size_t size, void *runtime) {
    const ElfW(Dyn) *dynamic = NULL;
    const ElfW(Phdr) *relro = NULL;
    (void)size;
    for (int i = 0; i < module->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC) dynamic = (const void *)(module->dlpi_addr + part->p_vaddr);
        if (part->p_type == PT_GNU_RELRO) relro = part;
        if (part->p_type == PT_LOAD && (uintptr_t)runtime - (module->dlpi_addr + part->p_vaddr) < part->p_memsz) return 0;
    }
    struct imports of = imports_of(module, dynamic);
    of.relro = relro;
    /* glibc relocates these pointers; the kernel's own module does not, and has none of these functions. */
    if (!of.symbols || !of.strings || (uintptr_t)of.symbols < of.base || (uintptr_t)of.strings < of.base) return 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; of.tables[k] && i < of.bytes[k] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *slot = &of.tables[k][i];
            int type = (int)ELF64_R_TYPE(slot->r_info);
            if (type != SLOT_A && type != SLOT_B) continue;
            const char *name = of.strings + of.symbols[ELF64_R_SYM(slot->r_info)].st_name;
            for (int w = 0; w < WRAPS && !strncmp(name, "__kmpc_", 7); w++)
                if (*wraps[w].real && !strcmp(name, wraps[w].name)) patch(&of, of.base + slot->r_offset, wraps[w].wrapped);
        }
    return 0;
}

/* `runtime` is a function of the OpenMP runtime: what its library exports is what is called. */
void watch_creation(const void *runtime) {
    const char *wish = getenv("ADVISOR_OPENMP_CREATION");
    Dl_info about;
    if ((wish && !strcmp(wish, "0")) || SLOT_A < 0 || !dladdr(runtime, &about) || !about.dli_fname) return;
    void *library = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    for (int w = 0; w < WRAPS; w++) *wraps[w].real = dlsym(library, wraps[w].name);
    if (real_alloc && real_hand) dl_iterate_phdr(patch_module, (void *)runtime);
}
