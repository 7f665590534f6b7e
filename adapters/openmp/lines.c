/* The line of the source at an address, from the line table that a compiler's -g leaves (DWARF 2 to 5, section .debug_line). */
#include <stdio.h>
#include <string.h>

#include "lines.h"

enum { FORMATS_MAX = 8 }; /* parts of an entry of a table of files; compilers write two or three */
enum {
    DATA2 = 0x05,
    DATA4 = 0x06,
    DATA8 = 0x07,
    STRING = 0x08,
    BLOCK = 0x09,
    DATA1 = 0x0b,
    STRP = 0x0e,
    UDATA = 0x0f,
    DATA16 = 0x1e,
    LINE_STRP = 0x1f
}; /* forms */
enum { PATH = 1 }; /* DW_LNCT_path */

/* Bytes that are read in turn; past their end all is 0, and `bad`. */
struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t take(struct reader *r, unsigned bytes) {
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        r->at = r->end;
        return 0;
    }
    memcpy(&value, r->at, bytes < sizeof value ? bytes : sizeof value);
    r->at += bytes;
    return value;
}

static void skip(struct reader *r, uint64_t bytes) {
    if ((uint64_t)(r->end - r->at) < bytes) r->bad = true, r->at = r->end;
    else r->at += bytes;
}

static uint64_t take_uleb(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0; !r->bad; shift += 7) {
        uint64_t byte = take(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80)) break;
    }
    return value;
}

