/* Bytes that grow, and MessagePack. */
#include "bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool grow(struct bytes *b, size_t more) {
    if (b->used + more <= b->room) return true;
    size_t room = b->room ? b->room : 4096;
    while (room < b->used + more) room *= 2;
    unsigned char *at = realloc(b->at, room);
    if (!at) {
        b->failed = true;
        return false;
    }
    b->at = at;
    b->room = room;
    return true;
}

void put_bytes(struct bytes *b, const void *data, size_t size) {
    if (!size || !grow(b, size)) return;
    memcpy(b->at + b->used, data, size);
    b->used += size;
}

void put_text_format(struct bytes *b, const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (size < 0 || (size_t)size >= sizeof text)
        b->failed = true;
    else
        put_bytes(b, text, (size_t)size);
}

void put_head(struct bytes *b, unsigned char head, uint64_t value, int size) {
    unsigned char out[9] = {head};
    for (int i = 0; i < size; i++) out[1 + i] = (unsigned char)(value >> 8 * (size - 1 - i));
    put_bytes(b, out, (size_t)size + 1);
}

void put_uint(struct bytes *b, uint64_t value) { put_head(b, 0xcf, value, 8); }
void put_map(struct bytes *b, unsigned items) { put_head(b, (unsigned char)(0x80 | items), 0, 0); }
void put_bool(struct bytes *b, bool value) { put_head(b, value ? 0xc3 : 0xc2, 0, 0); }

void put_array(struct bytes *b, uint32_t items) { /* short where it can be: the service looks for columns only there */
    put_head(b, items < 16 ? (unsigned char)(0x90 | items) : 0xdd, items, items < 16 ? 0 : 4);
}

void put_text(struct bytes *b, const char *text) {
    size_t size = strlen(text);
    put_head(b, 0xda, size, 2);
    put_bytes(b, text, size);
}

void put_bin(struct bytes *b, const void *data, size_t size) {
    put_head(b, 0xc6, size, 4);
    put_bytes(b, data, size);
}

void put_double(struct bytes *b, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_head(b, 0xcb, bits, 8);
}

/* The forms from 0xc0 on. */
static const struct form {
    unsigned char kind, size; /* bytes of the number that follows; for what has a body, of its length */
    bool body;
    unsigned char further; /* bytes beyond the body: the type of an extension */
} forms[] = {
    {NIL, 0, false, 0},    {REST, 0, false, 0},   {NUMBER, 0, false, 0}, {NUMBER, 0, false, 0}, {REST, 1, true, 0},
    {REST, 2, true, 0},    {REST, 4, true, 0},    {REST, 1, true, 1},    {REST, 2, true, 1},    {REST, 4, true, 1},
    {REST, 4, false, 0},   {REST, 8, false, 0},   {NUMBER, 1, false, 0}, {NUMBER, 2, false, 0}, {NUMBER, 4, false, 0},
    {NUMBER, 8, false, 0}, {NUMBER, 1, false, 0}, {NUMBER, 2, false, 0}, {NUMBER, 4, false, 0}, {NUMBER, 8, false, 0},
    {REST, 2, false, 0},   {REST, 3, false, 0},   {REST, 5, false, 0},   {REST, 9, false, 0},   {REST, 17, false, 0},
    {TEXT, 1, true, 0},    {TEXT, 2, true, 0},    {TEXT, 4, true, 0},    {ARRAY, 2, false, 0},  {ARRAY, 4, false, 0},
    {MAP, 2, false, 0},    {MAP, 4, false, 0},
};

bool take(const unsigned char **at, const unsigned char *end, struct token *found) {
    const unsigned char *p = *at;
    if (p >= end) return false;
    unsigned head = *p++;
    struct form form = {TEXT, 0, true, 0}; /* from 0xa0 to 0xbf: a short text */
    uint64_t value = head & 31;
    if (head < 0x80 || head >= 0xe0)
        form = (struct form){NUMBER, 0, false, 0}, value = head;
    else if (head < 0xa0)
        form = (struct form){head < 0x90 ? MAP : ARRAY, 0, false, 0}, value = head & 15;
    else if (head >= 0xc0) {
        form = forms[head - 0xc0];
        if (end - p < form.size) return false;
        value = head == 0xc3;
        for (unsigned i = 0; i < form.size && form.size <= 8; i++) value = value << 8 | p[i];
        p += form.size;
        if (form.body) value += form.further;
    }
    found->kind = form.kind;
    found->value = value;
    found->text = p;
    if (form.body) {
        if ((uint64_t)(end - p) < value) return false;
        p += value;
    }
    *at = p;
    return true;
}

bool skip(const unsigned char **at, const unsigned char *end) {
    uint64_t left = 1;
    struct token t;
    while (left) {
        if (!take(at, end, &t)) return false;
        left += t.kind == ARRAY ? t.value : t.kind == MAP ? 2 * t.value : 0;
        left--;
    }
    return true;
}

const unsigned char *find(const unsigned char *at, const unsigned char *end, const char *key) {
    struct token t;
    if (!take(&at, end, &t) || t.kind != MAP) return NULL;
    for (uint64_t n = t.value; n; n--) {
        if (!take(&at, end, &t)) return NULL;
        if (t.kind == TEXT && t.value == strlen(key) && !memcmp(t.text, key, t.value)) return at;
        if (!skip(&at, end)) return NULL;
    }
    return NULL;
}
