/* See advisor.h. The first half evaluates curves; the second half
 * speaks the wire protocol of docs/protocol.md. */
#define _POSIX_C_SOURCE 200809L

#include "advisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- logarithm and power: advisor/models/logarithm.py ---- */

#define ROOT_HALF_BITS UINT64_C(0x3FE6A09E667F3BCD)
#define TWO_OVER_LN2 2.8853900817779268
#define LN2 0.6931471805599453
#define ROUNDS_TO_EVEN 6755399441055744.0 /* 1.5 * 2^52: adding it leaves no room for a fraction */

static double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* log2 of a positive normal value. */
static double log2_of(double value) {
    uint64_t bits = to_bits(value);
    uint64_t lifted = (bits - ROOT_HALF_BITS + (UINT64_C(1024) << 52)) >> 52;
    int exponent = (int)lifted - 1024;
    double m = from_bits(bits - (lifted << 52) + (UINT64_C(1024) << 52));
    double s = (m - 1.0) / (m + 1.0);
    double square = s * s;
    double total = square * (1.0 / 21.0);
    total = (total + 1.0 / 19.0) * square;
    total = (total + 1.0 / 17.0) * square;
    total = (total + 1.0 / 15.0) * square;
    total = (total + 1.0 / 13.0) * square;
    total = (total + 1.0 / 11.0) * square;
    total = (total + 1.0 / 9.0) * square;
    total = (total + 1.0 / 7.0) * square;
    total = (total + 1.0 / 5.0) * square;
    total = (total + 1.0 / 3.0) * square;
    total = total + 1.0;
    return (double)exponent + s * total * TWO_OVER_LN2;
}

/* 2^value for abs(value) <= 1000. */
static double exp2_of(double value) {
    double whole = (value + ROUNDS_TO_EVEN) - ROUNDS_TO_EVEN;
    double f = (value - whole) * LN2;
    double total = 1.0 / 6227020800.0;
    total = total * f + 1.0 / 479001600.0;
    total = total * f + 1.0 / 39916800.0;
    total = total * f + 1.0 / 3628800.0;
    total = total * f + 1.0 / 362880.0;
    total = total * f + 1.0 / 40320.0;
    total = total * f + 1.0 / 5040.0;
    total = total * f + 1.0 / 720.0;
    total = total * f + 1.0 / 120.0;
    total = total * f + 1.0 / 24.0;
    total = total * f + 1.0 / 6.0;
    total = total * f + 1.0 / 2.0;
    total = total * f + 1.0;
    total = total * f + 1.0;
    return total * from_bits((uint64_t)((int64_t)whole + 1023) << 52);
}

/* ---- the record: advisor/domain/bundle.py ---- */

enum {
    KIND, X_KNOTS, P_KNOTS, ROWS, RUNS, X_LOW, X_HIGH, P_LOW, P_HIGH, VALUE_ERROR, WIDTH_ERROR, X_ZERO, X_FIRST,
    X_STEP, LOG_X_LOW, LOG_X_HIGH, LOG_P_LOW, LOG_P_HIGH, PREDICTORS, LAST, ALLOWED_LEAST, ALLOWED_MOST, ALLOWED_STEP, ALLOWED_LISTED, NOISE, SEEN, HEAD_WORDS
};

#define ASK 0.0
#define GRID 1.0
#define HEADER_BYTES 64
#define PLACE_BYTES 16
#define FORMAT 5
#define ALLOWED_COUNTS_MAX 256
#define COMPARED_ALL 256
#define COUNTS_MAX 768 /* that are compared: the first 256, and 2 % apart up to 2^20 */
#define SEEN_MOST 16
#define RUNS_MOST 9007199254740992.0                /* 2^53 */
#define NOISE_MOST 6901746346790563787434755862277025452451108972170386555162524223799296.0 /* 2^232 */
#define BEYOND 2.0
#define STAYS 1.5
#define SURE 2.0
#define HELD 1.35
#define LEFT 0.9
#define RARE 1.0
#define NOISIEST 0.25
#define FURTHEST 40.0
#define X_KNOTS_MAX 1024
#define P_KNOTS_MAX 128
#define CORES_MIN 0.0009765625       /* 2^-10 */
#define CORES_MAX 1048576.0          /* 2^20 */
#define PREDICTOR_MAX 1152921504606846976.0 /* 2^60 */
#define PREDICTOR_RESOLUTION (1.0 / PREDICTOR_MAX)
#define ELAPSED_MIN_S 1e-9
#define ELAPSED_MAX_S 1e9
#define LOG_BOUND 4096.0
#define LOG_ERROR 1e-9
#define STEP_LEAST 0.0009765625
#define SLOPE_MOST 3.0
#define STEEPEST 1.0
#define WIDER_MOST 2.0
#define LOG_MOST 1000.0
#define EQUAL 1e-12

