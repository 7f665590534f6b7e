/* Advisor for S-Net's stream runtime, while it runs: what its threading layer (LPEL) tells by monitoring callbacks becomes rows of
 * the C client. Each run of a box is a row with the size of its record, whether that entered the network with it, and the replica
 * of its split, as `advisor learn --from snet` reads them from logs. See README.md for the few lines that hook it in.
 *
 * Callbacks may come from any thread; none waits for the service. A thread of its own talks to it.
 * Licence: Apache-2.0, as the project's.
 */
#ifndef ADVISOR_SNET_H
#define ADVISOR_SNET_H

#include "advisor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mon_task_t;   /* the names that the threading layer has for what its monitor keeps */
struct mon_stream_t;

typedef struct advisor_snet_options {
    const char *socket;      /* of the service */
    const char *network;     /* that the rows name */
    const char *definition;  /* its S-Net text, or NULL where the service knows it */
    uint32_t records_max;    /* on their way at a time, 0: 65536; of more, those that come later are not followed */
    int64_t (*clock_ns)(void); /* NULL: the system's monotonic clock */
    advisor_advised on_advice; /* may be NULL; gets what a watch advises, on the thread that talks to the service */
    void *context;
    uint32_t watch_cores;    /* nonzero: watch the network on so many cores */
} advisor_snet_options;

/* Begin: ADVISOR_OK, or an error. One network a process. */
int advisor_snet_begin(const advisor_snet_options *options);

/* Send what is held, for so long at most, and end; nonzero when all was acknowledged. Nothing else may be called meanwhile. */
int advisor_snet_end(int timeout_ms);

/* What the threading layer's monitor keeps of a task. `place` is the entity as text, "<way> <name>": ":S1:P0 blur". */
struct mon_task_t *advisor_snet_task(const char *place);

/* A record that a task takes in, or gives out: its two numbers, and its bytes. */
void advisor_snet_record(struct mon_task_t *task, int taken, uint32_t node, uint32_t number, size_t bytes);

/* The callbacks, as the threading layer declares them. */
void advisor_snet_task_destroy(struct mon_task_t *task);
void advisor_snet_task_start(struct mon_task_t *task);
void advisor_snet_task_stop(struct mon_task_t *task, char state);
struct mon_stream_t *advisor_snet_stream_open(struct mon_task_t *task, unsigned int stream, char mode);
void advisor_snet_stream_close(struct mon_stream_t *stream);
void advisor_snet_stream_blockon(struct mon_stream_t *stream);

advisor_stats advisor_snet_stats(void);

#ifdef __cplusplus
}
#endif
#endif
