/* Scaled dot-product attention: softmax(scale q k' + mask) v, and its gradients.
 *
 * Never holds the matrix of scores: blocks of it pass through the cache (Dao et al. 2022, "FlashAttention";
 * Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"). */
#include "kernel/attention.h"

static void describe(tn_attention *a, const tn_launch_desc *launch)
{
    a->q = tn_input(launch, 0);
    a->k = tn_input(launch, 1);
    a->v = tn_input(launch, 2);
    a->mask = tn_input(launch, 3)->flags & TN_OPERAND_ABSENT ? NULL : tn_input(launch, 3);
    a->batch = a->q->sizes[0];
    a->heads = a->q->sizes[1];
    a->groups = a->k->sizes[1];
    a->queries = a->q->sizes[2];
    a->keys = a->k->sizes[2];
    a->size = a->q->sizes[3];
    a->value_size = a->v->sizes[3];
    a->scale = tn_scalar_as_double(launch->scalars[0]);
    a->causal = launch->scalars[1].i != 0;
    a->dropout = tn_scalar_as_double(launch->scalars[2]);
    a->seed = launch->rng_seed;
    a->offset = launch->rng_offset;
}

tn_status TN_KERNEL(attention)(const tn_launch_desc *launch)
{
    tn_attention a = {.out = tn_output(launch, 0), .lse = tn_output(launch, 1)};
    describe(&a, launch);
    *(uint64_t *)tn_output(launch, 2)->data = a.seed;
    *(uint64_t *)tn_output(launch, 3)->data = a.offset;
    return a.q->dtype == TN_FLOAT64 ? tn_attention_forward_double(&a)
                                    : tn_attention_forward_float(&a);
}

tn_status TN_KERNEL(attention_backward)(const tn_launch_desc *launch)
{
    tn_attention a = {.dq = tn_output(launch, 0), .dk = tn_output(launch, 1),
                      .dv = tn_output(launch, 2), .grad = tn_input(launch, 4),
                      .out = tn_input(launch, 5), .lse = tn_input(launch, 6)};
    describe(&a, launch);
    if (a.dropout > 0) {
        a.seed = *(const uint64_t *)tn_input(launch, 7)->data;
        a.offset = *(const uint64_t *)tn_input(launch, 8)->data;
    }
    return a.q->dtype == TN_FLOAT64 ? tn_attention_backward_double(&a)
                                    : tn_attention_backward_float(&a);
}
