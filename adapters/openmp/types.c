/* Places in the program and names, by number: the strings of the wire. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "events.h"
#include "lines.h"

struct types_known known;
struct types types;

static struct {
    struct {
        uintptr_t at;
        enum name_kind kind;
    } type[TYPES_MAX];
    _Atomic uint32_t count;
    pthread_mutex_t lock;
} named = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A place that was never met: once for each, and short. */
static uint32_t new_type(uintptr_t key, enum name_kind kind) {
    uint32_t number = 0;
    pthread_mutex_lock(&named.lock);
    unsigned place = place_of(key);
    uintptr_t there;
    while ((there = atomic_load_explicit(&types.key[place], memory_order_relaxed)) && there != key)
        place = (place + 1) & (TYPES_ROOM - 1);
    if (there)
        number = types.number[place];
    else {
        number = atomic_load(&named.count);
        if (number < TYPES_MAX) {
            named.type[number].at = key;
            named.type[number].kind = kind;
            types.number[place] = number;
            atomic_store_explicit(&named.count, number + 1, memory_order_release);
            atomic_store_explicit(&types.key[place], key, memory_order_release);
        } else
            number = 0;
    }
    pthread_mutex_unlock(&named.lock);
    return number;
}

uint32_t search_type(uintptr_t key, enum name_kind kind) {
    unsigned place = place_of(key);
    uintptr_t there;
    while ((there = atomic_load_explicit(&types.key[place], memory_order_acquire))) {
        if (there == key) return types.number[place];
        place = (place + 1) & (TYPES_ROOM - 1);
    }
    return new_type(key, kind);
}

uint32_t types_count(void) { return atomic_load_explicit(&named.count, memory_order_acquire); }

/* ---- their names; the helper alone asks ---- */

static struct {
    char path[1024];
    const unsigned char *file;
    size_t size;
} looked;

/* Map the file of a module, unless it is the one that was looked into last. */
static void look_into(const char *path) {
    struct stat about;
    if (!strncmp(looked.path, path, sizeof looked.path)) return;
    if (looked.file) munmap((void *)looked.file, looked.size);
    looked.file = NULL;
    snprintf(looked.path, sizeof looked.path, "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && !strcmp(path, program_invocation_name)) fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &about) && (size_t)about.st_size > sizeof(ElfW(Ehdr))) {
        void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) looked.file = map, looked.size = (size_t)about.st_size;
    }
    close(fd);
}

static bool inside(uint64_t at, uint64_t size) { return at <= looked.size && size <= looked.size - at; }

/* The function of a symbol table that holds an address, and where it begins; NULL without. */
static const char *function_in(const ElfW(Shdr) * table, const ElfW(Shdr) * names, uintptr_t address, uintptr_t *begin) {
    if (!inside(table->sh_offset, table->sh_size) || !inside(names->sh_offset, names->sh_size)) return NULL;
    if (!names->sh_size || looked.file[names->sh_offset + names->sh_size - 1]) return NULL;
    const ElfW(Sym) *all = (const void *)(looked.file + table->sh_offset);
    for (size_t k = 0; k < table->sh_size / sizeof *all; k++)
        if (ELF64_ST_TYPE(all[k].st_info) == STT_FUNC && all[k].st_value <= address && address - all[k].st_value < all[k].st_size &&
            all[k].st_name < names->sh_size) {
            *begin = all[k].st_value;
            return (const char *)looked.file + names->sh_offset + all[k].st_name;
        }
    return NULL;
}

/* The table of the looked-at file's sections, or none. */
static const ElfW(Shdr) * sections(unsigned *count) {
    const ElfW(Ehdr) *head = (const void *)looked.file;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_shentsize != sizeof(ElfW(Shdr))) return NULL;
    if (head->e_shoff % _Alignof(ElfW(Shdr)) || !inside(head->e_shoff, (uint64_t)head->e_shnum * sizeof(ElfW(Shdr)))) return NULL;
    *count = head->e_shnum;
    return (const void *)(looked.file + head->e_shoff);
}

