/* The helper's side of the tool: rings to batches, batches to the service, exactly once while the service lives. Part of
 * advisor_openmp.c, which includes it; the helper alone runs this, but for start_sending and stop_sending. */

/* ---- MessagePack: what task_events and its answers need ---- */

struct bytes {
    unsigned char *at;
    size_t used, room;
};

static bool grow(struct bytes *b, size_t more) {
    if (b->used + more <= b->room) return true;
    size_t room = b->room ? b->room : 4096;
    while (room < b->used + more) room *= 2;
    unsigned char *at = realloc(b->at, room);
    if (!at) return false;
    b->at = at;
    b->room = room;
    return true;
}

static void put_bytes(struct bytes *b, const void *data, size_t size) {
    if (!grow(b, size)) return;
    memcpy(b->at + b->used, data, size);
    b->used += size;
}

static void put_number(struct bytes *b, unsigned char head, uint64_t value, int size) {
    unsigned char out[9] = {head};
    for (int i = 0; i < size; i++) out[1 + i] = (unsigned char)(value >> 8 * (size - 1 - i));
    put_bytes(b, out, (size_t)size + 1);
}

static void put_uint(struct bytes *b, uint64_t value) { put_number(b, 0xcf, value, 8); }
static void put_map(struct bytes *b, unsigned items) { put_number(b, (unsigned char)(0x80 | items), 0, 0); }

static void put_array(struct bytes *b, uint32_t items) { /* short where it can be: the service looks for columns only there */
    put_number(b, items < 16 ? (unsigned char)(0x90 | items) : 0xdd, items, items < 16 ? 0 : 4);
}

static void put_text(struct bytes *b, const char *text) {
    size_t size = strlen(text);
    put_number(b, 0xda, size, 2);
    put_bytes(b, text, size);
}

static void put_bin(struct bytes *b, const void *data, size_t size) {
    put_number(b, 0xc6, size, 4);
    put_bytes(b, data, size);
}

static void put_double(struct bytes *b, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(b, 0xcb, bits, 8);
}

struct token {
    enum { NIL, NUMBER, TEXT, ARRAY, MAP, REST } kind;
    uint64_t value; /* or the length */
    const unsigned char *text;
};

/* Take one token; false where the bytes end before it does, or are no MessagePack (`at` then is NULL). */
static bool take(const unsigned char **at, const unsigned char *end, struct token *found) {
    static const struct {
        unsigned char kind, size; /* bytes of the number that follows; for what has a body, of its length */
        bool body;
        unsigned char further; /* bytes beyond the body: the type of an extension */
    } forms[] = {
        {NIL, 0, false, 0},  {REST, 0, false, 0}, {NUMBER, 0, false, 0}, {NUMBER, 0, false, 0}, {REST, 1, true, 0},
        {REST, 2, true, 0},  {REST, 4, true, 0},  {REST, 1, true, 1},    {REST, 2, true, 1},    {REST, 4, true, 1},
        {REST, 4, false, 0}, {REST, 8, false, 0}, {NUMBER, 1, false, 0}, {NUMBER, 2, false, 0}, {NUMBER, 4, false, 0},
        {NUMBER, 8, false, 0}, {NUMBER, 1, false, 0}, {NUMBER, 2, false, 0}, {NUMBER, 4, false, 0}, {NUMBER, 8, false, 0},
        {REST, 2, false, 0}, {REST, 3, false, 0}, {REST, 5, false, 0},   {REST, 9, false, 0},   {REST, 17, false, 0},
        {TEXT, 1, true, 0},  {TEXT, 2, true, 0},  {TEXT, 4, true, 0},    {ARRAY, 2, false, 0},  {ARRAY, 4, false, 0},
        {MAP, 2, false, 0},  {MAP, 4, false, 0},
    };
    const unsigned char *p = *at;
    if (p >= end) return false;
    unsigned head = *p++;
    found->value = 0;
    if (head < 0x80 || head >= 0xe0)
        found->kind = NUMBER, found->value = head;
    else if (head < 0x90)
        found->kind = MAP, found->value = head & 15;
    else if (head < 0xa0)
        found->kind = ARRAY, found->value = head & 15;
    else {
        bool body = true;
        uint64_t size = head & 31;
        found->kind = TEXT;
        if (head >= 0xc0) {
            unsigned n = forms[head - 0xc0].size;
            found->kind = forms[head - 0xc0].kind;
            body = forms[head - 0xc0].body;
            if ((size_t)(end - p) < n) return false;
            size = head == 0xc3;
            for (unsigned i = 0; i < n && n <= 8; i++) size = size << 8 | p[i];
            p += n;
            if (body) size += forms[head - 0xc0].further;
        }
        found->value = size;
        found->text = p;
        if (body) {
            if ((uint64_t)(end - p) < size) return false;
            p += size;
        }
    }
    *at = p;
    return true;
}

