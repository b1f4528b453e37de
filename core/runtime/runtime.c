/* First slice: one device, one stream, everything inline. */
#include <stdlib.h>

#include "base/pool.h"
#include "kernel/kernel.h"
#include "tn/prof.h"

struct tn_stream {
    int device;
    uint64_t sequence;
};
static struct tn_stream default_stream;
static uint64_t launches[TN_OP_COUNT];

int tn_device_count(void) { return 1; }
tn_status tn_init(void) { return TN_OK; }
bool tn_is_initialized(void) { return true; }
bool tn_in_bad_fork(void) { return false; }
void tn_quiesce(void) {}
void tn_set_num_threads(int count) { tn_pool_set_size(count); }
int tn_num_threads(void) { return tn_pool_size(); }

tn_status tn_block_alloc(int device, size_t bytes, tn_stream *stream, tn_block **out_block)
{
    (void)stream;
    tn_block *block = calloc(1, sizeof *block);
    if (block)
        block->data = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!block || !block->data) {
        free(block);
        return tn_fail(TN_ERROR_OUT_OF_MEMORY, "out of memory: tried to allocate %zu bytes", bytes);
    }
    block->bytes = bytes;
    block->device = device;
    *out_block = block;
    return TN_OK;
}

void tn_block_free(tn_block *block)
{
    free(block->data);
    free(block);
}

tn_status tn_stream_default(int device, tn_stream **out_stream)
{
    (void)device;
    *out_stream = &default_stream;
    return TN_OK;
}

tn_status tn_launch(const tn_launch_desc *launch)
{
    for (int i = 0; i < launch->num_operands; i++) {
        tn_operand *operand = &launch->operands[i];
        if (operand->block) {
            operand->data = (char *)operand->block->data + operand->offset_bytes;
            operand->generation = operand->block->generation;
        }
    }
    for (int i = 0; i < launch->num_outputs; i++)
        if (launch->operands[i].block)
            launch->operands[i].block->generation++;
    launches[launch->op]++;
    return tn_kernel_of(launch->op)(launch);
}

tn_block *tn_block_find(const void *pointer) { (void)pointer; return NULL; }
void tn_block_touch(tn_block *block) { block->generation++; }
void tn_block_record_stream(tn_block *block, tn_stream *stream) { (void)block; (void)stream; }
tn_status tn_memory_empty_cache(int device) { (void)device; return TN_OK; }
tn_status tn_memory_info(int device, size_t *out_free, size_t *out_total) { (void)device; *out_free = *out_total = 1; return TN_OK; }
tn_status tn_memory_get_stats(int device, tn_memory_stats *out_stats) { (void)device; *out_stats = (tn_memory_stats){0}; return TN_OK; }
void tn_memory_reset_peak(int device) { (void)device; }
void tn_memory_reset_accumulated(int device) { (void)device; }
tn_status tn_stream_create(int device, int priority, tn_stream **out) { (void)priority; return tn_stream_default(device, out); }
tn_status tn_stream_from_id(int device, int64_t id, tn_stream **out) { (void)id; return tn_stream_default(device, out); }
int64_t tn_stream_id(const tn_stream *stream) { (void)stream; return 0; }
int tn_stream_device(const tn_stream *stream) { (void)stream; return 0; }
bool tn_stream_query(tn_stream *stream) { (void)stream; return true; }
tn_status tn_stream_wait(tn_stream *stream, int64_t timeout) { (void)stream; (void)timeout; return TN_OK; }
tn_status tn_device_wait(int device, int64_t timeout) { (void)device; (void)timeout; return TN_OK; }
tn_status tn_event_create(int device, bool timing, tn_event **out) { (void)device; (void)timing; *out = NULL; return TN_OK; }
void tn_event_destroy(tn_event *event) { (void)event; }
tn_status tn_event_record(tn_event *event, tn_stream *stream) { (void)event; (void)stream; return TN_OK; }
tn_status tn_stream_wait_event(tn_stream *stream, tn_event *event) { (void)event; (void)stream; return TN_OK; }
bool tn_event_query(const tn_event *event) { (void)event; return true; }
tn_status tn_event_wait(tn_event *event, int64_t timeout) { (void)event; (void)timeout; return TN_OK; }
tn_status tn_event_elapsed_ms(const tn_event *start, const tn_event *end, double *out) { (void)start; (void)end; *out = 0; return TN_OK; }
void tn_prof_set_source_hook(tn_source_hook hook) { (void)hook; }
bool tn_op_supports(int op, tn_dtype compute_dtype) { (void)op; return compute_dtype == TN_FLOAT32; }
