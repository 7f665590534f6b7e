/* Lines of the source at addresses. Reads whatever the bytes are: a program's file is not trusted to be whole. */
#ifndef ADVISOR_LINES_H
#define ADVISOR_LINES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LENGTHS_MAX = 64 }; /* standard opcodes; DWARF 5 has 12 */

struct part { /* a section */
    const unsigned char *data;
    size_t size;
};
struct line_parts {
    struct part lines, line_strings, strings; /* .debug_line, .debug_line_str, .debug_str */
};
struct line_head {
    uint64_t least; /* bytes of an instruction, at the least */
    int line_base;
    unsigned line_range, opcode_base;
    unsigned char lengths[LENGTHS_MAX];
};

/* Write `file:line` of an address of the linked program. */
bool line_at(const struct line_parts *parts, uint64_t address, char *out, size_t room);
#endif
