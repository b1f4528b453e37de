/* tn_launch: runs an op at once on the calling thread, or queues it.
 *
 * At once: the stream is idle and the op is estimated to take less than a wake-up of an executor.
 * The path costs two short critical sections of the stream's lock, two readings of the clock and
 * one record in the event ring. */
#include "base/clock.h"
#include "kernel/kernel.h"
#include "prof/prof.h"
#include "runtime/stream.h"
#include "tn/op.h"

/* About what it takes to wake a sleeping thread. */
enum { INLINE_LIMIT_NS = 50000 };
/* A call that waits comes back this often. */
enum { LONGEST_WAIT_NS = 100000000 };

/* Fills in data pointers and generations. The bytes behind a pointer stay right however long the
 * launch is queued: a freed block is handed out only to launches queued behind this one. */
static void resolve(const tn_launch_desc *launch)
{
    for (int i = 0; i < launch->num_operands; i++) {
        tn_operand *operand = &launch->operands[i];
        tn_block *block = operand->block;
        if (!block)
            continue;
        operand->data = (char *)block->data + operand->offset_bytes;
        operand->generation = i < launch->num_outputs
                                  ? __atomic_add_fetch(&block->generation, 1, __ATOMIC_RELAXED)
                                  : __atomic_load_n(&block->generation, __ATOMIC_RELAXED);
    }
}

static unsigned dtype_of(const tn_launch_desc *launch)
{
    if (launch->compute_dtype != TN_DTYPE_NONE || launch->num_operands == 0)
        return launch->compute_dtype;
    int first = launch->num_operands > launch->num_outputs ? launch->num_outputs : 0;
    return launch->operands[first].dtype;
}

void tn_launch_record(const tn_stream *stream, const tn_launch_desc *launch, const tn_cost *cost,
                      uint64_t position, uint64_t start_ticks, uint32_t source_line)
{
    tn_prof_event event = {.sequence = position,
                           .start_ticks = start_ticks,
                           .end_ticks = tn_ticks(),
                           .bytes = cost->bytes,
                           .flops = cost->flops,
                           .source_line = source_line,
                           .stream_id = (uint32_t)stream->id,
                           .op = launch->op,
                           .device = (uint8_t)stream->device,
                           .dtype = (uint8_t)dtype_of(launch),
                           .engine = (uint8_t)cost->engine};
    tn_prof_write(&event);
}

/* Only the data of an integer operand (an index, a divisor) can make a launch fail later. */
static bool may_fault(const tn_launch_desc *launch)
{
    for (int i = launch->num_outputs; i < launch->num_operands; i++)
        if (launch->operands[i].dtype <= TN_INT64)
            return true;
    return false;
}

/* Takes the token of a stream with nothing to do; 0 if it has something. */
static uint64_t begin_inline(tn_stream *stream, int op)
{
    uint64_t position = 0;
    tn_spin_lock(&stream->lock);
    if (tn_stream_is_free(stream) && !stream->parked) {
        stream->running = true;
        position = tn_stream_position(stream) + 1;
        atomic_store_explicit(&stream->position, position, memory_order_release);
        stream->launches[op]++;
    }
    tn_spin_unlock(&stream->lock);
    return position;
}

static tn_status run_inline(const tn_launch_desc *launch, const tn_cost *cost, uint64_t position)
{
    uint32_t line = tn_prof_is_tracing() ? tn_prof_source_line() : 0;
    uint64_t start = tn_ticks();
    tn_status status = tn_kernel_of(launch->op)(launch);
    tn_launch_record(launch->stream, launch, cost, position, start, line);
    tn_stream_finish_inline(launch->stream, position);
    return status;
}

/* Behind everything queued so far, on this thread. */
static tn_status run_after_wait(const tn_launch_desc *launch, const tn_cost *cost)
{
    tn_stream *stream = launch->stream;
    uint64_t position;
    do
        tn_stream_wait_for(stream, tn_stream_position(stream), TN_RUN_FOREVER);
    while (!(position = begin_inline(stream, launch->op)));
    tn_status status = run_inline(launch, cost, position);
    return status == TN_OK ? tn_stream_take_fault(stream) : status;
}