/* The function of the module's own symbol table, static ones included. */
static const char *function_at(uintptr_t address, uintptr_t *begin) {
    unsigned count;
    const ElfW(Shdr) *parts = sections(&count);
    const char *found = NULL;
    for (unsigned i = 0; parts && !found && i < count; i++)
        if (parts[i].sh_type == SHT_SYMTAB && parts[i].sh_link < count)
            found = function_in(&parts[i], &parts[parts[i].sh_link], address, begin);
    return found;
}

/* A section by its name; empty without, and where it is compressed. */
static struct part section(const char *name) {
    unsigned count;
    const ElfW(Shdr) *parts = sections(&count);
    const ElfW(Ehdr) *head = (const void *)looked.file;
    if (!parts || head->e_shstrndx >= count) return (struct part){0};
    const ElfW(Shdr) *names = &parts[head->e_shstrndx];
    if (!inside(names->sh_offset, names->sh_size)) return (struct part){0};
    for (unsigned i = 0; i < count; i++)
        if (parts[i].sh_name < names->sh_size && names->sh_size - parts[i].sh_name > strlen(name) &&
            !strcmp((const char *)looked.file + names->sh_offset + parts[i].sh_name, name) && parts[i].sh_type == SHT_PROGBITS &&
            !(parts[i].sh_flags & SHF_COMPRESSED) && inside(parts[i].sh_offset, parts[i].sh_size))
            return (struct part){looked.file + parts[i].sh_offset, parts[i].sh_size};
    return (struct part){0};
}

/* `function (file:line)`; without lines `function+0xoffset (module)`: another build has the same, as long as the function is the same. A
   place is a return address: the call lies before it. */
static void name_place(uintptr_t at, char *out) {
    Dl_info module;
    if (!dladdr((void *)(at - 1), &module) || !module.dli_fname) {
        snprintf(out, NAME_BYTES_MAX, "0x%lx", (unsigned long)at);
        return;
    }
    const char *file = strrchr(module.dli_fname, '/');
    look_into(module.dli_fname);
    const ElfW(Ehdr) *head = (const void *)looked.file;
    uintptr_t base = head && head->e_type == ET_EXEC ? 0 : (uintptr_t)module.dli_fbase, begin = 0;
    const char *name = function_at(at - 1 - base, &begin);
    if (!name && module.dli_sname) name = module.dli_sname, begin = (uintptr_t)module.dli_saddr - base;
    char *(*demangle)(const char *, char *, size_t *, int *) = dlsym(RTLD_DEFAULT, "__cxa_demangle"); /* of a C++ program */
    char *readable = name && demangle ? demangle(name, NULL, NULL, NULL) : NULL;
    const struct line_parts parts = {section(".debug_line"), section(".debug_line_str"), section(".debug_str")};
    unsigned long offset = (unsigned long)(at - base - begin);
    char place[128];
    bool line = line_at(&parts, at - 1 - base, place, sizeof place);
    if (!line) snprintf(place, sizeof place, "%.64s", file ? file + 1 : module.dli_fname);
    int room = NAME_BYTES_MAX - (int)sizeof place - 24;
    if (!name)
        snprintf(out, NAME_BYTES_MAX, line ? "%s" : "%s+0x%lx", place, offset);
    else if (line)
        snprintf(out, NAME_BYTES_MAX, "%.*s (%s)", room, readable ? readable : name, place);
    else
        snprintf(out, NAME_BYTES_MAX, "%.*s+0x%lx (%s)", room, readable ? readable : name, offset, place);
    free(readable);
}

/* The name of a type, printable and short enough for the wire. */
void name_type(uint32_t type, char out[NAME_BYTES_MAX + 1]) {
    if (named.type[type].kind == CONSTANT)
        snprintf(out, NAME_BYTES_MAX, "%s", (const char *)named.type[type].at);
    else
        name_place(named.type[type].at, out);
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    if (!*out) snprintf(out, NAME_BYTES_MAX, "?");
}