/* Skip one whole value. */
static bool skip(const unsigned char **at, const unsigned char *end) {
    uint64_t left = 1;
    struct token t;
    while (left) {
        if (!take(at, end, &t)) return false;
        left += t.kind == ARRAY ? t.value : t.kind == MAP ? 2 * t.value : 0;
        left--;
    }
    return true;
}

/* The value of a key in a map, NULL without. */
static const unsigned char *find(const unsigned char *at, const unsigned char *end, const char *key) {
    struct token t;
    if (!take(&at, end, &t) || t.kind != MAP) return NULL;
    for (uint64_t n = t.value; n; n--) {
        if (!take(&at, end, &t)) return NULL;
        if (t.kind == TEXT && t.value == strlen(key) && !memcmp(t.text, key, t.value)) return at;
        if (!skip(&at, end)) return NULL;
    }
    return NULL;
}

/* ---- names of places ---- */

struct symbols {
    char path[1024];
    const unsigned char *file;
    size_t size;
};

static void look_into(struct symbols *s, const char *path) {
    struct stat about;
    int fd;
    if (!strncmp(s->path, path, sizeof s->path)) return;
    if (s->file) munmap((void *)s->file, s->size);
    s->file = NULL;
    snprintf(s->path, sizeof s->path, "%s", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && !strcmp(path, program_invocation_name)) fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (!fstat(fd, &about) && (size_t)about.st_size > sizeof(ElfW(Ehdr))) {
        void *map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) s->file = map, s->size = (size_t)about.st_size;
    }
    close(fd);
}

static bool inside(const struct symbols *s, uint64_t at, uint64_t size) { return at <= s->size && size <= s->size - at; }

/* The function of a module's own symbol table, static ones included, that holds an offset; NULL without. */
static const char *function_at(const struct symbols *s, uintptr_t offset, uintptr_t base) {
    const ElfW(Ehdr) *head = (const void *)s->file;
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_shentsize != sizeof(ElfW(Shdr))) return NULL;
    if (!inside(s, head->e_shoff, (uint64_t)head->e_shnum * sizeof(ElfW(Shdr)))) return NULL;
    if (head->e_type == ET_EXEC) offset += base;
    const ElfW(Shdr) *parts = (const void *)(s->file + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (parts[i].sh_type != SHT_SYMTAB || parts[i].sh_link >= head->e_shnum) continue;
        const ElfW(Shdr) *names = &parts[parts[i].sh_link];
        if (!inside(s, parts[i].sh_offset, parts[i].sh_size) || !inside(s, names->sh_offset, names->sh_size) || !names->sh_size ||
            s->file[names->sh_offset + names->sh_size - 1])
            continue;
        const ElfW(Sym) *all = (const void *)(s->file + parts[i].sh_offset);
        for (size_t k = 0; k < parts[i].sh_size / sizeof *all; k++)
            if (ELF64_ST_TYPE(all[k].st_info) == STT_FUNC && all[k].st_value <= offset && offset - all[k].st_value < all[k].st_size &&
                all[k].st_name < names->sh_size)
                return (const char *)s->file + names->sh_offset + all[k].st_name;
    }
    return NULL;
}

