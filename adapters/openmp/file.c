/* Batches into a file of events, as docs/profiling.md has it: `advisor profile FILE` reads it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "sending.h"

enum { SLICES = 8 };

static int fd = -1;
static struct bytes head;
static uint32_t table[SLICES][256];

/* CRC-32 of IEEE 802.3, eight bytes a step. */
static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = i;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
        table[0][i] = sum;
    }
    for (int k = 1; k < SLICES; k++)
        for (int i = 0; i < 256; i++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc_of(const unsigned char *data, size_t size, uint32_t sum) {
    sum = ~sum;
    for (; size >= SLICES; size -= SLICES, data += SLICES) {
        uint32_t low, high;
        memcpy(&low, data, 4); /* little-endian, as the records are */
        memcpy(&high, data + 4, 4);
        low ^= sum;
        sum = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    while (size--) sum = sum >> 8 ^ table[0][(sum ^ *data++) & 255];
    return ~sum;
}

static bool write_all(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

bool make_file(const char *path) {
    make_table();
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0 && write_all("ADVTASK1", 8)) return true;
    fprintf(stderr, "advisor: %s cannot be written (%s): tasks are not watched\n", path, strerror(errno));
    return false;
}

static void put_json_text(struct bytes *b, const char *text) {
    put_bytes(b, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') put_bytes(b, "\\", 1);
        put_bytes(b, text, 1);
    }
    put_bytes(b, "\"", 1);
}

typedef unsigned long long wide;

static void put_sums(struct bytes *b) {
    put_text_format(b, ",\"sums\":[");
    for (unsigned i = 0; i < batch.sums_count; i++) {
        const struct sum *s = &batch.sums[i];
        put_text_format(b, "%s[%u,%u,%lld,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%.17g]", i ? "," : "", s->type, s->parameter,
                        (long long)s->value, (wide)s->count, (wide)s->work, (wide)s->creation, (wide)s->waiting, (wide)s->creates,
                        (wide)s->waits, (wide)s->least, (wide)s->most, s->squares);
    }
    put_text_format(b, "]");
}

static void write_head(void) {
    char name[NAME_BYTES_MAX + 1];
    struct bytes *b = &head;
    b->used = 0;
    put_text_format(b, "{\"fields\":[],\"dropped\":%llu,\"clock\":{\"ticks_per_s\":%.17g,\"anchors\":[[%llu,%llu],[%llu,%llu]]}",
                    (wide)batch.dropped, batch.ticks_per_s, (wide)batch.anchors[0][0], (wide)batch.anchors[0][1],
                    (wide)batch.anchors[1][0], (wide)batch.anchors[1][1]);
    put_text_format(b, ",\"strings\":[");
    for (uint32_t i = batch.strings_from; i < batch.strings_to; i++) {
        name_type(i, name);
        if (i > batch.strings_from) put_bytes(b, ",", 1);
        put_json_text(b, name);
    }
    put_bytes(b, "]", 1);
    if (batch.sums_count) put_sums(b);
    if (batch.ended) put_text_format(b, ",\"ended\":true,\"cpu_s\":%.6f", cpu_s());
    put_bytes(b, "}", 1);
    while (b->used % 8) put_bytes(b, " ", 1);
}

static bool open_file(void) { return fd >= 0; }

static void close_file(void) {
    if (fd >= 0) close(fd);
    fd = -1;
}

static enum sent send_to_file(void) {
    static struct iovec parts[PARTS_MAX];
    struct {
        uint32_t header, crc;
        uint64_t records;
    } block;
    write_head();
    parts[0] = (struct iovec){head.at, head.used};
    int count = gather_records(parts);
    block.header = (uint32_t)head.used;
    block.records = batch.records * sizeof(struct record);
    block.crc = 0;
    for (int i = 0; i < count; i++) block.crc = crc_of(parts[i].iov_base, parts[i].iov_len, block.crc);
    bool whole = !head.failed && write_all(&block, sizeof block);
    for (int i = 0; whole && i < count; i++) whole = write_all(parts[i].iov_base, parts[i].iov_len);
    if (!whole) {
        fprintf(stderr, "advisor: the file of task events is cut: %s\n", strerror(errno));
        close_file();
        return FAILED_FOR_EVER;
    }
    batch_arrived();
    return ARRIVED;
}

const struct destination to_file = {open_file, send_to_file, close_file};
