/* The queue of one stream: a byte ring of records, each contiguous in memory and never moved, so
 * that a record may point into itself. Pushing needs the stream's lock, popping its token. */
#ifndef TN_RUNTIME_QUEUE_H
#define TN_RUNTIME_QUEUE_H

#include "op/op.h"

typedef enum tn_record_kind {
    TN_RECORD_LAUNCH,
    TN_RECORD_EVENT, /* an event reads the clock */
    TN_RECORD_WAIT,  /* for a position of another stream */
    TN_RECORD_SKIP   /* the rest of the ring, up to its end */
} tn_record_kind;

typedef struct tn_record {
    uint32_t bytes; /* of the whole record */
    uint32_t kind;
    uint64_t position; /* in the stream */
    union {
        tn_event *event;
        struct {
            tn_stream *source;
            uint64_t source_position;
        };
        struct {
            tn_launch_desc launch; /* operands, sizes and scalars follow the record */
            tn_cost cost;
            uint32_t source_line;
        };
    };
} tn_record;

typedef struct tn_queue {
    char *ring; /* NULL until the first push */
    size_t bytes;
    uint64_t head, tail; /* running byte offsets */
    int64_t work_ns;     /* estimated, of the launches queued */
} tn_queue;

static inline bool tn_queue_is_empty(const tn_queue *queue)
{
    return queue->head == queue->tail;
}

/* Whether the host operands of a launch are small and plain enough to travel in the queue. */
bool tn_queue_can_stage(const tn_launch_desc *launch);

/* Outcome of a push: the queue may be full for now, or unable to take such a record at all. */
typedef enum tn_push { TN_PUSHED, TN_PUSH_FULL, TN_PUSH_NEVER } tn_push;

/* With TN_LAUNCH_COMPLETE_HOST the bytes of host operands are copied too. */
tn_push tn_queue_push_launch(tn_queue *queue, const tn_launch_desc *launch, const tn_cost *cost,
                             uint32_t source_line, uint64_t position);
tn_push tn_queue_push(tn_queue *queue, const tn_record *record); /* EVENT or WAIT */

/* The oldest record; the queue is not empty. */
tn_record *tn_queue_front(tn_queue *queue);
void tn_queue_pop(tn_queue *queue, const tn_record *front);

#endif