static uint32_t u32_at(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t u64_at(const unsigned char *at) { return (uint64_t)u32_at(at) | (uint64_t)u32_at(at + 4) << 32; }

static int is_whole(double value) { return value == (double)(int64_t)value; } /* for abs(value) < 2^62 */

static int within(double value, double low, double high) { return value >= low && value <= high; } /* NaN is not */

static size_t tables_end(const double *head) {
    size_t nx, count;
    if (head[KIND] == ASK) return HEAD_WORDS;
    nx = (size_t)head[X_KNOTS];
    count = (size_t)head[P_KNOTS];
    return HEAD_WORDS + 2 * count + 3 * nx * count;
}

static size_t seen_at(const double *head) { return tables_end(head) + (size_t)head[ALLOWED_LISTED]; }
static size_t record_words(const double *head) { return seen_at(head) + 2 * (size_t)head[SEEN]; }

/* True when the head says which counts are allowed, and the last one. */
static int allows_some(const double *head) {
    int i;
    for (i = ALLOWED_LEAST; i <= ALLOWED_STEP; i++)
        if (!within(head[i], 1.0, CORES_MAX) || !is_whole(head[i])) return 0;
    if (!within(head[ALLOWED_LISTED], 0.0, ALLOWED_COUNTS_MAX) || !is_whole(head[ALLOWED_LISTED])) return 0;
    if (head[ALLOWED_LISTED] > 0.0 && head[KIND] == ASK) return 0;
    if (head[ALLOWED_LEAST] > head[ALLOWED_MOST]) return 0;
    for (i = ALLOWED_LEAST; i <= ALLOWED_MOST; i++)
        if ((int64_t)head[i] % (int64_t)head[ALLOWED_STEP]) return 0;
    if (!within(head[NOISE], 0.0, NOISE_MOST)) return 0;
    if (!within(head[SEEN], 0.0, SEEN_MOST) || !is_whole(head[SEEN]) || (head[SEEN] > 0.0 && head[KIND] == ASK)) return 0;
    return head[LAST] == 0.0 || within(head[LAST], CORES_MIN, CORES_MAX);
}

/* True when the counts that were seen ascend, each with runs. */
static int was_seen(const double *head) {
    const double *counts = head + seen_at(head);
    size_t n = (size_t)head[SEEN], i;
    for (i = 0; i < n; i++)
        if (!within(counts[i], CORES_MIN, CORES_MAX) || !within(counts[n + i], 1.0, RUNS_MOST) || (i && !(counts[i] > counts[i - 1])))
            return 0;
    return 1;
}

/* True when the counts behind the tables, if there are some, are whole and ascend from the least to the most. */
static int lists(const double *head) {
    const double *listed = head + tables_end(head);
    size_t n = (size_t)head[ALLOWED_LISTED], i;
    if (!n) return 1;
    if (listed[0] != head[ALLOWED_LEAST] || listed[n - 1] != head[ALLOWED_MOST] || head[ALLOWED_STEP] != 1.0) return 0;
    for (i = 0; i < n; i++)
        if (!within(listed[i], 1.0, CORES_MAX) || !is_whole(listed[i]) || (i && !(listed[i] > listed[i - 1]))) return 0;
    return 1;
}

/* True when a record of at most `room` words is sound: its evaluation then stays within its words. */
static int sound(const double *head, size_t room) {
    const double *knots, *logs;
    size_t nx, count, i, end;
    int one = 0;
    if (room < HEAD_WORDS || !allows_some(head)) return 0;
    if (head[KIND] == ASK) return 1;
    if (head[KIND] != GRID) return 0;
    for (i = 0; i < HEAD_WORDS; i++)
        if (!within(head[i], -1.7976931348623157e308, 1.7976931348623157e308)) return 0;
    if (!within(head[X_KNOTS], 2, X_KNOTS_MAX) || !is_whole(head[X_KNOTS])) return 0;
    if (!within(head[P_KNOTS], 2, P_KNOTS_MAX) || !is_whole(head[P_KNOTS])) return 0;
    end = tables_end(head);
    if (record_words(head) > room || !lists(head) || !was_seen(head)) return 0;
    if (!(CORES_MIN <= head[P_LOW] && head[P_LOW] <= head[P_HIGH] && head[P_HIGH] <= CORES_MAX)) return 0;
    nx = (size_t)head[X_KNOTS];
    count = (size_t)head[P_KNOTS];
    (void)nx;
    knots = head + HEAD_WORDS;
    logs = knots + count;
    for (i = 0; i < count; i++) {
        if (!within(knots[i], CORES_MIN, CORES_MAX) || (i && !(knots[i] > knots[i - 1]))) return 0;
        if (knots[i] >= 1.0) {
            if (!is_whole(knots[i])) return 0;
            if (!one && knots[i] != 1.0) return 0;
            one = 1;
        }
        if (!within(logs[i] - log2_of(knots[i]), -LOG_ERROR, LOG_ERROR) || (i && !(logs[i] > logs[i - 1]))) return 0;
    }
    if (!one) return 0;
    for (i = HEAD_WORDS + 2 * count; i < end; i++)
        if (!within(head[i], -LOG_BOUND, LOG_BOUND)) return 0;
    if (!within(head[X_STEP], STEP_LEAST, LOG_BOUND)) return 0;
    return within(head[X_ZERO], -LOG_BOUND, LOG_BOUND) && within(head[X_FIRST], -LOG_BOUND, LOG_BOUND);
}

void advisor_bundle_free(advisor_bundle *bundle) {
    free(bundle->words);
    free(bundle->starts);
    free(bundle->names);
    free(bundle->name_ends);
    memset(bundle, 0, sizeof *bundle);
}

/* Take room for so many components, words and bytes of names. */
static int make_room(advisor_bundle *bundle, size_t components, size_t words, size_t names) {
    memset(bundle, 0, sizeof *bundle);
    bundle->words = malloc((words ? words : 1) * sizeof *bundle->words);
    bundle->starts = malloc((components + 1) * sizeof *bundle->starts);
    bundle->name_ends = malloc((components + 1) * sizeof *bundle->name_ends);
    bundle->names = malloc(names ? names : 1);
    if (bundle->words && bundle->starts && bundle->name_ends && bundle->names) return ADVISOR_OK;
    advisor_bundle_free(bundle);
    return ADVISOR_MEMORY;
}

static const char *name_of(const advisor_bundle *bundle, uint32_t i, size_t *length) {
    size_t begin = i ? bundle->name_ends[i - 1] : 0;
    *length = bundle->name_ends[i] - begin;
    return bundle->names + begin;
}

static int compare_names(const char *one, size_t one_length, const char *two, size_t two_length) {
    size_t least = one_length < two_length ? one_length : two_length;
    int order = least ? memcmp(one, two, least) : 0;
    return order ? order : (one_length > two_length) - (one_length < two_length);
}

/* Put a record behind the others. */
static void append(advisor_bundle *bundle, const char *name, size_t length, const double *words) {
    size_t count = record_words(words), names = bundle->components ? bundle->name_ends[bundle->components - 1] : 0;
    memcpy(bundle->words + bundle->size, words, count * sizeof *words);
    memcpy(bundle->names + names, name, length);
    bundle->starts[bundle->components] = bundle->size;
    bundle->name_ends[bundle->components] = names + length;
    bundle->size += count;
    bundle->components++;
}

int advisor_bundle_read(advisor_bundle *bundle, const void *given, size_t size) {
    const unsigned char *bytes = given;
    const char *name, *before = NULL;
    double *words;
    double level;
    uint64_t names_at;
    size_t before_length = 0, room, i, w;
    size_t total = 0, names = 0;
    uint32_t count;
    int error;
    memset(bundle, 0, sizeof *bundle);
    if (size < HEADER_BYTES || size % 8 || memcmp(bytes, "ADVCURVE", 8) || u32_at(bytes + 8) != FORMAT) return ADVISOR_MALFORMED;
    count = u32_at(bytes + 12);
    names_at = u64_at(bytes + 40);
    level = from_bits(u64_at(bytes + 32));
    if (u64_at(bytes + 24) != size || names_at != HEADER_BYTES + (uint64_t)PLACE_BYTES * count || names_at > size)
        return ADVISOR_MALFORMED;
    if (!(level > 0.0 && level < 1.0)) return ADVISOR_MALFORMED;
    words = malloc(size);
    if (!words) return ADVISOR_MEMORY;
    for (w = 0; w < size / 8; w++) words[w] = from_bits(u64_at(bytes + 8 * w));
    error = ADVISOR_MALFORMED;
    for (i = 0; i < count; i++) {
        const unsigned char *place = bytes + HEADER_BYTES + PLACE_BYTES * i;
        uint64_t name_at = names_at + u32_at(place), length = u32_at(place + 4), at = u64_at(place + 8);
        if (!length || name_at > size || length > size - name_at) goto failed;
        name = (const char *)bytes + name_at;
        if (before && compare_names(before, before_length, name, (size_t)length) >= 0) goto failed;
        if (at % 8 || at < names_at || at > size) goto failed;
        room = (size_t)((size - at) / 8);
        if (!sound(words + at / 8, room)) goto failed;
        total += record_words(words + at / 8);
        names += (size_t)length;
        /* Names and records may lie on one another: what they come to is bounded all the same. */
        if (total > 2 * size || names > 2 * size) goto failed;
        before = name;
        before_length = (size_t)length;
    }
    error = make_room(bundle, count, total, names);
    if (error) goto failed;
    bundle->version = u64_at(bytes + 16);
    bundle->level = level;
    for (i = 0; i < count; i++) {
        const unsigned char *place = bytes + HEADER_BYTES + PLACE_BYTES * i;
        append(bundle, (const char *)bytes + names_at + u32_at(place), u32_at(place + 4), words + u64_at(place + 8) / 8);
    }
failed:
    free(words);
    return error;
}

int advisor_bundle_load(advisor_bundle *bundle, const char *path) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long size;
    int error = ADVISOR_FILE;
    memset(bundle, 0, sizeof *bundle);
    if (!file) return ADVISOR_FILE;
    if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET)) {
        bytes = malloc(size ? (size_t)size : 1);
        if (!bytes)
            error = ADVISOR_MEMORY;
        else if (fread(bytes, 1, (size_t)size, file) == (size_t)size)
            error = advisor_bundle_read(bundle, bytes, (size_t)size);
    }
    free(bytes);
    fclose(file);
    return error;
}

int advisor_bundle_merge(advisor_bundle *bundle, const advisor_bundle *news) {
    advisor_bundle made;
    size_t names = 0;
    uint32_t i = 0, j = 0;
    int error;
    if (bundle->components) names += bundle->name_ends[bundle->components - 1];
    if (news->components) names += news->name_ends[news->components - 1];
    error = make_room(&made, (size_t)bundle->components + news->components, bundle->size + news->size, names);
    if (error) return error;
    while (i < bundle->components || j < news->components) {
        const char *old = NULL, *new_name = NULL;
        size_t old_length = 0, new_length = 0;
        int order;
        if (i < bundle->components) old = name_of(bundle, i, &old_length);
        if (j < news->components) new_name = name_of(news, j, &new_length);
        order = !old ? 1 : !new_name ? -1 : compare_names(old, old_length, new_name, new_length);
        if (order < 0)
            append(&made, old, old_length, bundle->words + bundle->starts[i++]);
        else {
            append(&made, new_name, new_length, news->words + news->starts[j++]);
            if (!order) i++;
        }
    }
    made.version = news->version;
    made.level = news->level;
    advisor_bundle_free(bundle);
    *bundle = made;
    return ADVISOR_OK;
}

