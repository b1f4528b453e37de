/* The byte ring of a stream. */
#include "runtime/queue.h"

#include <string.h>

#include "base/alloc.h"
#include "kernel/kernel.h"

#ifdef TN_HOSTILE
enum { RING_BYTES = 1 << 10 }; /* about one launch */
#else
enum { RING_BYTES = 512 << 10 }; /* about a thousand launches */
#endif
enum { ALIGNMENT = 64, STAGED_BYTES = RING_BYTES / 16 };

/* Estimated work in the queue beyond which the host waits: it need not run further ahead, and an
 * interrupt or the end of the process waits for what is queued. */
static const int64_t MOST_WORK_NS = 5000000000;

/* A sleep is no work: whoever asks for one wants to queue behind it. */
static int64_t work_of(const tn_cost *cost)
{
    return cost->bytes + cost->flops > 0 ? cost->host_ns : 0;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Finds room for `bytes` (aligned) at the tail, skipping the ring's end if the record would
 * wrap. */
static tn_push reserve(tn_queue *queue, size_t bytes, tn_record **out_record)
{
    if (bytes > RING_BYTES)
        return TN_PUSH_NEVER;
    if (!queue->ring) {
        if (!(queue->ring = tn_aligned_malloc(ALIGNMENT, RING_BYTES)))
            return TN_PUSH_NEVER;
        queue->bytes = RING_BYTES;
    }
    size_t at = queue->tail % RING_BYTES, to_end = RING_BYTES - at;
    size_t needed = bytes <= to_end ? bytes : to_end + bytes;
    if (queue->tail - queue->head + needed > RING_BYTES) {
        if (!tn_queue_is_empty(queue))
            return TN_PUSH_FULL;
        queue->head = queue->tail = 0; /* nothing queued: start over at the ring's beginning */
        at = 0;
    } else if (bytes > to_end) {
        tn_record *skip = (tn_record *)(queue->ring + at);
        skip->bytes = (uint32_t)to_end;
        skip->kind = TN_RECORD_SKIP;
        queue->tail += to_end;
        at = 0;
    }
    *out_record = (tn_record *)(queue->ring + at);
    (*out_record)->bytes = (uint32_t)bytes;
    queue->tail += bytes;
    return TN_PUSHED;
}

tn_push tn_queue_push(tn_queue *queue, const tn_record *from)
{
    tn_record *record;
    tn_push result = reserve(queue, aligned(sizeof *record), &record);
    if (result == TN_PUSHED) {
        uint32_t bytes = record->bytes;
        *record = *from;
        record->bytes = bytes;
    }
    return result;
}

static size_t staged_bytes(const tn_launch_desc *launch, const tn_operand *operand)
{
    if (!(launch->flags & TN_LAUNCH_COMPLETE_HOST) || !(operand->flags & TN_OPERAND_HOST))
        return 0;
    return (size_t)tn_operand_numel(operand) * tn_dtype_size((tn_dtype)operand->dtype);
}

bool tn_queue_can_stage(const tn_launch_desc *launch)
{
    size_t bytes = 0;
    for (int i = 0; i < launch->num_operands; i++) {
        const tn_operand *operand = &launch->operands[i];
        if (!(operand->flags & TN_OPERAND_HOST))
            continue;
        if (i < launch->num_outputs || !tn_operand_is_contiguous(operand))
            return false;
        bytes += aligned(staged_bytes(launch, operand));
    }
    return bytes <= STAGED_BYTES;
}

tn_push tn_queue_push_launch(tn_queue *queue, const tn_launch_desc *launch, const tn_cost *cost,
                             uint32_t source_line, uint64_t position)
{
    size_t dims = 0, staged = 0;
    for (int i = 0; i < launch->num_operands; i++) {
        dims += (size_t)launch->operands[i].ndim;
        staged += aligned(staged_bytes(launch, &launch->operands[i]));
    }
    size_t operand_bytes = launch->num_operands * sizeof(tn_operand);
    size_t scalar_bytes = launch->num_scalars * sizeof(tn_scalar);
    tn_record *record;
    if (queue->work_ns + work_of(cost) > MOST_WORK_NS && queue->work_ns > 0)
        return TN_PUSH_FULL;
    tn_push result = reserve(
        queue,
        aligned(sizeof *record + operand_bytes + scalar_bytes + 2 * dims * sizeof(int64_t)) + staged,
        &record);
    if (result != TN_PUSHED)
        return result;
    tn_operand *operands = (tn_operand *)(record + 1);
    tn_scalar *scalars = (tn_scalar *)((char *)operands + operand_bytes);
    int64_t *free_dims = (int64_t *)((char *)scalars + scalar_bytes);
    char *stage = (char *)record + record->bytes - staged;
    queue->work_ns += work_of(cost);
    record->kind = TN_RECORD_LAUNCH;
    record->position = position;
    record->cost = *cost;
    record->source_line = source_line;
    record->launch = *launch;
    record->launch.operands = operands;
    record->launch.scalars = scalars;
    if (scalar_bytes)
        memcpy(scalars, launch->scalars, scalar_bytes);
    for (int i = 0; i < launch->num_operands; i++) {
        const tn_operand *from = &launch->operands[i];
        size_t ndim = (size_t)from->ndim;
        operands[i] = *from;
        operands[i].sizes = free_dims;
        operands[i].strides = free_dims + ndim;
        for (size_t d = 0; d < ndim; d++) {
            free_dims[d] = from->sizes[d];
            free_dims[ndim + d] = from->strides[d];
        }
        free_dims += 2 * ndim;
        size_t bytes = staged_bytes(launch, from);
        if (bytes > 0) {
            operands[i].data = memcpy(stage, from->data, bytes);
            stage += aligned(bytes);
        }
    }
    return TN_PUSHED;
}

tn_record *tn_queue_front(tn_queue *queue)
{
    tn_record *record = (tn_record *)(queue->ring + queue->head % RING_BYTES);
    if (record->kind != TN_RECORD_SKIP)
        return record;
    queue->head += record->bytes;
    return (tn_record *)queue->ring;
}

void tn_queue_pop(tn_queue *queue, const tn_record *front)
{
    if (front->kind == TN_RECORD_LAUNCH)
        queue->work_ns -= work_of(&front->cost);
    queue->head += front->bytes;
}