/* Write the name of a type, printable and short enough for the wire: `function (module+0xoffset)`. */
static void name_type(struct symbols *s, uint32_t type, char *out) {
    uintptr_t at = types.type[type].at;
    Dl_info module;
    if (types.type[type].kind == CONSTANT)
        snprintf(out, NAME_BYTES_MAX, "%s", (const char *)at);
    else if (!dladdr((void *)(at - 1), &module) || !module.dli_fname) /* a return address: the call lies before it */
        snprintf(out, NAME_BYTES_MAX, "0x%lx", (unsigned long)at);
    else {
        uintptr_t base = (uintptr_t)module.dli_fbase;
        const char *file = strrchr(module.dli_fname, '/'), *name;
        look_into(s, module.dli_fname);
        name = function_at(s, at - 1 - base, base);
        if (!name) name = module.dli_sname;
        char *(*demangle)(const char *, char *, size_t *, int *) = dlsym(RTLD_DEFAULT, "__cxa_demangle");
        char *readable = name && demangle ? demangle(name, NULL, NULL, NULL) : NULL;
        char place[96];
        snprintf(place, sizeof place, "%.64s+0x%lx", file ? file + 1 : module.dli_fname, (unsigned long)(at - base));
        if (name)
            snprintf(out, NAME_BYTES_MAX, "%.*s (%s)", NAME_BYTES_MAX - (int)sizeof place - 4, readable ? readable : name, place);
        else
            snprintf(out, NAME_BYTES_MAX, "%s", place);
        free(readable);
    }
    for (char *c = out; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    if (!*out) snprintf(out, NAME_BYTES_MAX, "?");
}

/* ---- the connection ---- */

static struct {
    struct sockaddr_un address;
    int fd;
    char producer[NAME_BYTES_MAX];
    unsigned char incarnation[16];
    uint64_t sequence;     /* of the last batch acknowledged */
    uint32_t strings_sent; /* acknowledged */
    uint32_t strings_now;  /* with the batch in flight */
    uint32_t msgid;
    bool held, clock_sent, restarted, ever;
    uint64_t restarts;
    struct bytes head, answer, tail;
    size_t answered;
    int64_t next_try_ms, wait_ms, deadline_ms; /* 0: none */
    uint64_t anchors[2][2];
    double ticks_per_s; /* as the first batch of a run said */
    uint64_t sent_records, batches;
    struct symbols symbols;
} wire = {.fd = -1, .wait_ms = BACKOFF_FIRST_MS};

static int64_t now_ms(void) { return (int64_t)(monotonic_ns() / 1000000u); }

/* One moment on both clocks: of several tries the one that took least. */
static void take_anchor(uint64_t anchor[2]) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = ticks(), ns = monotonic_ns(), after = ticks();
        if (after - before < best) {
            best = after - before;
            anchor[0] = before + (after - before) / 2;
            anchor[1] = ns;
        }
    }
}

static void hang_up(void) {
    if (wire.fd >= 0) close(wire.fd);
    wire.fd = -1;
    wire.next_try_ms = now_ms() + wire.wait_ms;
    if (wire.wait_ms < BACKOFF_LAST_MS) wire.wait_ms *= 2;
    wire.answer.used = 0;
}

