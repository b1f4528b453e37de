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