long advisor_find(const advisor_bundle *bundle, const char *name, size_t length) {
    uint32_t low = 0, high = bundle->components;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t other_length;
        const char *other = name_of(bundle, middle, &other_length);
        int order = compare_names(other, other_length, name, length);
        if (!order) return (long)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- evaluation: tables are bilinear in (log2 x, log2 p); beyond them they go on with the slope at the edge ---- */

static double clamped(double value, double low, double high) { return value < low ? low : value > high ? high : value; }
static double legal(double elapsed_s) { return clamped(elapsed_s, ELAPSED_MIN_S, ELAPSED_MAX_S); }

static double log_x(const double *record, double x) {
    double zero = record[X_ZERO], value;
    if (x < PREDICTOR_RESOLUTION) return zero;
    value = log2_of(x);
    return value < zero ? zero : value;
}

static size_t p_segment(const double *record, size_t count, double p) {
    const double *knots = record + HEAD_WORDS;
    size_t low = 0, high = count - 1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (knots[middle] <= p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double along(double a, double b, double w, double below, double above, double least, double most) {
    double slope = b - a;
    if (w < 0.0) return a + w * clamped(slope, below, most);
    if (w > 1.0) return b + (w - 1.0) * clamped(slope, least, above);
    return a + w * slope;
}

static double time_at_knot(const double *table, size_t width, size_t j, double w, double step) {
    double most = SLOPE_MOST * step;
    return along(table[j], table[width + j], w, 0.0, most, 0.0, most);
}

static double width_at_knot(const double *table, size_t width, size_t j, double w, double step) {
    double most = WIDER_MOST * step;
    return along(table[j], table[width + j], w, -most, most, 0.0, 0.0);
}

static size_t x_row(const double *record, double lx, double *w) {
    double position = (lx - record[X_FIRST]) / record[X_STEP];
    double last = record[X_KNOTS] - 2.0;
    size_t row = position >= last ? (size_t)last : position < 0.0 ? 0 : (size_t)position;
    *w = position - (double)row;
    return row;
}

static double half_width(const double *table, size_t count, size_t j, double w, double step, double v, double most) {
    double a = width_at_knot(table, count, j, w, step), b = width_at_knot(table, count, j + 1, w, step);
    return clamped(along(a, b, v, -most, most, 0.0, 0.0), 0.0, LOG_MOST);
}

static double grid_log(const double *record, double lx, double p, double lp) {
    size_t count = (size_t)record[P_KNOTS], j = p_segment(record, count, p), row;
    const double *logs = record + HEAD_WORDS + count + j, *table;
    double between = logs[1] - logs[0], step = record[X_STEP], w, a, b, most = STEEPEST * between;
    row = x_row(record, lx, &w);
    table = record + HEAD_WORDS + 2 * count + row * count;
    a = time_at_knot(table, count, j, w, step);
    b = time_at_knot(table, count, j + 1, w, step);
    return clamped(along(a, b, (lp - logs[0]) / between, -most, most, -most, most), -LOG_MOST, LOG_MOST);
}

/* The record of a component that answers for (x, p), or NULL. */
static const double *asked(const advisor_bundle *bundle, uint32_t component, double x, double p) {
    const double *record;
    if (component >= bundle->components || !within(x, 0.0, PREDICTOR_MAX) || !within(p, CORES_MIN, CORES_MAX)) return NULL;
    record = bundle->words + bundle->starts[component];
    return record[KIND] == ASK ? NULL : record;
}

static double not_a_number(void) { return from_bits(UINT64_C(0x7FF8000000000000)); }

double advisor_predict(const advisor_bundle *bundle, uint32_t component, double x, double p, double *low, double *high) {
    const double *record = asked(bundle, component, x, p), *logs, *tables;
    double lx, lp, value, between, v, w, step, most;
    size_t nx, count, j, row;
    if (!record) {
        if (low) *low = not_a_number();
        if (high) *high = not_a_number();
        return not_a_number();
    }
    lx = log_x(record, x);
    lp = log2_of(p);
    value = legal(exp2_of(grid_log(record, lx, p, lp)));
    if (!low && !high) return value;
    nx = (size_t)record[X_KNOTS];
    count = (size_t)record[P_KNOTS];
    j = p_segment(record, count, p);
    logs = record + HEAD_WORDS + count + j;
    between = logs[1] - logs[0];
    v = (lp - logs[0]) / between;
    row = x_row(record, lx, &w);
    step = record[X_STEP];
    most = WIDER_MOST * between;
    tables = record + HEAD_WORDS + 2 * count + nx * count + row * count;
    if (low) *low = legal(value * exp2_of(-half_width(tables, count, j, w, step, v, most)));
    if (high) *high = legal(value * exp2_of(half_width(tables + nx * count, count, j, w, step, v, most)));
    return value;
}

double advisor_extrapolates(const advisor_bundle *bundle, uint32_t component, double x, double p) {
    const double *record = asked(bundle, component, x, p);
    double lx, lp, outside = 0.0;
    if (!record) return not_a_number();
    lx = log_x(record, x);
    lp = log2_of(p);
    if (lx < record[LOG_X_LOW]) outside += record[LOG_X_LOW] - lx;
    if (lx > record[LOG_X_HIGH]) outside += lx - record[LOG_X_HIGH];
    if (lp < record[LOG_P_LOW]) outside += record[LOG_P_LOW] - lp;
    if (lp > record[LOG_P_HIGH]) outside += lp - record[LOG_P_HIGH];
    return outside;
}

double advisor_table_error(const advisor_bundle *bundle, uint32_t component) {
    const double *record = asked(bundle, component, 0.0, 1.0);
    return record ? record[VALUE_ERROR] : not_a_number();
}

/* The counts of a question: listed, ascending, or 1 to `most`. */
typedef struct counts_asked {
    const uint32_t *listed;
    size_t count;
    uint32_t most;
} counts_asked;

static int in_question(const counts_asked *q, double count) {
    size_t i;
    if (!q->listed) return count <= (double)q->most;
    for (i = 0; i < q->count; i++)
        if ((double)q->listed[i] == count) return 1;
    return 0;
}

static int in_own(const double *record, double count) {
    const double *listed = record + tables_end(record);
    size_t n = (size_t)record[ALLOWED_LISTED], i;
    if (!n) return within(count, record[ALLOWED_LEAST], record[ALLOWED_MOST]) && !((int64_t)count % (int64_t)record[ALLOWED_STEP]);
    for (i = 0; i < n; i++)
        if (listed[i] == count) return 1;
    return 0;
}

static int64_t up(double value) {
    int64_t whole = (int64_t)value;
    return whole + ((double)whole < value);
}

/* Whether question and record allow a whole range of multiples, and its ends from `low` to `high`; empty where least > most. */
static int ranged(const double *record, const counts_asked *q, double low, double high, int64_t *least, int64_t *most) {
    int64_t step = (int64_t)record[ALLOWED_STEP];
    if (q->listed || record[ALLOWED_LISTED] > 0.0) return 0;
    *least = up(low) > (int64_t)record[ALLOWED_LEAST] ? up(low) : (int64_t)record[ALLOWED_LEAST];
    *most = (int64_t)high < (int64_t)record[ALLOWED_MOST] ? (int64_t)high : (int64_t)record[ALLOWED_MOST];
    if ((int64_t)q->most < *most) *most = (int64_t)q->most;
    *least = (*least + step - 1) / step * step;
    *most = *most / step * step;
    return 1;
}

/* The counts from `low` to `high` that question and record allow, ascending; of a long range some 2 % apart. */
static size_t allowed_within(const double *record, const counts_asked *q, double low, double high, double *counts) {
    const double *own = record + tables_end(record);
    size_t n = q->listed ? q->count : (size_t)record[ALLOWED_LISTED], used = 0, i;
    int64_t least, most, step = (int64_t)record[ALLOWED_STEP], place;
    if (!ranged(record, q, low, high, &least, &most)) {
        for (i = 0; i < n; i++) {
            double count = q->listed ? (double)q->listed[i] : own[i];
            if (within(count, low, high) && in_own(record, count) && in_question(q, count)) counts[used++] = count;
        }
        return used;
    }
    for (place = least / step; place * step <= most && used < COUNTS_MAX;) {
        int64_t next = used + 1 < COMPARED_ALL ? place + 1 : (49 * place + 24) / 48;
        counts[used++] = (double)(place * step);
        if (next <= place) next = place + 1;
        place = next * step > most && place * step < most ? most / step : next;
    }
    return used;
}

/* The allowed count nearest to `wanted` by ratio, of two equally near the smaller; 0 where none is allowed. */
static uint32_t nearest_allowed(const double *record, const counts_asked *q, double wanted) {
    double counts[COUNTS_MAX], low = 0.0, high = 0.0;
    int64_t least, most, step = (int64_t)record[ALLOWED_STEP];
    size_t n, i;
    if (ranged(record, q, 0.0, CORES_MAX, &least, &most)) {
        if (least > most) return 0;
        low = clamped((double)((int64_t)wanted / step * step), (double)least, (double)most);
        high = clamped((double)(up(wanted / (double)step) * step), (double)least, (double)most);
    } else {
        n = allowed_within(record, q, 0.0, CORES_MAX, counts);
        if (!n) return 0;
        for (i = 0; i < n && counts[i] < wanted; i++) {}
        low = counts[i ? i - 1 : 0];
        high = counts[i < n ? i : n - 1];
    }
    return (uint32_t)(wanted * wanted <= low * high ? low : high);
}

/* What noise leaves open: the record's counts that were seen, runs on each, variance of ln t, places nearest to the best and
 * to the last. */
typedef struct doubts {
    const double *counts, *runs;
    size_t seen, best, here;
    double noise;
} doubts;

static double root(double value) { return exp2_of(0.5 * log2_of(value)); }

static size_t place_near(const doubts *d, double count) {
    size_t at = 0;
    while (at + 1 < d->seen && count * count > d->counts[at] * d->counts[at + 1]) at++;
    return at;
}

/* The standard error of log2 of a seen count's time over the best's; 0 where predictions alone tell them apart. */
static double error_of(const doubts *d, size_t place) {
    if (d->noise <= 0.0 || place == d->best) return 0.0;
    return root(d->noise * (1.0 / d->runs[place] + 1.0 / d->runs[d->best])) / LN2;
}

static double by_chance(const doubts *d, double count) {
    size_t place = place_near(d, count), i;
    double all_runs = 0.0, sure, error = error_of(d, place);
    if (error <= 0.0) return 0.0;
    for (i = 0; i < d->seen; i++) all_runs += d->runs[i];
    sure = root(2.0 * log2_of(1.0 + all_runs / d->runs[place]) * LN2);
    sure = (sure < SURE ? SURE : sure) * (place == d->here ? HELD : LEFT);
    return clamped(sure * error, 0.0, FURTHEST / LN2);
}

/* A count, so far above the best in log2 of its time, is excused by the few runs on the best. */
static int too_rare(const doubts *d, double count, double above) {
    size_t place = place_near(d, count);
    return log2_of(d->runs[place]) > RARE * d->runs[d->best] && above > error_of(d, place);
}

/* The counts that are compared, and the last one. */
static size_t compared(const double *record, const counts_asked *q, double low, double high, double *counts) {
    double last = record[LAST];
    size_t used = allowed_within(record, q, low, high, counts), i;
    if (!used || last < 1.0 || !is_whole(last) || !in_question(q, last) || !in_own(record, last)) return used;
    for (i = 0; i < used && counts[i] < last; i++) {}
    if (i < used && counts[i] == last) return used;
    memmove(counts + i + 1, counts + i, (used - i) * sizeof *counts);
    counts[i] = last;
    return used + 1;
}

/* 0 where no count is allowed. */
static uint32_t choose(const double *record, double x, const counts_asked *q, double tolerance) {
    double counts[COUNTS_MAX + 1], row[COUNTS_MAX + 1];
    double slack = tolerance < EQUAL ? EQUAL : tolerance, shortest = log2_of(ELAPSED_MIN_S), longest = log2_of(ELAPSED_MAX_S);
    double lx = log_x(record, x), least, bound = longest, last = record[LAST], more = log2_of(1.0 + slack);
    doubts d = {record + seen_at(record), record + seen_at(record) + (size_t)record[SEEN], (size_t)record[SEEN], 0, 0, 0.0};
    size_t used, k, best = 0, held;
    used = compared(record, q, record[P_LOW] / BEYOND, record[P_HIGH] * BEYOND, counts);
    if (!used) return nearest_allowed(record, q, last > 0.0 ? last : record[P_HIGH]);
    for (k = 0; k < used; k++) {
        row[k] = grid_log(record, lx, counts[k], log2_of(counts[k]));
        if (row[k] < row[best]) best = k;
    }
    least = clamped(row[best], shortest, longest);
    if (d.seen) {
        d.noise = record[NOISE] < NOISIEST ? record[NOISE] : NOISIEST;
        d.best = place_near(&d, counts[best]);
        d.here = place_near(&d, last);
    }
    for (k = 0; k < used; k++) {
        double chance = by_chance(&d, counts[k]);
        bound = least + (chance < more ? more : chance);
        if (row[k] <= bound || bound >= longest || k == used - 1) break;
    }
    if (bound > least + more && row[k] - least > more && too_rare(&d, counts[k], row[k] - least)) k = best;
    for (held = 0; held < used && counts[held] != last; held++) {}
    if (held < used && 3.0 * last <= 4.0 * counts[k] && row[held] <= least + log2_of(1.0 + STAYS * slack)) k = held;
    return (uint32_t)counts[k];
}

static int32_t chosen_of(const advisor_bundle *bundle, uint32_t component, double x, const counts_asked *q, double tolerance,
                         double *elapsed_s) {
    const double *record;
    uint32_t cores;
    if (!within(tolerance, 0.0, 1.0) || component >= bundle->components || !within(x, 0.0, PREDICTOR_MAX)) return ADVISOR_INVALID;
    record = asked(bundle, component, x, 1.0);
    if (!record) return ADVISOR_ASK;
    cores = choose(record, x, q, tolerance);
    if (!cores) return ADVISOR_INVALID;
    if (elapsed_s) *elapsed_s = advisor_predict(bundle, component, x, (double)cores, NULL, NULL);
    return (int32_t)cores;
}

int32_t advisor_choose_cores(const advisor_bundle *bundle, uint32_t component, double x, uint32_t cores_max, double tolerance,
                             double *elapsed_s) {
    counts_asked q = {NULL, 0, 0};
    if (!cores_max || cores_max > (uint32_t)CORES_MAX) return ADVISOR_INVALID;
    q.most = cores_max;
    return chosen_of(bundle, component, x, &q, tolerance, elapsed_s);
}

int32_t advisor_choose_allowed(const advisor_bundle *bundle, uint32_t component, double x, const uint32_t *allowed, size_t count,
                               double tolerance, double *elapsed_s) {
    counts_asked q = {allowed, count, 0};
    size_t i;
    if (!allowed || !count || count > ALLOWED_COUNTS_MAX) return ADVISOR_INVALID;
    for (i = 0; i < count; i++)
        if (!allowed[i] || allowed[i] > (uint32_t)CORES_MAX || (i && allowed[i] <= allowed[i - 1])) return ADVISOR_INVALID;
    return chosen_of(bundle, component, x, &q, tolerance, elapsed_s);
}

/* ---- MessagePack: what this client writes and reads ---- */

typedef struct buffer {
    unsigned char *bytes;
    size_t used, room;
} buffer;

static int reserve(buffer *b, size_t more, size_t most) {
    size_t room = b->room ? b->room : 4096;
    unsigned char *bytes;
    if (more > most || b->used > most - more) return 0;
    if (b->used + more <= b->room) return 1;
    while (room < b->used + more) room *= 2;
    bytes = realloc(b->bytes, room);
    if (!bytes) return 0;
    b->bytes = bytes;
    b->room = room;
    return 1;
}

/* The writers are given room beforehand. */
static void put(buffer *b, const void *bytes, size_t size) {
    if (size) memcpy(b->bytes + b->used, bytes, size);
    b->used += size;
}

static void put_byte(buffer *b, unsigned value) { b->bytes[b->used++] = (unsigned char)value; }

static void put_big_endian(buffer *b, uint64_t value, int bytes) {
    while (bytes--) put_byte(b, (unsigned)(value >> (8 * bytes)) & 255u);
}

static void put_little_endian(buffer *b, uint64_t value, int bytes) {
    for (; bytes--; value >>= 8) put_byte(b, (unsigned)value & 255u);
}

static void put_uint(buffer *b, uint64_t value) {
    if (value < 128)
        put_byte(b, (unsigned)value);
    else {
        put_byte(b, value <= UINT32_MAX ? 0xce : 0xcf);
        put_big_endian(b, value, value <= UINT32_MAX ? 4 : 8);
    }
}

static void put_double(buffer *b, double value) {
    put_byte(b, 0xcb);
    put_big_endian(b, to_bits(value), 8);
}

static void put_text(buffer *b, const char *text) {
    size_t length = strlen(text);
    put_byte(b, 0xda);
    put_big_endian(b, length, 2);
    put(b, text, length);
}

static void put_bin_head(buffer *b, size_t length) {
    put_byte(b, 0xc6);
    put_big_endian(b, length, 4);
}

static void put_bin(buffer *b, const void *bytes, size_t length) {
    put_bin_head(b, length);
    put(b, bytes, length);
}

static void put_array(buffer *b, size_t items) {
    put_byte(b, 0xdd);
    put_big_endian(b, items, 4);
}

static void put_map(buffer *b, size_t items) {
    put_byte(b, 0xdf);
    put_big_endian(b, items, 4);
}

enum { NIL, BOOLEAN, NUMBER, TEXT, BIN, ARRAY, MAP, OTHER };

typedef struct token {
    int kind;
    uint64_t value; /* of a number that is not negative, or a truth value; else the length, or the count of items */
    const unsigned char *bytes;
} token;

typedef struct reader {
    const unsigned char *at, *end;
} reader;

static uint64_t big_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

/* 1: a token; 0: the bytes end within it; -1: no MessagePack. The payload of text and bin is stepped over. */
static int next_token(reader *r, token *t) {
    static const struct {
        signed char kind, bytes;
    } heads[32] = {
        {NIL, 0}, {-1, 0}, {BOOLEAN, 0}, {BOOLEAN, 0}, {BIN, 1}, {BIN, 2}, {BIN, 4}, {-1, 0},         /* c0 .. */
        {-1, 0}, {-1, 0}, {OTHER, 4}, {OTHER, 8}, {NUMBER, 1}, {NUMBER, 2}, {NUMBER, 4}, {NUMBER, 8}, /* c8 .. */
        {OTHER, 1}, {OTHER, 2}, {OTHER, 4}, {OTHER, 8}, {-1, 0}, {-1, 0}, {-1, 0}, {-1, 0},           /* d0 .. */
        {-1, 0}, {TEXT, 1}, {TEXT, 2}, {TEXT, 4}, {ARRAY, 2}, {ARRAY, 4}, {MAP, 2}, {MAP, 4},         /* d8 .. */
    };
    unsigned head;
    int bytes;
    if (r->at == r->end) return 0;
    head = *r->at++;
    t->value = 0;
    t->bytes = NULL;
    if (head < 0x80) {
        t->kind = NUMBER;
        t->value = head;
    } else if (head >= 0xe0)
        t->kind = OTHER;
    else if (head < 0xc0) {
        t->kind = head < 0x90 ? MAP : head < 0xa0 ? ARRAY : TEXT;
        t->value = head & (head < 0xa0 ? 15u : 31u);
    } else {
        t->kind = heads[head - 0xc0].kind;
        if (t->kind < 0) return -1;
        bytes = heads[head - 0xc0].bytes;
        if (r->end - r->at < bytes) return 0;
        t->value = head == 0xc3 ? 1 : big_endian(r->at, bytes);
        r->at += bytes;
    }
    if (t->kind == TEXT || t->kind == BIN) {
        t->bytes = r->at;
        if ((uint64_t)(r->end - r->at) < t->value) return 0;
        r->at += t->value;
    }
    return 1;
}

/* Step over one object, as `next_token` answers. Allocates nothing, whatever the headers say. */
static int skip(reader *r) {
    uint64_t left = 1;
    token t;
    while (left) {
        int got = next_token(r, &t);
        if (got <= 0) return got;
        left--;
        if (t.kind == ARRAY) left += t.value;
        if (t.kind == MAP) left += 2 * t.value;
        if (left > UINT64_C(1) << 40) return -1;
    }
    return 1;
}

/* Find a key of the map that `map` begins; its value follows. */
static int find_key(reader map, const char *key, reader *value) {
    token t;
    uint64_t items;
    if (next_token(&map, &t) <= 0 || t.kind != MAP) return 0;
    for (items = t.value; items; items--) {
        if (next_token(&map, &t) <= 0) return 0;
        *value = map;
        if (t.kind == TEXT && t.value == strlen(key) && !memcmp(t.bytes, key, (size_t)t.value)) return 1;
        if (t.kind == ARRAY || t.kind == MAP || skip(&map) <= 0) return 0;
    }
    return 0;
}

static int find_number(reader map, const char *key, uint64_t *value) {
    reader at;
    token t;
    if (!find_key(map, key, &at) || next_token(&at, &t) <= 0 || (t.kind != NUMBER && t.kind != BOOLEAN)) return 0;
    *value = t.value;
    return 1;
}

/* ---- the client ---- */

#define MESSAGE_BYTES_MAX ((size_t)9 << 20) /* of the service's answers and pushes: its limit is 8 MiB */
#define BATCH_ROWS 1000
#define BATCHES 64
#define NAMES 1000
#define NAME_BYTES_MAX 200
#define NAMES_A_MESSAGE 512u /* the service's names_batch_max */
#define BATCH_ROWS_MAX 2048u /* the service's rows_batch_max */
#define ROW_BYTES 28
#define OUT_BYTES_MAX ((size_t)8 << 20)
#define LINGER_MS 20
#define BACKOFF_FIRST_MS 50
#define BACKOFF_LAST_MS 5000
#define STALL_MS 60000
#define CHUNK_BYTES 65536

enum { CLOSED, CONNECTING, GREETING, READY };
#define NETWORKS 64
#define WATCHES 16
#define TEXT_BYTES_MAX 65535 /* of a network: what put_text can say */
enum { NAMES_ID = 2, CURVES_ID, DEFINE_ID, ALLOCATE_ID, HELLO_ID, WATCH_ID_FIRST = 16, BATCH_ID_FIRST = 32 }; /* 1 begins like SSL 2: TLS would wait */
enum { HAS_NETWORK = 1, HAS_ENTERED = 2, HAS_REPLICA = 4, HAS_ACTIVE = 8, HAS_PEAK = 16, HAS_ENERGY = 32 };

/* What a row has beside its component, predictor, cores and time. */
typedef struct more {
    uint64_t replica;
    double active_cores, peak_bytes, energy_j, further[3];
    uint32_t network;
    unsigned char entered;
} more;

typedef struct network {
    char *name, *text; /* text NULL: rows name it, nobody said what it is */
} network;

typedef struct question {
    char *network; /* NULL: none */
    uint32_t cores;
    int asked;       /* on this connection */
    uint64_t number; /* of a watch, on this connection */
    int known;
} question;

typedef struct batch {
    uint64_t sequence;
    uint32_t rows, msgid; /* msgid 0: not in flight on this connection */
    int sent;             /* on any connection */
    int refused;          /* for ever: an empty one goes under its number */
    uint32_t *index;
    double *columns; /* predictor, cores, elapsed_s: batch_rows each */
    more *more;      /* NULL without whole_rows */
    unsigned has;    /* optional columns of which some row has a value */
    uint32_t dimensions;
} batch;

struct advisor_client {
    struct sockaddr_un address;
    char *producer;
    unsigned char incarnation[16];
    uint32_t batch_rows, batches, names_max, names, named;
    char *name_text; /* NAME_BYTES_MAX + 1 bytes each */
    int linger_ms, curves_ms;
    double level;
    uint32_t cores_max;
    int one_core;
    batch *ring; /* `first` and the `held` - 1 after it are in use; the last may still be filling */
    uint32_t first, held;
    int filling;
    int64_t filling_since;
    uint64_t last_sequence, sent_sequence, acknowledged;
    int state, fd;
    uint32_t next_id, in_flight;
    int rewind; /* what is in flight is answered first, then all goes again from the first batch */
    uint32_t rewinds;
    int64_t connect_at, resume_at, heard_at;
    uint32_t attempts, seed;
    buffer out, in;
    size_t out_at;
    uint32_t *column_index; /* room of all batches, allocated once with the ring */
    double *column_values;
    more *column_more;
    network networks[NETWORKS];
    uint32_t network_count, defined; /* of them said on this connection */
    question allocate, watches[WATCHES];
    uint32_t watch_count;
    advisor_advised on_advice;
    void *context;
    advisor_bundle curves;
    /* When curves are asked for next, whether an answer is due, the version of the last whole pull and of the first page of
       this one, and the component that its next page comes after. */
    int64_t curves_at;
    int curves_asked;
    uint64_t curves_since, curves_first;
    char curves_after[NAME_BYTES_MAX + 1];
    advisor_stats stats;
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(advisor_client *c, const char *what, const unsigned char *more, size_t length) {
    int room = (int)sizeof c->stats.last_error;
    snprintf(c->stats.last_error, (size_t)room, "%s%s%.*s", what, length ? ": " : "", (int)(length < 120 ? length : 120),
             more ? (const char *)more : "");
}

static void new_incarnation(advisor_client *c) {
    static uint32_t made;
    FILE *file = fopen("/dev/urandom", "rb");
    size_t got = file ? fread(c->incarnation, 1, sizeof c->incarnation, file) : 0;
    if (file) fclose(file);
    if (got != sizeof c->incarnation) { /* no source of chance: time, process and place tell clients apart */
        struct timespec now;
        uint64_t parts[2];
        clock_gettime(CLOCK_REALTIME, &now);
        parts[0] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        parts[1] = (uint64_t)getpid() << 32 | ++made;
        memcpy(c->incarnation, parts, sizeof parts);
    }
    memcpy(&c->seed, c->incarnation, sizeof c->seed);
}

static batch *nth(const advisor_client *c, uint32_t i) { return &c->ring[(c->first + i) % c->batches]; }

void advisor_client_free(advisor_client *client) {
    uint32_t i;
    if (!client) return;
    if (client->fd >= 0) close(client->fd);
    for (i = 0; i < client->network_count; i++) {
        free(client->networks[i].name);
        free(client->networks[i].text);
    }
    for (i = 0; i < client->watch_count; i++) free(client->watches[i].network);
    free(client->allocate.network);
    free(client->column_more);
    free(client->producer);
    free(client->name_text);
    free(client->ring);
    free(client->column_index);
    free(client->column_values);
    free(client->out.bytes);
    free(client->in.bytes);
    advisor_bundle_free(&client->curves);
    free(client);
}

advisor_client *advisor_client_new(const advisor_options *options) {
    advisor_client *c;
    uint32_t i;
    size_t rows, producer_bytes;
    if (!options->path || !options->producer || strlen(options->path) >= sizeof c->address.sun_path) return NULL;
    producer_bytes = strlen(options->producer);
    if (!producer_bytes || producer_bytes > NAME_BYTES_MAX) return NULL;
    if (options->batch_rows > BATCH_ROWS_MAX || options->batches > 4096 || options->names_max > 200000) return NULL;
    if (options->level != 0.0 && !within(options->level, 0.01, 0.9999)) return NULL;
    if (options->cores_max > (uint32_t)CORES_MAX) return NULL;
    c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->fd = -1;
    c->address.sun_family = AF_UNIX;
    strcpy(c->address.sun_path, options->path);
    c->batch_rows = options->batch_rows ? options->batch_rows : BATCH_ROWS;
    c->batches = options->batches ? options->batches : BATCHES;
    c->names_max = options->names_max ? options->names_max : NAMES;
    c->linger_ms = options->linger_ms > 0 ? options->linger_ms : options->linger_ms < 0 ? 0 : LINGER_MS;
    c->curves_ms = options->curves_ms;
    c->level = options->level != 0.0 ? options->level : 0.9;
    c->cores_max = options->cores_max ? options->cores_max : 256;
    c->one_core = options->one_core;
    c->next_id = BATCH_ID_FIRST;
    rows = (size_t)c->batches * c->batch_rows;
    c->producer = malloc(producer_bytes + 1);
    c->ring = calloc(c->batches, sizeof *c->ring);
    c->column_index = malloc(rows * sizeof *c->column_index);
    c->column_values = malloc(3 * rows * sizeof *c->column_values);
    c->column_more = options->whole_rows ? malloc(rows * sizeof *c->column_more) : NULL;
    c->on_advice = options->on_advice;
    c->context = options->context;
    c->name_text = malloc((size_t)c->names_max * (NAME_BYTES_MAX + 1));
    if (!c->producer || !c->ring || !c->column_index || !c->column_values || !c->name_text ||
        (options->whole_rows && !c->column_more)) {
        advisor_client_free(c);
        return NULL;
    }
    strcpy(c->producer, options->producer);
    for (i = 0; i < c->batches; i++) {
        c->ring[i].index = c->column_index + (size_t)i * c->batch_rows;
        c->ring[i].columns = c->column_values + 3 * (size_t)i * c->batch_rows;
        c->ring[i].more = c->column_more ? c->column_more + (size_t)i * c->batch_rows : NULL;
    }
    new_incarnation(c);
    return c;
}

static const char *text_of(const advisor_client *c, uint32_t i) { return c->name_text + (size_t)i * (NAME_BYTES_MAX + 1); }

int32_t advisor_client_name(advisor_client *client, const char *name) {
    size_t length = strlen(name);
    uint32_t i;
    if (!length || length > NAME_BYTES_MAX) return ADVISOR_INVALID;
    for (i = 0; i < client->names; i++)
        if (!strcmp(text_of(client, i), name)) return (int32_t)i;
    if (client->names == client->names_max) return ADVISOR_FULL;
    memcpy(client->name_text + (size_t)client->names * (NAME_BYTES_MAX + 1), name, length + 1);
    return (int32_t)client->names++;
}

static int take_row(advisor_client *client, const advisor_row *row) {
    batch *b;
    uint32_t rows = client->batch_rows;
    if (row->component < 0 || (uint32_t)row->component >= client->names) return ADVISOR_INVALID;
    if (client->filling && nth(client, client->held - 1)->dimensions != row->dimensions) client->filling = 0;
    if (!client->filling) {
        if (client->held == client->batches) {
            client->stats.rows_dropped++;
            return ADVISOR_FULL;
        }
        b = nth(client, client->held++);
        b->sequence = ++client->last_sequence;
        b->rows = b->msgid = 0;
        b->sent = b->refused = 0;
        b->has = 0;
        b->dimensions = row->dimensions;
        client->filling = 1;
        client->filling_since = now_ms();
    }
    b = nth(client, client->held - 1);
    b->index[b->rows] = (uint32_t)row->component;
    b->columns[b->rows] = row->predictor[0];
    b->columns[rows + b->rows] = row->cores;
    b->columns[2 * (size_t)rows + b->rows] = row->elapsed_s;
    if (b->more) {
        more *m = &b->more[b->rows];
        m->network = row->network < 0 ? UINT32_MAX : (uint32_t)row->network;
        m->replica = row->replica;
        m->entered = row->entered != 0;
        m->active_cores = row->active_cores;
        m->peak_bytes = row->peak_bytes;
        m->energy_j = row->energy_j;
        memcpy(m->further, row->predictor + 1, sizeof m->further);
        b->has |= (row->network >= 0 ? HAS_NETWORK : 0u) | (row->entered ? HAS_ENTERED : 0u) |
                  (row->replica != ADVISOR_NONE ? HAS_REPLICA : 0u) |
                  (row->active_cores == row->active_cores ? HAS_ACTIVE : 0u) |
                  (row->peak_bytes == row->peak_bytes ? HAS_PEAK : 0u) | (row->energy_j == row->energy_j ? HAS_ENERGY : 0u);
    }
    client->stats.rows_taken++;
    if (++b->rows == rows) client->filling = 0;
    return ADVISOR_OK;
}

advisor_row advisor_row_of(int32_t component, double predictor, double cores, double elapsed_s) {
    advisor_row row;
    memset(&row, 0, sizeof row);
    row.component = component;
    row.dimensions = 1;
    row.predictor[0] = predictor;
    row.cores = cores;
    row.elapsed_s = elapsed_s;
    row.network = -1;
    row.replica = ADVISOR_NONE;
    row.active_cores = row.peak_bytes = row.energy_j = not_a_number();
    return row;
}

int advisor_client_observe(advisor_client *client, int32_t component, double predictor, double cores, double elapsed_s) {
    advisor_row row = advisor_row_of(component, predictor, cores, elapsed_s);
    return take_row(client, &row);
}

int advisor_client_observe_row(advisor_client *client, const advisor_row *row) {
    if (!client->column_more || row->dimensions < 1 || row->dimensions > 4) return ADVISOR_INVALID;
    if (row->network < -1 || row->network >= (int32_t)client->network_count) return ADVISOR_INVALID;
    return take_row(client, row);
}

static char *copied(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

int32_t advisor_client_network(advisor_client *client, const char *name) {
    size_t length = strlen(name);
    uint32_t i;
    if (!length || length > NAME_BYTES_MAX) return ADVISOR_INVALID;
    for (i = 0; i < client->network_count; i++)
        if (!strcmp(client->networks[i].name, name)) return (int32_t)i;
    if (client->network_count == NETWORKS) return ADVISOR_FULL;
    client->networks[i].text = NULL;
    client->networks[i].name = copied(name);
    if (!client->networks[i].name) return ADVISOR_MEMORY;
    client->network_count++;
    return (int32_t)i;
}

int advisor_client_define_network(advisor_client *client, const char *name, const char *text) {
    int32_t i = advisor_client_network(client, name);
    char *copy;
    if (i < 0) return i;
    if (!*text || strlen(text) > TEXT_BYTES_MAX) return ADVISOR_INVALID;
    copy = copied(text);
    if (!copy) return ADVISOR_MEMORY;
    free(client->networks[i].text);
    client->networks[i].text = copy;
    if (client->defined > (uint32_t)i) client->defined = (uint32_t)i; /* it and those after it are said (again) */
    return ADVISOR_OK;
}

static int pose(question *q, const char *text, uint32_t cores) {
    if (!*text || strlen(text) > TEXT_BYTES_MAX || !cores || cores > (uint32_t)CORES_MAX) return ADVISOR_INVALID;
    memset(q, 0, sizeof *q);
    q->network = copied(text);
    q->cores = cores;
    return q->network ? ADVISOR_OK : ADVISOR_MEMORY;
}

int advisor_client_allocate(advisor_client *client, const char *network, uint32_t cores) {
    return client->allocate.network ? ADVISOR_FULL : pose(&client->allocate, network, cores);
}

int32_t advisor_client_watch(advisor_client *client, const char *network, uint32_t cores) {
    int error;
    if (client->watch_count == WATCHES) return ADVISOR_FULL;
    error = pose(&client->watches[client->watch_count], network, cores);
    return error ? error : (int32_t)client->watch_count++;
}
static void disconnect(advisor_client *c, const char *why) {
    uint32_t wait = BACKOFF_FIRST_MS, i;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
    if (why) say(c, why, NULL, 0);
    for (i = 0; i < c->attempts && wait < BACKOFF_LAST_MS; i++) wait *= 2;
    if (wait > BACKOFF_LAST_MS) wait = BACKOFF_LAST_MS;
    c->attempts++;
    c->seed = c->seed * 1664525u + 1013904223u; /* jitter, so that not all come at once */
    c->connect_at = now_ms() + wait / 2 + c->seed % (wait / 2 + 1);
}

static int request(advisor_client *c, size_t room, uint32_t msgid, const char *method, size_t params) {
    if (!reserve(&c->out, room + 64, OUT_BYTES_MAX)) return 0;
    put_byte(&c->out, 0x94);
    put_byte(&c->out, 0);
    put_uint(&c->out, msgid);
    put_text(&c->out, method);
    put_array(&c->out, params);
    return 1;
}

static void greet(advisor_client *c) {
    if (!request(c, 512, HELLO_ID, "hello", 1)) return;
    put_map(&c->out, 3);
    put_text(&c->out, "protocol");
    put_uint(&c->out, 2);
    put_text(&c->out, "producer");
    put_text(&c->out, c->producer);
    put_text(&c->out, "incarnation");
    put_bin(&c->out, c->incarnation, sizeof c->incarnation);
}

static void begin_connection(advisor_client *c) {
    uint32_t i;
    c->out.used = c->out_at = c->in.used = 0;
    c->named = c->in_flight = c->defined = 0;
    c->allocate.asked = 0;
    for (i = 0; i < c->watch_count; i++) c->watches[i].asked = c->watches[i].known = 0;
    c->rewind = 0;
    c->rewinds = 0;
    c->resume_at = 0;
    for (i = 0; i < c->held; i++) nth(c, i)->msgid = 0;
    c->state = GREETING;
    c->heard_at = now_ms();
    c->stats.connections++;
    greet(c);
}

static void try_to_connect(advisor_client *c) {
    int flags;
    c->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (c->fd < 0) {
        disconnect(c, "no socket");
        return;
    }
    flags = fcntl(c->fd, F_GETFL);
    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(c->fd, F_SETFD, FD_CLOEXEC) < 0) {
        disconnect(c, "no socket");
        return;
    }
    if (!connect(c->fd, (struct sockaddr *)&c->address, sizeof c->address))
        begin_connection(c);
    else if (errno == EINPROGRESS)
        c->state = CONNECTING;
    else
        disconnect(c, "no connection to the service");
}

static void finish_connecting(advisor_client *c) {
    struct pollfd ready;
    int error = 0;
    socklen_t size = sizeof error;
    ready.fd = c->fd;
    ready.events = POLLOUT;
    if (poll(&ready, 1, 0) <= 0) return;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error)
        disconnect(c, "no connection to the service");
    else
        begin_connection(c);
}

static void send_names(advisor_client *c) {
    while (c->named < c->names) {
        uint32_t i, count = c->names - c->named < NAMES_A_MESSAGE ? c->names - c->named : NAMES_A_MESSAGE;
        if (!request(c, (size_t)count * (NAME_BYTES_MAX + 4), NAMES_ID, "names", 2)) return;
        put_uint(&c->out, c->named);
        put_array(&c->out, count);
        for (i = 0; i < count; i++) put_text(&c->out, text_of(c, c->named + i));
        c->named += count;
    }
}

static void put_column(buffer *out, const char *key, const double *values, uint32_t rows) {
    uint32_t i;
    put_text(out, key);
    put_bin_head(out, (size_t)rows * 8);
    for (i = 0; i < rows; i++) put_little_endian(out, to_bits(values[i]), 8);
}

/* The optional columns of a batch, those of which some row has a value. */
static void put_more(advisor_client *c, const batch *b, uint32_t rows) {
    static const struct {
        const char *key;
        unsigned flag;
        size_t offset;
        int bytes;
    } columns[] = {
        {"network", HAS_NETWORK, offsetof(more, network), 4},
        {"entered", HAS_ENTERED, offsetof(more, entered), 1}, {"replica", HAS_REPLICA, offsetof(more, replica), 8},
        {"active_cores", HAS_ACTIVE, offsetof(more, active_cores), 8}, {"peak_bytes", HAS_PEAK, offsetof(more, peak_bytes), 8},
        {"energy_j", HAS_ENERGY, offsetof(more, energy_j), 8},
    };
    size_t k, measures = !!(b->has & HAS_PEAK) + (size_t)!!(b->has & HAS_ENERGY);
    uint32_t i;
    if (b->has & HAS_NETWORK) {
        put_text(&c->out, "labels");
        put_array(&c->out, c->network_count);
        for (i = 0; i < c->network_count; i++) put_text(&c->out, c->networks[i].name);
    }
    if (b->dimensions > 1) {
        put_text(&c->out, "dimensions");
        put_uint(&c->out, b->dimensions);
    }
    for (k = 0; k < sizeof columns / sizeof *columns; k++) {
        if (columns[k].flag == HAS_PEAK && measures) {
            put_text(&c->out, "measures");
            put_map(&c->out, measures);
        }
        if (!(b->has & columns[k].flag)) continue;
        put_text(&c->out, columns[k].key);
        put_bin_head(&c->out, (size_t)rows * (size_t)columns[k].bytes);
        for (i = 0; i < rows; i++) {
            const unsigned char *at = (const unsigned char *)&b->more[i] + columns[k].offset;
            uint64_t value = *at;
            uint32_t half;
            if (columns[k].bytes == 8) memcpy(&value, at, 8);
            if (columns[k].bytes == 4) {
                memcpy(&half, at, 4);
                value = half;
            }
            put_little_endian(&c->out, value, columns[k].bytes);
        }
    }
}

static void put_predictors(buffer *out, const batch *b, uint32_t rows) {
    uint32_t i, k;
    put_text(out, "predictor");
    put_bin_head(out, (size_t)rows * 8 * b->dimensions);
    for (i = 0; i < rows; i++)
        for (k = 0; k < b->dimensions; k++) put_little_endian(out, to_bits(k ? b->more[i].further[k - 1] : b->columns[i]), 8);
}

static size_t keys_of(const batch *b) {
    size_t keys = 7 + (b->dimensions > 1);
    unsigned flag;
    for (flag = HAS_NETWORK; flag <= HAS_ACTIVE; flag *= 2) keys += !!(b->has & flag);
    return keys + !!(b->has & HAS_NETWORK) + !!(b->has & (HAS_PEAK | HAS_ENERGY));
}

/* Encode a batch; 0 when there is no room. */
static int send_batch(advisor_client *c, batch *b) {
    uint32_t rows = b->refused ? 0 : b->rows, i;
    size_t room = (size_t)rows * (ROW_BYTES + (b->more ? sizeof *b->more : 0)) + (size_t)c->network_count * (NAME_BYTES_MAX + 4);
    if (!request(c, room + 1024, c->next_id, "observe_columns", 1)) return 0;
    put_map(&c->out, keys_of(b));
    put_text(&c->out, "producer");
    put_text(&c->out, c->producer);
    put_text(&c->out, "incarnation");
    put_bin(&c->out, c->incarnation, sizeof c->incarnation);
    put_text(&c->out, "sequence");
    put_uint(&c->out, b->sequence);
    put_text(&c->out, "index");
    put_bin_head(&c->out, (size_t)rows * 4);
    for (i = 0; i < rows; i++) put_little_endian(&c->out, b->index[i], 4);
    put_predictors(&c->out, b, rows);
    put_column(&c->out, "cores", b->columns + c->batch_rows, rows);
    put_column(&c->out, "elapsed_s", b->columns + 2 * (size_t)c->batch_rows, rows);
    put_more(c, b, rows);
    c->stats.batches_resent += (uint64_t)b->sent;
    b->sent = 1;
    if (b->sequence > c->sent_sequence) c->sent_sequence = b->sequence;
    b->msgid = c->next_id;
    c->next_id = c->next_id == UINT32_MAX ? BATCH_ID_FIRST : c->next_id + 1;
    c->in_flight++;
    return 1;
}

static void ask_for_curves(advisor_client *c) {
    if (!request(c, 256 + NAME_BYTES_MAX, CURVES_ID, "curves", 1)) return;
    put_map(&c->out, c->curves_after[0] ? 4 : 3);
    put_text(&c->out, "since");
    put_uint(&c->out, c->curves_since);
    put_text(&c->out, "level");
    put_double(&c->out, c->level);
    put_text(&c->out, "cores_max");
    put_uint(&c->out, c->cores_max);
    if (c->curves_after[0]) {
        put_text(&c->out, "after");
        put_text(&c->out, c->curves_after);
    }
    c->curves_asked = 1;
}

/* The next pull of curves begins after `wait_ms`. */
static void pull_later(advisor_client *c, int wait_ms) {
    c->curves_asked = 0;
    c->curves_after[0] = 0;
    c->curves_at = now_ms() + wait_ms;
}

static void send_networks(advisor_client *c) {
    for (; c->defined < c->network_count; c->defined++) {
        const network *n = &c->networks[c->defined];
        if (!n->text) continue;
        if (!request(c, strlen(n->text) + NAME_BYTES_MAX + 64, DEFINE_ID, "define_network", 1)) return;
        put_map(&c->out, 2);
        put_text(&c->out, "id");
        put_text(&c->out, n->name);
        put_text(&c->out, "text");
        put_text(&c->out, n->text);
    }
}

static void send_question(advisor_client *c, question *q, uint32_t msgid, const char *method) {
    if (!q->network || q->asked) return;
    if (!request(c, strlen(q->network) + 128, msgid, method, 1)) return;
    put_map(&c->out, c->one_core ? 3 : 2);
    put_text(&c->out, "network");
    put_text(&c->out, q->network);
    put_text(&c->out, "cores");
    put_uint(&c->out, q->cores);
    if (c->one_core) {
        put_text(&c->out, "allowed");
        put_array(&c->out, 1);
        put_uint(&c->out, 1);
    }
    q->asked = 1;
}

/* Put what may be said now behind what is being sent; return whether that is anything. */
static int fill_out(advisor_client *c) {
    uint32_t i;
    size_t before = c->out.used;
    int64_t now = now_ms();
    if (c->state != READY) return 0;
    if (c->filling && now - c->filling_since >= c->linger_ms) c->filling = 0;
    send_names(c);
    send_networks(c);
    if (c->defined == c->network_count) {
        send_question(c, &c->allocate, ALLOCATE_ID, "allocate");
        for (i = 0; i < c->watch_count; i++) send_question(c, &c->watches[i], WATCH_ID_FIRST + i, "watch");
    }
    if (c->rewind || now < c->resume_at || c->named < c->names) return c->out.used > before;
    for (i = 0; i < c->held - (uint32_t)c->filling; i++) {
        batch *b = nth(c, i);
        if (!b->msgid && (c->out.used - c->out_at > CHUNK_BYTES || !send_batch(c, b))) break;
    }
    return c->out.used > before;
}

static void acknowledge(advisor_client *c, uint64_t sequence) {
    while (c->held && nth(c, 0)->sequence <= sequence) {
        batch *b = nth(c, 0);
        if (b->msgid) c->in_flight--;
        if (b->refused)
            c->stats.rows_rejected += b->rows;
        else
            c->stats.rows_acknowledged += b->rows;
        c->first = (c->first + 1) % c->batches;
        c->held--;
    }
    if (sequence > c->acknowledged) c->acknowledged = sequence;
}

static void go_back(advisor_client *c) {
    uint32_t i;
    if (!c->rewind || c->in_flight) return;
    c->rewind = 0;
    for (i = 0; i < c->held; i++) nth(c, i)->msgid = 0;
    if (++c->rewinds > 8) disconnect(c, NULL); /* hello tells where the service stands */
}

static void greeted(advisor_client *c, reader result) {
    uint64_t durable = 0;
    uint32_t i;
    find_number(result, "sequence", &durable);
    if (durable < c->acknowledged || durable > c->sent_sequence) {
        /* The service lost its state, or knows more of us than we said: as a new one we agree on everything. */
        c->stats.state_lost++;
        new_incarnation(c);
        for (i = 0; i < c->held; i++) nth(c, i)->sequence = i + 1;
        c->last_sequence = c->held;
        c->acknowledged = c->sent_sequence = 0;
        greet(c);
        return;
    }
    acknowledge(c, durable);
    c->state = READY;
    c->attempts = 0;
    pull_later(c, 0);
}

static void take_curves(advisor_client *c, reader map) {
    reader at;
    token t;
    advisor_bundle news;
    int error;
    uint64_t version = 0;
    int first = !c->curves_after[0];
    pull_later(c, c->curves_ms);
    if (!find_key(map, "bundle", &at) || next_token(&at, &t) <= 0 || t.kind != BIN) return;
    error = advisor_bundle_read(&news, t.bytes, (size_t)t.value);
    if (!error) {
        error = advisor_bundle_merge(&c->curves, &news);
        advisor_bundle_free(&news);
    }
    if (error) {
        say(c, "a bundle that could not be read", NULL, 0);
        return;
    }
    c->stats.bundles++;
    if (first && find_number(map, "version", &version)) c->curves_first = version;
    if (find_key(map, "next", &at) && next_token(&at, &t) > 0 && t.kind == TEXT && t.value && t.value <= NAME_BYTES_MAX) {
        memcpy(c->curves_after, t.bytes, (size_t)t.value); /* another page: at once */
        c->curves_after[t.value] = 0;
        c->curves_at = now_ms();
    } else
        c->curves_since = c->curves_first;
}

static double find_double(reader map, const char *key) {
    reader at;
    token t;
    unsigned head;
    if (!find_key(map, key, &at) || at.at == at.end) return not_a_number();
    head = *at.at;
    if (next_token(&at, &t) <= 0) return not_a_number();
    return t.kind == NUMBER ? (double)t.value : head == 0xcb ? from_bits(t.value) : not_a_number();
}

/* The number of a key of a map that may have any keys. */
static int number_of(reader map, const unsigned char *key, size_t length, uint64_t *value) {
    token t;
    uint64_t items;
    if (next_token(&map, &t) <= 0 || t.kind != MAP) return 0;
    for (items = t.value; items; items--) {
        int same;
        if (next_token(&map, &t) <= 0 || t.kind != TEXT) return 0;
        same = t.value == length && !memcmp(t.bytes, key, length);
        if (next_token(&map, &t) <= 0 || t.kind != NUMBER) return 0;
        *value = t.value;
        if (same) return 1;
    }
    return 0;
}

/* Tell of an allocation; 0 when there is none. */
static int tell(advisor_client *c, int kind, int32_t watch, reader map) {
    advisor_allocation found;
    advisor_share *shares;
    reader instances, cores, at = map;
    uint64_t used = 0, value;
    token t;
    uint32_t i;
    if (next_token(&at, &t) <= 0 || t.kind != MAP || !c->on_advice) return 0;
    if (!find_key(map, "instances", &instances) || !find_key(map, "cores", &cores)) return 0;
    find_number(map, "cores_used", &used);
    at = instances;
    if (next_token(&at, &t) <= 0 || t.kind != MAP || t.value > (uint64_t)(at.end - at.at)) return 0;
    found.count = (uint32_t)t.value;
    shares = calloc((size_t)found.count + 1, sizeof *shares);
    if (!shares) return 0;
    for (i = 0; i < found.count; i++) {
        if (next_token(&at, &t) <= 0 || t.kind != TEXT) break;
        shares[i].key = (const char *)t.bytes;
        shares[i].length = (size_t)t.value;
        if (number_of(cores, t.bytes, (size_t)t.value, &value)) shares[i].cores = (uint32_t)value;
        if (next_token(&at, &t) <= 0 || t.kind != NUMBER) break;
        shares[i].instances = (uint32_t)t.value;
    }
    found.throughput_per_s = find_double(map, "throughput_per_s");
    found.latency_s = find_double(map, "latency_s");
    found.cores_used = (uint32_t)used;
    found.shares = shares;
    if (i == found.count) c->on_advice(c->context, kind, watch, &found, "");
    free(shares);
    return i == found.count;
}

static void tell_why(advisor_client *c, int kind, int32_t watch, reader map, const char *key) {
    char why[160];
    reader at;
    token t;
    int length = 0;
    if (find_key(map, key, &at) && next_token(&at, &t) > 0 && t.kind == TEXT) length = (int)(t.value < 159 ? t.value : 159);
    snprintf(why, sizeof why, "%.*s", length, length ? (const char *)t.bytes : "");
    if (c->on_advice) c->on_advice(c->context, kind, watch, NULL, why);
}

/* The answer to a question of ours; `error` where it failed. */
static void answered(advisor_client *c, uint64_t msgid, reader error, int failed, reader result) {
    reader at;
    if (msgid == ALLOCATE_ID) {
        free(c->allocate.network);
        memset(&c->allocate, 0, sizeof c->allocate);
        if (failed)
            tell_why(c, ADVISOR_REFUSED, -1, error, "message");
        else
            tell(c, ADVISOR_ALLOCATED, -1, result);
    } else if (msgid - WATCH_ID_FIRST < c->watch_count) {
        question *q = &c->watches[msgid - WATCH_ID_FIRST];
        int32_t watch = (int32_t)(msgid - WATCH_ID_FIRST);
        if (failed)
            tell_why(c, ADVISOR_REFUSED, watch, error, "message");
        else {
            q->known = find_number(result, "watch", &q->number);
            if (find_key(result, "allocation", &at)) tell(c, ADVISOR_ADVICE, watch, at);
        }
    }
}

/* What the service says of watches: a list of maps. */
static void take_advice(advisor_client *c, reader list) {
    token t;
    uint64_t items;
    if (next_token(&list, &t) <= 0 || t.kind != ARRAY) return;
    for (items = t.value; items; items--) {
        reader item = list, at;
        uint64_t number;
        uint32_t i;
        if (skip(&list) <= 0) return;
        item.end = list.at;
        if (!find_number(item, "watch", &number) || !find_key(item, "kind", &at) || next_token(&at, &t) <= 0) continue;
        for (i = 0; i < c->watch_count && !(c->watches[i].known && c->watches[i].number == number); i++) continue;
        if (i == c->watch_count || t.kind != TEXT) continue;
        if ((t.value == 6 && !memcmp(t.bytes, "advice", 6)) || (t.value == 5 && !memcmp(t.bytes, "first", 5))) {
            if (find_key(item, "allocation", &at)) tell(c, ADVISOR_ADVICE, (int32_t)i, at);
        } else if (t.value == 6 && !memcmp(t.bytes, "failed", 6) && find_key(item, "error", &at))
            tell_why(c, ADVISOR_REFUSED, (int32_t)i, at, "message");
    }
}

static void settle(advisor_client *c, batch *b, reader error, reader result) {
    reader at, text;
    token t, code;
    uint64_t retry = 0, value = 0;
    at = error;
    if (next_token(&at, &t) <= 0) return;
    b->msgid = 0;
    c->in_flight--;
    if (t.kind == NIL) {
        c->rewinds = 0;
        if (find_number(result, "accepted", &value)) c->stats.rows_accepted += value;
        if (find_key(result, "refused", &at) && find_number(at, "count", &value)) c->stats.rows_refused += value;
        acknowledge(c, b->sequence);
        return;
    }
    find_number(error, "retry", &retry);
    code.kind = NIL;
    code.value = 0;
    if (!find_key(error, "code", &at) || next_token(&at, &code) <= 0 || code.kind != TEXT) code.value = 0;
    if (find_key(error, "message", &text) && next_token(&text, &t) > 0 && t.kind == TEXT)
        say(c, "refused", t.bytes, (size_t)t.value);
    c->rewind = 1;
    if (code.value == 12 && !memcmp(code.bytes, "sequence_gap", 12)) return;
    if (retry) {
        if (code.value == 15 && !memcmp(code.bytes, "unknown_name_id", 15))
            c->named = 0;
        else
            c->resume_at = now_ms() + BACKOFF_FIRST_MS * (int64_t)(1u << (c->rewinds < 6 ? c->rewinds : 6));
        return;
    }
    if (b->refused || !b->rows)
        disconnect(c, NULL); /* even nothing is refused */
    else
        b->refused = 1;
}

/* Take one whole message; 0 when the connection is of no more use. */
static int take(advisor_client *c, reader message) {
    token t;
    reader error, result;
    uint64_t kind, msgid, items;
    uint32_t i;
    if (next_token(&message, &t) <= 0 || t.kind != ARRAY) return 0;
    items = t.value;
    if (next_token(&message, &t) <= 0 || t.kind != NUMBER) return 0;
    kind = t.value;
    if (kind == 2 && items == 3) {
        int is_advice;
        if (next_token(&message, &t) <= 0 || t.kind != TEXT) return 0;
        is_advice = t.value == 6 && !memcmp(t.bytes, "advice", 6);
        if (next_token(&message, &t) <= 0 || t.kind != ARRAY) return 0;
        if (is_advice && t.value) take_advice(c, message);
        return 1;
    }
    if (kind != 1 || items != 4 || next_token(&message, &t) <= 0) return 0;
    msgid = t.value;
    error = message;
    if (skip(&message) <= 0) return 0;
    result = message;
    if (t.kind != NUMBER) { /* nil: the service gives up on the whole connection */
        reader text;
        if (find_key(error, "message", &text) && next_token(&text, &t) > 0 && t.kind == TEXT)
            say(c, "the service closes", t.bytes, (size_t)t.value);
        return 0;
    }
    if (msgid < BATCH_ID_FIRST) {
        reader at = error;
        int failed = next_token(&at, &t) <= 0 || t.kind != NIL;
        if (failed) {
            reader text;
            if (find_key(error, "message", &text) && next_token(&text, &t) > 0 && t.kind == TEXT)
                say(c, "refused", t.bytes, (size_t)t.value);
            if (msgid == CURVES_ID) { /* the component of the last page may be gone: begin with all */
                c->curves_since = 0;
                pull_later(c, c->curves_ms);
            }
            if (msgid >= ALLOCATE_ID) answered(c, msgid, error, 1, result);
            return msgid >= CURVES_ID; /* rows go on without curves, networks and answers */
        }
        if (msgid >= ALLOCATE_ID) answered(c, msgid, error, 0, result);
        if (msgid == HELLO_ID) greeted(c, result);
        if (msgid == CURVES_ID) take_curves(c, result);
        return 1;
    }
    for (i = 0; i < c->held; i++)
        if (nth(c, i)->msgid == msgid) {
            settle(c, nth(c, i), error, result);
            break;
        }
    if (c->state == READY) go_back(c);
    return 1;
}

static void receive_all(advisor_client *c) {
    while (c->fd >= 0) {
        ssize_t got;
        size_t done = 0;
        if (!reserve(&c->in, CHUNK_BYTES, MESSAGE_BYTES_MAX)) {
            disconnect(c, "a message beyond the limit");
            return;
        }
        got = recv(c->fd, c->in.bytes + c->in.used, CHUNK_BYTES, 0);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (got <= 0) {
            disconnect(c, got ? "the connection broke" : "the service closed the connection");
            return;
        }
        c->in.used += (size_t)got;
        c->heard_at = now_ms();
        while (c->fd >= 0 && done < c->in.used) {
            reader whole;
            int got_one;
            whole.at = c->in.bytes + done;
            whole.end = c->in.bytes + c->in.used;
            got_one = skip(&whole);
            if (!got_one) break;
            if (got_one > 0) {
                reader message;
                message.at = c->in.bytes + done;
                message.end = whole.at;
                done += (size_t)(whole.at - message.at);
                got_one = take(c, message);
            }
            if (got_one <= 0 && c->fd >= 0) disconnect(c, got_one ? "the service broke the protocol" : NULL);
        }
        if (c->fd < 0) return;
        memmove(c->in.bytes, c->in.bytes + done, c->in.used - done);
        c->in.used -= done;
    }
}

static void send_all(advisor_client *c) {
    while (c->fd >= 0 && c->out_at < c->out.used) {
        ssize_t sent = send(c->fd, c->out.bytes + c->out_at, c->out.used - c->out_at, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) break;
        if (sent <= 0) {
            disconnect(c, "the connection broke");
            return;
        }
        c->out_at += (size_t)sent;
    }
    if (c->out_at) {
        memmove(c->out.bytes, c->out.bytes + c->out_at, c->out.used - c->out_at);
        c->out.used -= c->out_at;
        c->out_at = 0;
    }
}

int advisor_client_step(advisor_client *client) {
    int more;
    if (client->state == CLOSED && now_ms() >= client->connect_at) try_to_connect(client);
    if (client->state == CONNECTING) finish_connecting(client);
    if (client->state == GREETING || client->state == READY) {
        receive_all(client);
        if (client->state == READY && client->curves_ms > 0 && !client->curves_asked && now_ms() >= client->curves_at)
            ask_for_curves(client);
        if (client->fd >= 0)
            do {
                more = fill_out(client);
                send_all(client);
            } while (more && client->fd >= 0 && !client->out.used);
        if (client->fd >= 0 && (client->in_flight || client->state == GREETING) && now_ms() - client->heard_at > STALL_MS)
            disconnect(client, "the service does not answer");
    }
    return client->state == READY;
}

int advisor_client_fd(const advisor_client *client) { return client->fd; }

int advisor_client_wants_write(const advisor_client *client) {
    return client->state == CONNECTING || (client->fd >= 0 && client->out_at < client->out.used);
}

int advisor_client_wait_ms(const advisor_client *client) {
    int64_t now = now_ms(), until = now + 1000;
    if (client->state == CLOSED && client->connect_at < until) until = client->connect_at;
    if (client->filling && client->filling_since + client->linger_ms < until) until = client->filling_since + client->linger_ms;
    if (client->resume_at > now && client->resume_at < until) until = client->resume_at;
    if (client->state == READY && client->curves_ms > 0 && !client->curves_asked && client->curves_at < until)
        until = client->curves_at;
    return until > now ? (int)(until - now) : 0;
}

int advisor_client_wait(advisor_client *client, int timeout_ms) {
    struct pollfd ready;
    int wait = advisor_client_wait_ms(client);
    ready.fd = client->fd;
    ready.events = (short)(POLLIN | (advisor_client_wants_write(client) ? POLLOUT : 0));
    poll(&ready, client->fd >= 0, wait < timeout_ms ? wait : timeout_ms);
    return advisor_client_step(client);
}

int advisor_client_flush(advisor_client *client, int timeout_ms) {
    int64_t until = now_ms() + timeout_ms, now;
    client->filling = 0;
    advisor_client_step(client);
    while (client->held && (now = now_ms()) < until) advisor_client_wait(client, (int)(until - now));
    return !client->held;
}

advisor_stats advisor_client_stats(const advisor_client *client) {
    advisor_stats stats = client->stats;
    stats.rows_held = stats.rows_taken - stats.rows_acknowledged - stats.rows_rejected;
    return stats;
}

const advisor_bundle *advisor_client_curves(const advisor_client *client) { return &client->curves; }