/* Wait for the socket, at most until the service is taken for gone or the program has waited long enough. */
static bool await(short what) {
    int64_t give_up = now_ms() + STALL_MS;
    for (;;) {
        struct pollfd ready = {wire.fd, what, 0};
        int64_t now = now_ms(), stop = wire.deadline_ms && wire.deadline_ms < give_up ? wire.deadline_ms : give_up;
        if (now >= stop) return false;
        int got = poll(&ready, 1, (int)(stop - now < 50 ? stop - now : 50)); /* the deadline may come meanwhile */
        if (got > 0) return !(ready.revents & (POLLERR | POLLNVAL));
        if (got < 0 && errno != EINTR) return false;
        if (atomic_load(&tool.stopping) && !wire.deadline_ms) wire.deadline_ms = now_ms() + tool.flush_ms;
    }
}

static bool send_all(struct iovec *parts, int count) {
    while (count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)(count < 512 ? count : 512)};
        ssize_t sent = sendmsg(wire.fd, &message, MSG_NOSIGNAL);
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

/* Receive the answer to the last request; `error` and `result` point into it. */
static bool receive(const unsigned char **error, const unsigned char **result, const unsigned char **end) {
    wire.answer.used = 0;
    for (;;) {
        const unsigned char *at = wire.answer.at, *stop = wire.answer.at + wire.answer.used;
        if (at && skip(&at, stop)) {
            struct token t;
            at = wire.answer.at;
            if (!take(&at, stop, &t) || t.kind != ARRAY || t.value != 4 || !take(&at, stop, &t) || !take(&at, stop, &t)) return false;
            if (t.kind != NUMBER || t.value != wire.msgid) return false;
            *error = at;
            if (!skip(&at, stop)) return false;
            *result = at;
            *end = stop;
            return true;
        }
        if (!grow(&wire.answer, 65536) || wire.answer.used > 1u << 24) return false;
        ssize_t got = recv(wire.fd, wire.answer.at + wire.answer.used, 65536, 0);
        if (got > 0)
            wire.answer.used += (size_t)got;
        else if (!got || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || !await(POLLIN))
            return false;
    }
}

static void begin_request(struct bytes *b, const char *method) {
    b->used = 0;
    put_number(b, 0x94, 0, 0);
    put_number(b, 0x00, 0, 0);
    put_number(b, 0xce, ++wire.msgid, 4);
    put_text(b, method);
    put_array(b, 1);
}

static void put_who(struct bytes *b) {
    put_text(b, "producer");
    put_text(b, wire.producer);
    put_text(b, "incarnation");
    put_bin(b, wire.incarnation, sizeof wire.incarnation);
}

static void acknowledged(void) {
    int n = atomic_load(&tool.threads);
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (!t || t->from == t->to) continue;
        wire.sent_records += t->to - t->from;
        t->from = t->to;
        atomic_store_explicit(&t->tail, t->to, memory_order_release);
    }
    wire.sequence++;
    wire.batches++;
    wire.strings_sent = wire.strings_now;
    wire.held = false;
}

/* The service does not know what it has acknowledged: it lost its state. The run goes on as a new one, cut at its beginning. */
static void start_anew(void) {
    wire.incarnation[15]++;
    wire.sequence = 0;
    wire.strings_sent = 0;
    wire.held = false;
    wire.restarts++;
}

static bool connect_now(void) {
    const unsigned char *error, *result, *end, *at;
    struct token t;
    wire.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (wire.fd < 0) return false;
    if (connect(wire.fd, (struct sockaddr *)&wire.address, sizeof wire.address) && (errno != EINPROGRESS || !await(POLLOUT))) return false;
    begin_request(&wire.tail, "hello");
    put_map(&wire.tail, 3);
    put_text(&wire.tail, "protocol");
    put_uint(&wire.tail, 1);
    put_who(&wire.tail);
    struct iovec part = {wire.tail.at, wire.tail.used};
    if (!send_all(&part, 1) || !receive(&error, &result, &end)) return false;
    if (!take(&error, end, &t) || t.kind != NIL || !(at = find(result, end, "sequence")) || !take(&at, end, &t)) return false;
    if (wire.held && t.value == wire.sequence + 1)
        acknowledged();
    else if (t.value != wire.sequence)
        start_anew();
    wire.ever = true;
    wire.wait_ms = BACKOFF_FIRST_MS;
    return true;
}

