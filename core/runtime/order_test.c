/* Random programs over several streams, ordered by events only, against the same program run one
 * step after the other. Under ThreadSanitizer an ordering that the runtime failed to provide is a
 * race. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/stream.h"
#include "tn/op/copy.h"
#include "tn/op/pointwise.h"
#include "tn/op/sleep.h"

enum { STREAMS = 5, BLOCKS = 12, COUNT = 64, STEPS = 5000, PROGRAMS = 4 };

static tn_stream *streams[STREAMS];

/* A block, what it must hold, and the steps that a later user has to wait for. */
typedef struct cell {
    tn_block *block;
    float expected;
    tn_event *written;       /* by the last writer */
    tn_event *read[STREAMS]; /* by the last reader of each stream since then */
    bool was_read[STREAMS];
} cell;

static cell cells[BLOCKS];
static tn_block *ones;
static unsigned seed;

static unsigned roll(unsigned sides)
{
    return (unsigned)rand_r(&seed) % sides;
}

static tn_operand operand_of(tn_block *block)
{
    static const int64_t size = COUNT, stride = 1;
    return (tn_operand){.block = block, .sizes = &size, .strides = &stride, .ndim = 1,
                        .dtype = TN_FLOAT32};
}

static void launch(int op, tn_stream *stream, int outputs, int operands, tn_operand *list,
                   tn_scalar scalar)
{
    tn_launch_desc desc = {.op = (uint16_t)op,
                           .compute_dtype = TN_FLOAT32,
                           .num_outputs = (uint16_t)outputs,
                           .num_operands = (uint16_t)operands,
                           .operands = list,
                           .num_scalars = 1,
                           .scalars = &scalar,
                           .stream = stream};
    TN_CHECK_OK(tn_launch(&desc));
}

static void add_into(tn_stream *stream, tn_block *target, tn_block *source)
{
    tn_operand list[] = {operand_of(target), operand_of(target), operand_of(source)};
    launch(TN_OP_add, stream, 1, 3, list, (tn_scalar){.d = 1, .kind = TN_SCALAR_FLOAT});
}

static void zero(tn_stream *stream, tn_block *target)
{
    tn_operand list[] = {operand_of(target)};
    launch(TN_OP_fill, stream, 1, 1, list, (tn_scalar){.d = 0, .kind = TN_SCALAR_FLOAT});
}

static void nap(tn_stream *stream)
{
    launch(TN_OP_sleep, stream, 0, 0, NULL, (tn_scalar){.i = 100000, .kind = TN_SCALAR_INT});
}

static void before_read(tn_stream *stream, const cell *c)
{
    TN_CHECK_OK(tn_stream_wait_event(stream, c->written));
}

static void before_write(tn_stream *stream, const cell *c)
{
    TN_CHECK_OK(tn_stream_wait_event(stream, c->written));
    for (int i = 0; i < STREAMS; i++)
        if (c->was_read[i])
            TN_CHECK_OK(tn_stream_wait_event(stream, c->read[i]));
}

static void after_write(tn_stream *stream, cell *c)
{
    TN_CHECK_OK(tn_event_record(c->written, stream));
    memset(c->was_read, 0, sizeof c->was_read);
}

static void after_read(int stream, cell *c)
{
    TN_CHECK_OK(tn_event_record(c->read[stream], streams[stream]));
    c->was_read[stream] = true;
}

/* A new block for the cell, on any stream; the old one is freed while steps that use it are
 * queued. */
static void renew(int at, cell *c)
{
    for (int i = 0; i < STREAMS; i++)
        tn_block_record_stream(c->block, streams[i]);
    tn_block_free(c->block);
    TN_CHECK_OK(tn_block_alloc(0, COUNT * sizeof(float), streams[at], &c->block));
    memset(c->was_read, 0, sizeof c->was_read);
    zero(streams[at], c->block);
    after_write(streams[at], c);
    c->expected = 0;
}

static void step(void)
{
    int at = (int)roll(STREAMS);
    tn_stream *stream = streams[at];
    cell *target = &cells[roll(BLOCKS)], *source = &cells[roll(BLOCKS)];
    switch (roll(12)) {
    case 0:
        nap(stream);
        break;
    case 1:
        renew(at, target);
        break;
    case 2:
        before_write(stream, target);
        add_into(stream, target->block, ones);
        after_write(stream, target);
        target->expected += 1;
        break;
    case 3:
        TN_CHECK_OK(tn_event_wait(target->written, -1));
        TN_CHECK(((float *)target->block->data)[COUNT - 1] == target->expected);
        break;
    default:
        if (target == source || source->expected > 1e6f)
            break;
        before_write(stream, target);
        before_read(stream, source);
        add_into(stream, target->block, source->block);
        after_write(stream, target);
        after_read(at, source);
        target->expected += source->expected;
    }
}

static void check_all(void)
{
    TN_CHECK_OK(tn_device_wait(0, -1));
    int wrong = 0;
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < COUNT; k++)
            wrong += ((float *)cells[i].block->data)[k] != cells[i].expected;
    TN_CHECK_INT(wrong, 0);
}

static void prepare(void)
{
    for (int i = 0; i < STREAMS; i++)
        TN_CHECK_OK(tn_stream_create(0, -i, &streams[i]));
    TN_CHECK_OK(tn_block_alloc(0, COUNT * sizeof(float), streams[0], &ones));
    for (int k = 0; k < COUNT; k++)
        ((float *)ones->data)[k] = 1;
    for (int i = 0; i < BLOCKS; i++) {
        TN_CHECK_OK(tn_block_alloc(0, COUNT * sizeof(float), streams[0], &cells[i].block));
        zero(streams[0], cells[i].block);
        TN_CHECK_OK(tn_event_create(0, i % 2 == 0, &cells[i].written));
        for (int k = 0; k < STREAMS; k++)
            TN_CHECK_OK(tn_event_create(0, k % 2 == 0, &cells[i].read[k]));
        after_write(streams[0], &cells[i]);
    }
}

TN_CASE(random_programs)
{
    prepare();
    for (int program = 0; program < PROGRAMS; program++) {
        seed = 1234u + (unsigned)program;
        for (int i = 0; i < STEPS; i++)
            step();
        check_all();
        if (program % 2)
            tn_quiesce();
        TN_CHECK_OK(tn_memory_empty_cache(0));
    }
}

TN_CASES_END
