/* Bytes that grow, and MessagePack: what task_events and its answers need of it. */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *at;
    size_t used, room;
    bool failed; /* there was no memory: what is there is not whole */
};

bool grow(struct bytes *b, size_t more);
void put_bytes(struct bytes *b, const void *data, size_t size);
void put_text_format(struct bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

void put_head(struct bytes *b, unsigned char head, uint64_t value, int size);
void put_uint(struct bytes *b, uint64_t value);
void put_map(struct bytes *b, unsigned items); /* at most 15 */
void put_array(struct bytes *b, uint32_t items);
void put_text(struct bytes *b, const char *text);
void put_bin(struct bytes *b, const void *data, size_t size);
void put_double(struct bytes *b, double value);
void put_bool(struct bytes *b, bool value);

struct token {
    enum { NIL, NUMBER, TEXT, ARRAY, MAP, REST } kind;
    uint64_t value; /* or the length */
    const unsigned char *text;
};

/* Take one token; false where the bytes end before it does. */
bool take(const unsigned char **at, const unsigned char *end, struct token *found);
/* Skip one whole value. */
bool skip(const unsigned char **at, const unsigned char *end);
/* The value of a key in a map, NULL without. */
const unsigned char *find(const unsigned char *at, const unsigned char *end, const char *key);

#endif