/* ---- batches ---- */

static uint64_t lost_records(void) {
    uint64_t sum = wire.restarts;
    int n = atomic_load(&tool.threads);
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (t) sum += atomic_load_explicit(&t->dropped, memory_order_relaxed);
    }
    return sum;
}

/* Take what is there, at most a batch: up to one moment on all threads, so that their streams stay together. */
static size_t choose_records(void) {
    int n = atomic_load(&tool.threads);
    size_t total = 0, share = n ? (size_t)BATCH_RECORDS_MAX / (size_t)n : 0;
    uint64_t until = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (!t) continue;
        t->to = atomic_load_explicit(&t->head, memory_order_acquire);
        if (t->to - t->from > share) {
            uint64_t time = t->ring[(t->from + share - 1) & t->mask].time;
            if (time < until) until = time;
        }
    }
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (!t) continue;
        if (until != UINT64_MAX) { /* the first record after that moment; a thread's times rise */
            uint64_t low = t->from, high = t->to - t->from > share ? t->from + share : t->to;
            while (low < high) {
                uint64_t middle = low + (high - low) / 2;
                if (t->ring[middle & t->mask].time <= until)
                    low = middle + 1;
                else
                    high = middle;
            }
            t->to = low;
        }
        total += t->to - t->from;
    }
    return total;
}

/* Put the newest summary of each cell behind the records: see docs/openmp.md. */
static void write_sums(void);

/* Say everything but the records: it is kept, for the batch may have to be sent again as it was. */
static void write_head(size_t records, uint64_t lost) {
    char name[NAME_BYTES_MAX + 1];
    struct bytes *b = &wire.head;
    begin_request(b, "task_events");
    put_map(b, 7);
    put_who(b);
    put_text(b, "sequence");
    put_uint(b, wire.sequence + 1);
    put_text(b, "dropped");
    put_uint(b, lost);
    put_text(b, "clock");
    put_map(b, 2);
    put_text(b, "ticks_per_s");
    put_double(b, wire.ticks_per_s);
    put_text(b, "anchors");
    put_array(b, 2);
    for (int i = 0; i < 2; i++) {
        put_array(b, 2);
        put_uint(b, wire.anchors[i][0]);
        put_uint(b, wire.anchors[i][1]);
    }
    put_text(b, "strings");
    put_array(b, wire.strings_now - wire.strings_sent);
    for (uint32_t i = wire.strings_sent; i < wire.strings_now; i++) {
        name_type(&wire.symbols, i, name);
        put_text(b, name);
    }
    put_text(b, "records");
    put_number(b, 0xc6, records * sizeof(struct record), 4);
}

