/* Batches to a service, over its Unix socket: exactly once while the service lives or keeps its state. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bytes.h"
#include "sending.h"

enum { STALL_MS = 30000 };          /* a service that says nothing for so long is taken for gone */
enum { STEP_MS = 50 };              /* waited at a time: the program may end meanwhile */
enum { ANSWER_BYTES_MAX = 1 << 24 }; /* twice what a service sends at most */

uint64_t restarts;

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int fd = -1;
static uint64_t sequence; /* of the last batch acknowledged */
static uint32_t msgid;
static struct bytes head, hello, answer;

bool find_service(const char *path) {
    if (!path || !*path || strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "advisor: ADVISOR_SOCKET %s: tasks are not watched\n", path && *path ? "is too long" : "is not set");
        return false;
    }
    strcpy(address.sun_path, path);
    return true;
}

static void hang_up(void) {
    if (fd >= 0) close(fd);
    fd = -1;
}

/* Wait for the socket, at most until the service is taken for gone or the program has waited long enough. */
static bool await(short what) {
    int64_t give_up = now_ms() + STALL_MS;
    for (;;) {
        struct pollfd ready = {fd, what, 0};
        int64_t now = now_ms(), stop = deadline_ms && deadline_ms < give_up ? deadline_ms : give_up;
        if (now >= stop) return false;
        int got = poll(&ready, 1, (int)(stop - now < STEP_MS ? stop - now : STEP_MS));
        if (got > 0) return !(ready.revents & (POLLERR | POLLNVAL));
        if (got < 0 && errno != EINTR) return false;
        if (atomic_load(&tool.stopping) && !deadline_ms) deadline_ms = now_ms() + tool.flush_ms;
    }
}

static bool send_all(struct iovec *parts, int count) {
    enum { PARTS_MIN = 512 }; /* parts that a system call takes at least */
    while (count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)(count < PARTS_MIN ? count : PARTS_MIN)};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if ((errno != EAGAIN && errno != EWOULDBLOCK) || !await(POLLOUT)) return false;
            continue;
        }
        while (count && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
    return true;
}

struct said {
    const unsigned char *error, *result, *end; /* into the answer */
};

/* Look for the answer to the last request in what came: -1 none can come, 0 not yet, 1 it is there. */
static int look(struct said *said) {
    struct token t;
    const unsigned char *at = answer.at, *stop = answer.at + answer.used;
    if (!answer.used || !skip(&at, stop)) return 0;
    at = answer.at;
    if (!take(&at, stop, &t) || t.kind != ARRAY || t.value != 4 || !take(&at, stop, &t) || !take(&at, stop, &t)) return -1;
    if (t.kind != NUMBER || t.value != msgid) return -1;
    said->error = at;
    if (!skip(&at, stop)) return -1;
    said->result = at;
    said->end = stop;
    return 1;
}

static bool receive(struct said *said) {
    enum { READ = 65536 };
    answer.used = 0;
    for (;;) {
        int found = look(said);
        if (found) return found > 0;
        if (answer.used > ANSWER_BYTES_MAX || !grow(&answer, READ)) return false;
        ssize_t got = recv(fd, answer.at + answer.used, READ, 0);
        if (got > 0)
            answer.used += (size_t)got;
        else if (!got || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || !await(POLLIN))
            return false;
    }
}

static void begin_request(struct bytes *b, const char *method) {
    b->used = 0;
    put_array(b, 4);
    put_head(b, 0x00, 0, 0);
    put_head(b, 0xce, ++msgid, 4);
    put_text(b, method);
    put_array(b, 1);
}

static void put_who(struct bytes *b) {
    put_text(b, "producer");
    put_text(b, producer);
    put_text(b, "incarnation");
    put_bin(b, incarnation, sizeof incarnation);
}

static void acknowledged(void) {
    sequence++;
    batch_arrived();
}

/* The service does not know what it has acknowledged: it lost its state. The run goes on as a new one, cut at its beginning. */
static void start_anew(void) {
    incarnation[sizeof incarnation - 1]++;
    sequence = 0;
    restarts++;
    begin_anew();
}

static bool greet(void) {
    struct said said;
    struct token t;
    const unsigned char *at;
    begin_request(&hello, "hello");
    put_map(&hello, 3);
    put_text(&hello, "protocol");
    put_uint(&hello, 2);
    put_who(&hello);
    struct iovec part = {hello.at, hello.used};
    if (hello.failed || !send_all(&part, 1) || !receive(&said)) return false;
    if (!take(&said.error, said.end, &t) || t.kind != NIL) return false;
    if (!(at = find(said.result, said.end, "sequence")) || !take(&at, said.end, &t) || t.kind != NUMBER) return false;
    if (batch.held && t.value == sequence + 1)
        acknowledged(); /* its answer was lost */
    else if (t.value != sequence)
        start_anew();
    return true;
}

static bool open_service(void) {
    if (fd >= 0) return true;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    bool met = !connect(fd, (struct sockaddr *)&address, sizeof address) || (errno == EAGAIN && await(POLLOUT));
    if (met && greet()) return true;
    hang_up();
    return false;
}

/* Say everything but the records. */
static void write_head(void) {
    char name[NAME_BYTES_MAX + 1];
    struct bytes *b = &head;
    begin_request(b, "task_events");
    put_map(b, 7u + (batch.sums_count != 0) + 2u * batch.ended);
    put_who(b);
    put_text(b, "sequence");
    put_uint(b, sequence + 1);
    put_text(b, "dropped");
    put_uint(b, batch.dropped);
    put_text(b, "clock");
    put_map(b, 2);
    put_text(b, "ticks_per_s");
    put_double(b, batch.ticks_per_s);
    put_text(b, "anchors");
    put_array(b, 2);
    for (int i = 0; i < 2; i++) {
        put_array(b, 2);
        put_uint(b, batch.anchors[i][0]);
        put_uint(b, batch.anchors[i][1]);
    }
    put_text(b, "strings");
    put_array(b, batch.strings_to - batch.strings_from);
    for (uint32_t i = batch.strings_from; i < batch.strings_to; i++) {
        name_type(i, name);
        put_text(b, name);
    }
    if (batch.sums_count) {
        put_text(b, "sums");
        put_bin(b, batch.sums, batch.sums_count * sizeof *batch.sums);
    }
    if (batch.ended) {
        put_text(b, "ended");
        put_bool(b, true);
        put_text(b, "cpu_s");
        put_double(b, cpu_s());
    }
    put_text(b, "records");
    put_head(b, 0xc6, batch.records * sizeof(struct record), 4);
}

/* An answer to an earlier request cannot come any more: a connection has one at a time, and none after it failed. */
static enum sent send_to_service(void) {
    static struct iovec parts[PARTS_MAX];
    struct said said;
    struct token t;
    write_head();
    parts[0] = (struct iovec){head.at, head.used};
    if (head.failed || !send_all(parts, gather_records(parts)) || !receive(&said)) {
        hang_up();
        return FAILED_NOW;
    }
    const unsigned char *at = said.error, *text;
    if (take(&at, said.end, &t) && t.kind == NIL) {
        acknowledged();
        return ARRIVED;
    }
    hang_up();
    if ((at = find(said.error, said.end, "retry")) && take(&at, said.end, &t) && t.value) return FAILED_NOW;
    if ((text = find(said.error, said.end, "message")) && take(&text, said.end, &t) && t.kind == TEXT)
        fprintf(stderr, "advisor: the service refuses the task events: %.*s\n", (int)(t.value < 400 ? t.value : 400), t.text);
    return FAILED_FOR_EVER;
}

const struct destination to_service = {open_service, send_to_service, hang_up};