static int64_t take_sleb(struct reader *r) {
    uint64_t value = 0, byte = 0;
    unsigned shift = 0;
    do {
        byte = take(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80 && !r->bad);
    if (shift < 64 && byte & 0x40) value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

static const char *take_text(struct reader *r) {
    const unsigned char *from = r->at, *end = memchr(from, 0, (size_t)(r->end - from));
    if (!end) {
        r->bad = true;
        r->at = r->end;
        return "";
    }
    r->at = end + 1;
    return (const char *)from;
}

/* A text of another section, by where it begins there. */
static const char *text_at(struct part from, uint64_t at) {
    return at < from.size && memchr(from.data + at, 0, from.size - at) ? (const char *)from.data + at : "";
}

/* One value of a form; its text, where it is one. */
static const char *take_form(struct reader *r, uint64_t form, const struct line_parts *parts) {
    switch (form) {
    case STRING: return take_text(r);
    case LINE_STRP: return text_at(parts->line_strings, take(r, 4));
    case STRP: return text_at(parts->strings, take(r, 4));
    case DATA1: take(r, 1); break;
    case DATA2: take(r, 2); break;
    case DATA4: take(r, 4); break;
    case DATA8: take(r, 8); break;
    case DATA16: skip(r, 16); break;
    case UDATA: take_uleb(r); break;
    case BLOCK: skip(r, take_uleb(r)); break;
    default: r->bad = true;
    }
    return "";
}

/* Read a table of folders or files of DWARF 5; the path of its entry of number `wanted`. */
static const char *read_entries(struct reader *r, uint64_t wanted, const struct line_parts *parts) {
    uint64_t type[FORMATS_MAX], form[FORMATS_MAX], formats = take(r, 1);
    const char *found = "";
    if (formats > FORMATS_MAX) r->bad = true;
    for (uint64_t i = 0; i < formats && !r->bad; i++) type[i] = take_uleb(r), form[i] = take_uleb(r);
    uint64_t count = take_uleb(r);
    for (uint64_t k = 0; k < count && !r->bad && formats; k++)
        for (uint64_t i = 0; i < formats && !r->bad; i++) {
            const char *text = take_form(r, form[i], parts);
            if (k == wanted && type[i] == PATH) found = text;
        }
    return found;
}

/* The path of the file of number `wanted`, from a unit's header behind its lengths of opcodes. */
static const char *file_of(struct reader r, unsigned version, uint64_t wanted, const struct line_parts *parts) {
    if (version >= 5) {
        read_entries(&r, ~(uint64_t)0, parts);
        return read_entries(&r, wanted, parts);
    }
    while (!r.bad && *take_text(&r)) {}
    for (uint64_t k = 1; !r.bad; k++) {
        const char *path = take_text(&r);
        if (!*path || k == wanted) return path;
        for (int i = 0; i < 3; i++) take_uleb(&r);
    }
    return "";
}

struct row {
    uint64_t address, file, line;
};

/* Run a unit's program until a row and the next one have the address between them: that row. */
static bool run_lines(struct reader *r, const struct line_head *head, uint64_t address, struct row *found) {
    const struct row first = {0, 1, 1};
    struct row now = first, last = first;
    bool begun = false;
    while (r->at < r->end && !r->bad) {
        uint64_t op = take(r, 1);
        bool row = false, ends = false;
        if (op >= head->opcode_base) {
            op -= head->opcode_base;
            now.address += op / head->line_range * head->least;
            now.line += (uint64_t)(head->line_base + (int)(op % head->line_range));
            row = true;
        } else if (op == 0) {
            uint64_t size = take_uleb(r);
            struct reader inner = {r->at, r->end, false};
            skip(r, size);
            uint64_t what = size ? take(&inner, 1) : 0;
            if (what == 1) row = ends = true;
            else if (what == 2) now.address = take(&inner, size == 9 ? 8 : 4);
        } else if (op == 1) row = true;
        else if (op == 2) now.address += take_uleb(r) * head->least;
        else if (op == 3) now.line += (uint64_t)take_sleb(r);
        else if (op == 4) now.file = take_uleb(r);
        else if (op == 8) now.address += (255 - head->opcode_base) / head->line_range * head->least;
        else if (op == 9) now.address += take(r, 2);
        else for (unsigned i = 0; i < head->lengths[op]; i++) take_uleb(r);
        if (!row) continue;
        if (begun && last.address <= address && address < now.address) {
            *found = last;
            return true;
        }
        last = now;
        begun = !ends;
        if (ends) now = first;
    }
    return false;
}

bool line_at(const struct line_parts *parts, uint64_t address, char *out, size_t room) {
    struct reader all = {parts->lines.data, parts->lines.data + parts->lines.size, false};
    while (all.at < all.end && !all.bad) {
        uint64_t size = take(&all, 4);
        struct reader unit = {all.at, all.at + (size <= (size_t)(all.end - all.at) ? size : 0), false};
        if (size >= 0xfffffff0) return false; /* 64-bit DWARF, of programs beyond 4 GiB of it */
        skip(&all, size);
        struct line_head head = {0};
        unsigned version = (unsigned)take(&unit, 2);
        if (version < 2 || version > 5) continue;
        if (version >= 5) skip(&unit, 2);
        struct reader program = {unit.at, unit.end, false};
        uint64_t length = take(&program, 4);
        unit = program;
        skip(&program, length);
        head.least = take(&unit, 1);
        if (version >= 4) take(&unit, 1);
        take(&unit, 1);
        head.line_base = (signed char)take(&unit, 1);
        head.line_range = (unsigned)take(&unit, 1);
        head.opcode_base = (unsigned)take(&unit, 1);
        if (!head.line_range || !head.opcode_base || head.opcode_base > LENGTHS_MAX) continue;
        for (unsigned i = 1; i < head.opcode_base; i++) head.lengths[i] = (unsigned char)take(&unit, 1);
        struct row found;
        if (unit.bad || program.bad || !run_lines(&program, &head, address, &found)) continue;
        const char *path = file_of(unit, version, found.file, parts), *name = strrchr(path, '/');
        if (!*path || !found.line) return false;
        return snprintf(out, room, "%.100s:%llu", name ? name + 1 : path, (unsigned long long)found.line) > 0;
    }
    return false;
}