/* Send a batch, a new one or the one that is held; false where the connection failed. */
static bool send_batch(size_t *records) {
    static struct iovec parts[2 * THREADS_MAX + 1];
    const unsigned char *error, *result, *end, *at;
    struct token t;
    int count = 1, n = atomic_load(&tool.threads);
    if (!wire.held) {
        if (!wire.sequence && !atomic_load(&tool.stopping) && monotonic_ns() - wire.anchors[0][1] < CLOCK_NS) return true;
        /* Before the strings: a record's type is numbered before the record is there. */
        *records = choose_records();
        uint64_t lost = lost_records();
        wire.strings_now = atomic_load_explicit(&types.count, memory_order_acquire);
        if (!*records) return true;
        if (wire.sequence) wire.anchors[0][0] = wire.anchors[1][0], wire.anchors[0][1] = wire.anchors[1][1];
        take_anchor(wire.anchors[1]);
        if (!wire.sequence)
            wire.ticks_per_s =
                (double)(wire.anchors[1][0] - wire.anchors[0][0]) * 1e9 / (double)(wire.anchors[1][1] - wire.anchors[0][1]);
        write_head(*records, lost);
        wire.held = true;
    }
    parts[0].iov_base = wire.head.at;
    parts[0].iov_len = wire.head.used;
    for (int i = 0; i < n; i++) {
        struct thread *from = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (!from || from->from == from->to) continue;
        uint64_t first = from->from & from->mask, size = from->to - from->from, before_end = from->mask + 1 - first;
        parts[count].iov_base = &from->ring[first];
        parts[count++].iov_len = (size < before_end ? size : before_end) * sizeof(struct record);
        if (size > before_end) {
            parts[count].iov_base = from->ring;
            parts[count++].iov_len = (size - before_end) * sizeof(struct record);
        }
    }
    /* The number of the request is within the head that is kept; an answer to an earlier one cannot come any more. */
    if (!send_all(parts, count) || !receive(&error, &result, &end)) return false;
    at = error;
    if (!take(&at, end, &t)) return false;
    if (t.kind == NIL) {
        acknowledged();
        return true;
    }
    if ((at = find(error, end, "retry")) && take(&at, end, &t) && t.value) return false;
    const unsigned char *text = find(error, end, "message");
    if (text && take(&text, end, &t) && t.kind == TEXT)
        fprintf(stderr, "advisor: the service refuses the task events: %.*s\n", (int)(t.value < 400 ? t.value : 400), t.text);
    wire.deadline_ms = 1; /* it would refuse them again */
    return false;
}

/* ---- the helper ---- */

static bool anything_left(void) {
    int n = atomic_load(&tool.threads);
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (t && t->from != atomic_load_explicit(&t->head, memory_order_acquire)) return true;
    }
    return false;
}

/* Look at the rate of records: beyond the most, tasks are summed, and the fewer followed the more there still are. */
static void judge_rate(uint64_t *before, uint64_t *since) {
    uint64_t now = monotonic_ns(), sum = 0;
    int n = atomic_load(&tool.threads);
    if (now - *since < 50000000u) return;
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load_explicit(&tool.thread[i], memory_order_acquire);
        if (t) sum += atomic_load_explicit(&t->head, memory_order_relaxed);
    }
    double rate = (double)(sum - *before) * 1e9 / (double)(now - *since);
    int mode = atomic_load(&tool.mode);
    unsigned sample = atomic_load(&tool.sample);
    if (mode == AUTO && rate > tool.rate_max) atomic_store(&tool.mode, SUMS);
    if (mode == SUMS && rate > tool.rate_max / 8 && sample < 1u << 20) atomic_store(&tool.sample, sample * 2);
    *before = sum;
    *since = now;
}

static void *help(void *nothing) {
    uint64_t before = 0, since = monotonic_ns();
    (void)nothing;
    for (;;) {
        bool last = atomic_load(&tool.stopping);
        size_t records = 0;
        judge_rate(&before, &since);
        if (last && !wire.deadline_ms) wire.deadline_ms = now_ms() + tool.flush_ms;
        if (wire.fd < 0 && wire.deadline_ms != 1 && (last ? wire.ever : now_ms() >= wire.next_try_ms) && !connect_now()) hang_up();
        if (wire.fd >= 0 && !send_batch(&records)) hang_up();
        if (last && (!(anything_left() || wire.held) || (wire.fd < 0 && !wire.ever) || now_ms() >= wire.deadline_ms)) break;
        if (wire.deadline_ms == 1) break;
        if (records < BATCH_RECORDS_MAX / 4 && !last) {
            struct timespec pause = {0, (records > BATCH_RECORDS_MAX / 16 ? 2 : SWEEP_MS) * 1000000L};
            nanosleep(&pause, NULL);
        } else if (wire.fd < 0) {
            struct timespec pause = {0, BACKOFF_FIRST_MS * 1000000L};
            nanosleep(&pause, NULL);
        }
    }
    if (wire.fd >= 0) close(wire.fd);
    return NULL;
}

