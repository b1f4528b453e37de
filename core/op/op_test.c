/* Names and costs. */
#include <stdlib.h>

#include "base/check.h"
#include "op/op.h"
#include "tn/op.h"

enum { MOST_OPERANDS = 4 };

static tn_cost cost_of(int op, int outputs, int operands, const int64_t shapes[][2])
{
    tn_operand list[MOST_OPERANDS];
    for (int i = 0; i < operands; i++)
        list[i] = (tn_operand){.sizes = shapes[i], .ndim = 2, .dtype = TN_FLOAT32};
    tn_launch_desc launch = {.op = (uint16_t)op,
                             .num_outputs = (uint16_t)outputs,
                             .num_operands = (uint16_t)operands,
                             .operands = list,
                             .compute_dtype = TN_FLOAT32};
    return tn_op_cost(&launch);
}

TN_CASE(names)
{
    TN_CHECK_INT(tn_op_count(), TN_OP_COUNT);
    TN_CHECK(strcmp(tn_op_name(TN_OP_add), "add") == 0);
    TN_CHECK(strcmp(tn_op_aten_name(TN_OP_add), "aten::add.Tensor") == 0);
    TN_CHECK(strcmp(tn_op_aten_name(TN_OP_sleep), "neuron::sleep") == 0);
    TN_CHECK(strcmp(tn_op_name(TN_OP_COUNT), "unknown") == 0);
    TN_CHECK(strcmp(tn_op_aten_name(-1), "unknown") == 0);
    for (int i = 0; i < TN_OP_COUNT; i++)
        TN_CHECK(!strchr(tn_op_aten_name(i), ',') && strstr(tn_op_aten_name(i), "::"));
}

TN_CASE(pointwise_cost)
{
    const int64_t shapes[][2] = {{64, 32}, {64, 32}, {64, 1}};
    tn_cost cost = cost_of(TN_OP_add, 1, 3, shapes);
    TN_CHECK_INT(cost.bytes, (2048 + 2048 + 64) * 4);
    TN_CHECK_INT(cost.flops, 2 * 2048);
    TN_CHECK(cost.host_ns > 500 && cost.host_ns < 50000);
    const int64_t large[][2] = {{4096, 4096}, {4096, 4096}, {4096, 4096}};
    TN_CHECK(cost_of(TN_OP_add, 1, 3, large).host_ns > 1000000);
    const int64_t empty[][2] = {{0, 4096}, {0, 4096}, {1, 4096}};
    TN_CHECK_INT(cost_of(TN_OP_add, 1, 3, empty).flops, 0);
}

TN_CASE(copies_move_bytes_only)
{
    const int64_t shapes[][2] = {{100, 10}, {100, 10}};
    tn_cost cost = cost_of(TN_OP_copy, 1, 2, shapes);
    TN_CHECK(cost.flops == 0 && cost.bytes == 8000 && cost.engine == TN_ENGINE_DMA);
}

TN_CASE(immediates_have_no_memory)
{
    tn_operand list[] = {
        {.sizes = (int64_t[]){10}, .ndim = 1, .dtype = TN_FLOAT32},
        {.sizes = (int64_t[]){10}, .ndim = 1, .dtype = TN_FLOAT32},
        {.flags = TN_OPERAND_IMMEDIATE, .dtype = TN_FLOAT64},
    };
    tn_launch_desc launch = {.op = TN_OP_mul, .num_outputs = 1, .num_operands = 3,
                             .operands = list};
    TN_CHECK_INT(tn_op_cost(&launch).bytes, 80);
}

TN_CASES_END
