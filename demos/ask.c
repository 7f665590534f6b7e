/* cc ask.c -o ask && ./ask /run/advisor/s */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static unsigned char out[1024], in[4096];
static size_t said, heard, at;
static int service;

/* What is said: integers to 127, arrays and maps of 15 at most, texts of 31 bytes at most are one byte, and what follows it. */
static void byte(unsigned b) { out[said++] = (unsigned char)b; }
static void array(unsigned n) { byte(0x90 | n); }
static void map(unsigned n) { byte(0x80 | n); }

static void text(const char *words) {
    byte(0xa0 | (unsigned)strlen(words));
    while (*words) byte((unsigned char)*words++);
}

static void number(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    byte(0xcb);
    for (int shift = 56; shift >= 0; shift -= 8) byte((unsigned)(bits >> shift) & 0xff);
}

static void request(const char *method) {
    static unsigned msgid;
    said = 0, array(4), byte(0), byte(++msgid), text(method), array(1);
}

/* What is heard, whole, as JSON. */
static unsigned char take(void) {
    if (at == heard) {
        ssize_t got = read(service, in, sizeof in);
        if (got <= 0) exit(1);
        heard = (size_t)got, at = 0;
    }
    return in[at++];
}

static uint64_t big(unsigned bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | take();
    return value;
}

static void show(void);

static void shown(uint64_t items, int pairs) {
    putchar(pairs ? '{' : '[');
    for (uint64_t i = 0; i < items; i++) {
        if (i) putchar(',');
        show();
        if (pairs) putchar(':'), show();
    }
    putchar(pairs ? '}' : ']');
}

static void words(uint64_t bytes) {
    putchar('"');
    while (bytes--) {
        unsigned char c = take();
        if (c == '"' || c == '\\') putchar('\\');
        putchar(c);
    }
    putchar('"');
}

static void show(void) {
    unsigned b = take();
    if (b < 0x80) printf("%u", b);
    else if (b < 0x90) shown(b & 15, 1);
    else if (b < 0xa0) shown(b & 15, 0);
    else if (b < 0xc0) words(b & 31);
    else if (b == 0xc2 || b == 0xc3) printf(b & 1 ? "true" : "false");
    else if (b == 0xcb) {
        uint64_t bits = big(8);
        double x;
        memcpy(&x, &bits, 8);
        printf("%.17g", x);
    } else if (b >= 0xcc && b <= 0xcf) printf("%llu", (unsigned long long)big(1u << (b - 0xcc)));
    else if (b >= 0xd9 && b <= 0xdb) words(big(1u << (b - 0xd9)));
    else if (b == 0xdc || b == 0xdd) shown(big(2u << (b - 0xdc)), 0);
    else if (b == 0xde || b == 0xdf) shown(big(2u << (b - 0xde)), 1);
    else if (b >= 0xe0) printf("%d", (int)b - 256);
    else printf("null"); /* nil; these answers have nothing else */
}

/* Send the request, and print its answer: [1, msgid, error, result]. */
static void ask(void) {
    for (size_t sent = 0; sent < said;) {
        ssize_t wrote = write(service, out + sent, said - sent);
        if (wrote <= 0) exit(1);
        sent += (size_t)wrote;
    }
    show(), putchar('\n');
}

int main(int count, char **given) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (count < 2 || strlen(given[1]) >= sizeof address.sun_path) return 2;
    strcpy(address.sun_path, given[1]);
    service = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(service, (struct sockaddr *)&address, sizeof address) != 0) return perror(given[1]), 1;

    request("hello"), map(1), text("protocol"), byte(2);
    ask();
    request("observe_rows"), map(1), text("rows"), array(4);
    for (int cores = 1; cores <= 8; cores *= 2) array(4), text("blur"), number(1000), number(cores), number(0.5 + 3.5 / cores);
    ask();
    request("choose_cores"), map(3), text("component"), text("blur");
    text("predictor"), number(1000), text("cores_max"), byte(8);
    ask();
    return close(service);
}