/* Sums, a line each: type, thread, depth, tasks, made, ns of work, creation and waiting, least, most, sum of squares. */
static void write_sums(void) {
    char name[NAME_BYTES_MAX + 1];
    FILE *out = tool.sums ? fopen(tool.sums, "we") : NULL;
    double ns_a_tick = (double)(wire.anchors[1][1] - wire.anchors[0][1]) / (double)(wire.anchors[1][0] - wire.anchors[0][0]);
    int n = atomic_load(&tool.threads);
    uint64_t apart = 0;
    if (!out) return;
    for (int i = 0; i < n; i++) {
        struct thread *t = atomic_load(&tool.thread[i]);
        if (!t) continue;
        apart += atomic_load(&t->summed_events);
        for (int k = 0; k < CELLS_MAX; k++) {
            const struct cell *c = &t->cells[k];
            if (c->type == ABSENT || !c->count) continue;
            name_type(&wire.symbols, c->type, name);
            fprintf(out, "sum\t%s\t%d\t%u\t%llu\t%llu\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.17g\n", name, i, c->depth,
                    (unsigned long long)c->count, (unsigned long long)c->creates, (double)c->ns[WORKS] * ns_a_tick,
                    (double)c->ns[CREATES] * ns_a_tick, (double)c->ns[WAITS] * ns_a_tick, (double)c->least * ns_a_tick,
                    (double)c->most * ns_a_tick, c->squares * ns_a_tick * ns_a_tick);
        }
    }
    for (int i = 0; i < 16; i++) fprintf(out, i ? "%02x" : "run\t%02x", wire.incarnation[i]);
    fprintf(out, "\nend\t%s\t%llu\t%llu\t%llu\t%llu\t%u\n", wire.producer, (unsigned long long)wire.sent_records,
            (unsigned long long)lost_records(), (unsigned long long)apart, (unsigned long long)wire.restarts,
            atomic_load(&tool.mode) == SUMS ? atomic_load(&tool.sample) : 1u);
    fclose(out);
}

static bool start_sending(void) {
    const char *path = getenv("ADVISOR_SOCKET"), *producer = getenv("ADVISOR_PRODUCER");
    sigset_t all, before;
    wire.address.sun_family = AF_UNIX;
    if (!path || !*path || strlen(path) >= sizeof wire.address.sun_path) {
        fprintf(stderr, "advisor: ADVISOR_SOCKET %s: tasks are not watched\n", path && *path ? "is too long" : "is not set");
        return false;
    }
    strcpy(wire.address.sun_path, path);
    if (producer && *producer)
        snprintf(wire.producer, sizeof wire.producer, "%s", producer);
    else
        snprintf(wire.producer, sizeof wire.producer, "%.150s", program_name);
    const char *wanted = getenv("ADVISOR_INCARNATION"); /* 32 digits: whoever starts the program then knows which run it is */
    int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (random < 0 || read(random, wire.incarnation, sizeof wire.incarnation) != (ssize_t)sizeof wire.incarnation) {
        uint64_t seed[2] = {monotonic_ns(), (uint64_t)getpid()};
        memcpy(wire.incarnation, seed, sizeof seed);
    }
    if (random >= 0) close(random);
    for (unsigned i = 0, byte; wanted && strlen(wanted) == 32 && i < 16; i++)
        if (sscanf(wanted + 2 * i, "%2x", &byte) == 1) wire.incarnation[i] = (unsigned char)byte;
    take_anchor(wire.anchors[0]);
    sigfillset(&all); /* the program's signals are its own threads' */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    tool.helps = !pthread_create(&tool.helper, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return tool.helps;
}

static void stop_sending(void) {
    if (!tool.helps) return;
    atomic_store(&tool.stopping, true);
    pthread_join(tool.helper, NULL);
    take_anchor(wire.anchors[1]);
    write_sums();
    tool.helps = false;
}
