/* Preloaded into a service: records what it does to the files of one folder, fails writes on demand, kills at a chosen step.

   DISK_FOLDER   the folder whose files are watched, an absolute path
   DISK_JOURNAL  file that the steps are appended to: a line "KIND NAME OFFSET LENGTH", then LENGTH bytes
   DISK_STEPS    the process kills itself before this step; absent or 0: never
   DISK_FULL     while this path exists, nothing more can be written (ENOSPC)

   Each step is recorded before it is done, so that a step without a successor may or may not have happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096
#define NAME 256

static char names[FILES][NAME]; /* by descriptor: the name in the folder, "." for the folder itself, or empty */
static int journal = -1;
static long steps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *inside(const char *path) {
    const char *folder = getenv("DISK_FOLDER");
    if (folder == NULL || path == NULL) return NULL;
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0) return NULL;
    if (path[length] == 0) return ".";
    if (path[length] != '/' || strstr(path, "-shm") != NULL) return NULL; /* shared memory, not durable by design */
    return path[length + 1] ? path + length + 1 : ".";
}

static const char *named(int fd) {
    return fd >= 0 && fd < FILES && names[fd][0] ? names[fd] : NULL;
}

static void step(const char *kind, const char *name, long long offset, const void *data, size_t length) {
    char head[2 * NAME + 64];
    pthread_mutex_lock(&lock);
    const char *last = getenv("DISK_STEPS"), *path = getenv("DISK_JOURNAL");
    if (journal < 0 && path != NULL) journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (last != NULL && atol(last) > 0 && ++steps >= atol(last)) kill(getpid(), SIGKILL);
    int n = snprintf(head, sizeof head, "%s %s %lld %zu\n", kind, name, offset, length);
    struct iovec parts[2] = {{head, (size_t)n}, {(void *)(size_t)data, length}};
    if (journal >= 0 && syscall(SYS_writev, journal, parts, length ? 2 : 1) < 0) abort();
    pthread_mutex_unlock(&lock);
}

static int full(void) {
    const char *path = getenv("DISK_FULL");
    if (path == NULL || syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0) return 0;
    errno = ENOSPC;
    return 1;
}

static void opened(int fd, const char *path, int flags, int existed) {
    const char *name = inside(path);
    if (fd < 0 || fd >= FILES) return;
    names[fd][0] = 0;
    if (name == NULL || strlen(name) >= NAME) return;
    strcpy(names[fd], name);
    if (flags & O_CREAT && !existed) step("make", name, 0, NULL, 0);
    if (flags & O_TRUNC && existed) step("cut", name, 0, NULL, 0);
}

static int there(const char *path) {
    return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                  \
        int existed = inside(path) != NULL && there(path);             \
        int fd = NEXT(name)(path, flags, mode);                        \
        opened(fd, path, flags, existed);                              \
        return fd;                                                     \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                   \
    int name(int at, const char *path, int flags, ...) {               \
        va_list more;                                                  \
        va_start(more, flags);                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                  \
        int existed = inside(path) != NULL && there(path);             \
        int fd = NEXT(name)(at, path, flags, mode);                    \
        opened(fd, path, flags, existed);                              \
        return fd;                                                     \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < FILES) names[fd][0] = 0;
    return NEXT(close)(fd);
}

ssize_t write(int fd, const void *data, size_t length) {
    const char *name = named(fd);
    if (name != NULL) {
        struct stat found;
        int append = fcntl(fd, F_GETFL) & O_APPEND;
        if (full()) return -1;
        step("write", name, append && fstat(fd, &found) == 0 ? found.st_size : lseek(fd, 0, SEEK_CUR), data, length);
    }
    return NEXT(write)(fd, data, length);
}

#define PWRITE(name, offset_t)                                                 \
    ssize_t name(int fd, const void *data, size_t length, offset_t offset) {   \
        const char *where = named(fd);                                         \
        if (where != NULL) {                                                   \
            if (full()) return -1;                                             \
            step("write", where, offset, data, length);                        \
        }                                                                      \
        return NEXT(name)(fd, data, length, offset);                           \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

static void vector(const char *name, const struct iovec *parts, int count, long long offset) {
    for (int i = 0; i < count; i++) {
        step("write", name, offset, parts[i].iov_base, parts[i].iov_len);
        offset += (long long)parts[i].iov_len;
    }
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    const char *name = named(fd);
    if (name != NULL) {
        struct stat found;
        if (full()) return -1;
        int append = fcntl(fd, F_GETFL) & O_APPEND;
        vector(name, parts, count, append && fstat(fd, &found) == 0 ? found.st_size : lseek(fd, 0, SEEK_CUR));
    }
    return NEXT(writev)(fd, parts, count);
}

#define PWRITEV(name, offset_t)                                                     \
    ssize_t name(int fd, const struct iovec *parts, int count, offset_t offset) {   \
        const char *where = named(fd);                                              \
        if (where != NULL) {                                                        \
            if (full()) return -1;                                                  \
            vector(where, parts, count, offset);                                    \
        }                                                                           \
        return NEXT(name)(fd, parts, count, offset);                                \
    }
PWRITEV(pwritev, off_t)
PWRITEV(pwritev64, off64_t)

#define CUT(name, offset_t)                                        \
    int name(int fd, offset_t length) {                            \
        if (named(fd) != NULL) step("cut", named(fd), length, NULL, 0); \
        return NEXT(name)(fd, length);                             \
    }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define SYNC(name)                                                 \
    int name(int fd) {                                             \
        int done = NEXT(name)(fd);                                 \
        if (done == 0 && named(fd) != NULL) step("sync", named(fd), 0, NULL, 0); \
        return done;                                               \
    }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
    const char *one = inside(from), *other = inside(to);
    if (one != NULL && other != NULL && strlen(other) < NAME) {
        step("move", one, 0, other, strlen(other));
        for (int fd = 0; fd < FILES; fd++)
            if (strcmp(names[fd], one) == 0) strcpy(names[fd], other);
    }
    return NEXT(rename)(from, to);
}

int unlink(const char *path) {
    const char *name = inside(path);
    if (name != NULL && there(path)) step("remove", name, 0, NULL, 0);
    return NEXT(unlink)(path);
}