static tn_push try_push(const tn_launch_desc *launch, const tn_cost *cost, uint32_t line,
                        bool *out_submit)
{
    tn_stream *stream = launch->stream;
    tn_spin_lock(&stream->lock);
    uint64_t position = tn_stream_position(stream) + 1;
    tn_push result = tn_queue_push_launch(&stream->queue, launch, cost, line, position);
    if (result == TN_PUSHED) {
        atomic_store_explicit(&stream->position, position, memory_order_release);
        stream->launches[launch->op]++;
        *out_submit = tn_stream_needs_executor(stream);
    }
    tn_spin_unlock(&stream->lock);
    return result;
}

static tn_status enqueue(const tn_launch_desc *launch, const tn_cost *cost)
{
    /* The hook may want the interpreter's lock: never call it inside ours. */
    bool wants_line = tn_prof_is_tracing() || may_fault(launch);
    uint32_t line = wants_line ? tn_prof_source_line() : 0;
    for (;;) {
        bool submit = false;
        tn_push result = try_push(launch, cost, line, &submit);
        if (submit)
            tn_executor_submit(launch->stream);
        if (result == TN_PUSHED)
            return TN_OK;
        if (result == TN_PUSH_NEVER)
            return run_after_wait(launch, cost);
        tn_stream_make_room(launch->stream);
    }
}

/* A copy from or to pageable memory. A pending fault is delivered instead: this is a wait. */
static tn_status run_complete(const tn_launch_desc *launch, const tn_cost *cost)
{
    tn_stream *stream = launch->stream;
    int64_t deadline = tn_deadline(LONGEST_WAIT_NS);
    uint64_t position;
    while (!(position = begin_inline(stream, launch->op))) {
        if (tn_queue_can_stage(launch))
            return enqueue(launch, cost);
        tn_status status = tn_stream_wait_for(stream, tn_stream_position(stream), deadline);
        if (status == TN_OK)
            status = tn_stream_take_fault(stream);
        if (status != TN_OK)
            return status;
    }
    return run_inline(launch, cost, position);
}

tn_status tn_launch(const tn_launch_desc *launch)
{
    if (atomic_load_explicit(&tn_forked, memory_order_relaxed))
        return tn_fail_forked();
    resolve(launch);
    tn_cost cost = tn_op_cost(launch);
    if (launch->flags & TN_LAUNCH_COMPLETE_HOST)
        return run_complete(launch, &cost);
    if (tn_launch_blocking())
        return run_after_wait(launch, &cost);
    if (cost.host_ns <= INLINE_LIMIT_NS) {
        uint64_t position = begin_inline(launch->stream, launch->op);
        if (position)
            return run_inline(launch, &cost, position);
    }
    return enqueue(launch, &cost);
}

/* ---- counters ------------------------------------------------------------------------------- */

typedef void (*stream_visitor)(tn_stream *stream, int op, uint64_t *total);

static uint64_t visit_streams(stream_visitor visit, int op)
{
    uint64_t total = 0;
    if (atomic_load(&tn_forked))
        return 0;
    for (int d = 0; d < atomic_load(&tn_devices_open); d++)
        for (int i = 0; i < atomic_load(&tn_devices[d].stream_count); i++) {
            tn_stream *stream = tn_devices[d].streams[i];
            tn_spin_lock(&stream->lock);
            visit(stream, op, &total);
            tn_spin_unlock(&stream->lock);
        }
    return total;
}

static void add_launches(tn_stream *stream, int op, uint64_t *total)
{
    *total += stream->launches[op];
}

static void clear_launches(tn_stream *stream, int op, uint64_t *total)
{
    (void)op;
    (void)total;
    memset(stream->launches, 0, sizeof stream->launches);
}

uint64_t tn_op_launches(int op)
{
    return (unsigned)op < TN_OP_COUNT ? visit_streams(add_launches, op) : 0;
}

void tn_op_launches_reset(void)
{
    visit_streams(clear_launches, 0);
}
