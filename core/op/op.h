/* What is known of each op besides its kernel: its names and its cost. */
#ifndef TN_OP_OP_H
#define TN_OP_OP_H

#include "prof/prof.h"
#include "tn/runtime.h"

/* Operands without memory. */
enum { TN_OPERAND_NO_DATA = TN_OPERAND_IMMEDIATE | TN_OPERAND_ABSENT };

/* torch.neuron._sleep counts cycles of this clock. */
#define TN_SLEEP_CYCLES_PER_NS 1.4

/* The work of one launch, from the cost column of ops.def and the operands' shapes. */
typedef struct tn_cost {
    uint64_t bytes; /* operand bytes read and written, each broadcast operand counted once */
    uint64_t flops;
    int64_t host_ns; /* rough time on one host core: what decides between inline and queue */
    tn_engine engine;
} tn_cost;

tn_cost tn_op_cost(const tn_launch_desc *launch);

#endif
