/* The cost of a launch, and the ops' names: everything that ops.def says besides the kernel. */
#include "op/op.h"
#include "tn/op.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef enum cost_kind {
    KIND_POINTWISE, /* k operations per output element */
    KIND_REDUCE,    /* k operations per input element */
    KIND_MATMUL,
    KIND_CONV,
    KIND_ATTENTION,
    KIND_COPY, /* bytes only */
    KIND_SORT, /* n log n */
    KIND_SLEEP /* the first scalar says how long */
} cost_kind;

#define POINTWISE(k) KIND_POINTWISE, k
#define REDUCE(k) KIND_REDUCE, k
#define MATMUL KIND_MATMUL, 0
#define CONV KIND_CONV, 0
#define ATTENTION KIND_ATTENTION, 0
#define COPY KIND_COPY, 0
#define SORT KIND_SORT, 0
#define SLEEP KIND_SLEEP, 0

#define OP_ROW(name, kind, k, aten) {#name, aten, kind, k}
static const struct {
    const char *name;
    const char *aten;
    uint8_t kind;
    uint16_t factor;
} ops[TN_OP_COUNT] = {
#define EXPAND(...) OP_ROW(__VA_ARGS__)
#define OP(name, kernel, outputs, inputs, cost, aten, scalars) EXPAND(name, cost, aten),
#include "op/ops.def"
#undef OP
};

/* Rates of one plain host core, good to a factor of a few: only the order of magnitude matters. */
static const double host_bytes_per_ns = 10;
static const double host_vector_ops_per_ns = 4;
static const double host_matmul_flops_per_ns = 50;
static const double host_sort_steps_per_ns = 0.3;

static uint64_t numel(const tn_operand *operand)
{
    uint64_t count = 1;
    for (int d = 0; d < operand->ndim; d++)
        count *= (uint64_t)operand->sizes[d];
    return count;
}

/* A multiply-add per output element and element of the first factor's last dimension. */
static uint64_t matmul_flops(const tn_launch_desc *launch, uint64_t outputs)
{
    const tn_operand *a = &launch->operands[launch->num_outputs];
    return a->ndim == 0 ? 2 * outputs : 2 * outputs * (uint64_t)a->sizes[a->ndim - 1];
}

/* Per output element the filter of one output channel. */
static uint64_t conv_flops(const tn_launch_desc *launch, uint64_t outputs)
{
    if (launch->num_operands < launch->num_outputs + 2)
        return outputs;
    const tn_operand *filter = &launch->operands[launch->num_outputs + 1];
    if (filter->ndim == 0 || filter->sizes[0] <= 0)
        return outputs;
    return 2 * outputs * (numel(filter) / (uint64_t)filter->sizes[0]);
}

/* Two products of [Sq,D] with [Sk,D] per head. */
static uint64_t attention_flops(const tn_launch_desc *launch)
{
    if (launch->num_operands < launch->num_outputs + 2)
        return 0;
    const tn_operand *query = &launch->operands[launch->num_outputs], *key = query + 1;
    uint64_t keys = key->ndim >= 2 ? (uint64_t)key->sizes[key->ndim - 2] : 1;
    return 4 * numel(query) * keys;
}

static uint64_t sort_steps(uint64_t count)
{
    return count * (uint64_t)(64 - __builtin_clzll(count | 1));
}

tn_cost tn_op_cost(const tn_launch_desc *launch)
{
    uint64_t bytes = 0, inputs = 0, outputs = 0;
    for (int i = 0; i < launch->num_operands; i++) {
        const tn_operand *operand = &launch->operands[i];
        if (operand->flags & TN_OPERAND_NO_DATA)
            continue;
        uint64_t count = numel(operand);
        bytes += count * tn_dtype_size((tn_dtype)operand->dtype);
        if (i < launch->num_outputs)
            outputs += count;
        else
            inputs += count;
    }
    unsigned factor = ops[launch->op].factor;
    tn_cost cost = {.bytes = bytes, .engine = TN_ENGINE_VECTOR};
    double rate = host_vector_ops_per_ns;
    switch ((cost_kind)ops[launch->op].kind) {
    case KIND_POINTWISE:
        cost.flops = outputs * factor;
        break;
    case KIND_REDUCE:
        cost.flops = inputs * factor;
        break;
    case KIND_MATMUL:
        cost.flops = matmul_flops(launch, outputs);
        cost.engine = TN_ENGINE_TENSOR;
        rate = host_matmul_flops_per_ns;
        break;
    case KIND_CONV:
        cost.flops = conv_flops(launch, outputs);
        cost.engine = TN_ENGINE_TENSOR;
        rate = host_matmul_flops_per_ns;
        break;
    case KIND_ATTENTION:
        cost.flops = attention_flops(launch);
        cost.engine = TN_ENGINE_TENSOR;
        rate = host_matmul_flops_per_ns;
        break;
    case KIND_COPY:
        cost.engine = TN_ENGINE_DMA;
        break;
    case KIND_SORT:
        cost.flops = sort_steps(inputs);
        rate = host_sort_steps_per_ns;
        break;
    case KIND_SLEEP:
        cost.host_ns = (int64_t)(tn_scalar_as_double(launch->scalars[0]) / TN_SLEEP_CYCLES_PER_NS);
        return cost;
    }
    cost.host_ns = (int64_t)((double)bytes / host_bytes_per_ns + (double)cost.flops / rate);
    return cost;
}

int tn_op_count(void)
{
    return TN_OP_COUNT;
}

const char *tn_op_name(int op)
{
    return (unsigned)op < TN_OP_COUNT ? ops[op].name : "unknown";
}

/* The first overload of the aten column; an op that serves none is the device's own. */
static char aten_names[TN_OP_COUNT][64];
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static void build_names(void)
{
    for (int i = 0; i < TN_OP_COUNT; i++) {
        int length = (int)strcspn(ops[i].aten, ",");
        if (length > 0)
            snprintf(aten_names[i], sizeof aten_names[i], "aten::%.*s", length, ops[i].aten);
        else
            snprintf(aten_names[i], sizeof aten_names[i], "neuron::%s", ops[i].name);
    }
}

const char *tn_op_aten_name(int op)
{
    pthread_once(&names_once, build_names);
    return (unsigned)op < TN_OP_COUNT ? aten_names[op] : "unknown";
}
