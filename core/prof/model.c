/* The time model of one eager op on the selected chip: a table of constants, and one formula.
 *
 * Each constant says where it comes from: "published" is printed in the vendor's public documents
 * for one core or for a chip of eight; "derived" is arithmetic on published figures; "assumption"
 * has no source and may be edited. */
#include "prof/prof.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const tn_model models[] = {
    {
        .name = "trn2",
        .generation = "gen3",
        .major = 3,
        .memory_bytes = (uint64_t)12 << 30, /* derived: 96 GiB per chip (published) / 8 cores */
        .memory_bytes_per_ns = 362.5, /* derived: 2.9 TB/s per chip (published) / 8; the DMA of a
                                         core moves 368 GB/s (published) */
        .tensor_flops_per_ns_16bit = 78643, /* published: 79 TFLOPS; 128*128*2 flop * 2.4 GHz */
        .tensor_flops_per_ns_32bit = 19661, /* published: 20 TFLOPS; four passes */
        .vector_ops_per_ns_16bit = 491.5,   /* published: 512 elements per cycle at 0.96 GHz */
        .vector_ops_per_ns_32bit = 122.9,   /* published: 128 lanes at 0.96 GHz */
        .start_ns = 2030, /* derived from published traces: 920 ns to first data of a load, 810 ns
                             of a store, 300 ns to its completion signal */
    },
    {
        .name = "trn3",
        .generation = "gen4",
        .major = 4,
        .memory_bytes = (uint64_t)18 << 30, /* derived: 144 GiB per chip (published) / 8 cores */
        .memory_bytes_per_ns = 528, /* published: usable DMA of a core; its share of the chip's HBM,
                                       4.9 TB/s / 8 = 612 GB/s, is more */
        .tensor_flops_per_ns_16bit = 78643, /* published: 79 TFLOPS */
        .tensor_flops_per_ns_32bit = 19661, /* published: 20 TFLOPS */
        .vector_ops_per_ns_16bit = 614.4,   /* published: 512 elements per cycle at 1.2 GHz */
        .vector_ops_per_ns_32bit = 153.6,   /* published: 128 lanes at 1.2 GHz */
        .start_ns = 1630, /* assumption: load 730 ns, store 600 ns, completion 300 ns, as the
                             faster descriptor path of trn2 */
    },
};

static const tn_model *selected = &models[0];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void select_model(void)
{
    const char *name = getenv("NEURON_PLATFORM_TARGET_OVERRIDE");
    for (size_t i = 0; name && i < sizeof models / sizeof *models; i++)
        if (strcasecmp(name, models[i].name) == 0 || strcasecmp(name, models[i].generation) == 0)
            selected = &models[i];
}

const tn_model *tn_model_get(void)
{
    pthread_once(&once, select_model);
    return selected;
}

int64_t tn_model_ns(const tn_model *model, tn_engine engine, uint64_t bytes, uint64_t flops,
                    unsigned dtype)
{
    bool narrow = tn_dtype_size((tn_dtype)dtype) <= 2;
    double rate = narrow ? model->vector_ops_per_ns_16bit : model->vector_ops_per_ns_32bit;
    if (engine == TN_ENGINE_TENSOR)
        rate = narrow ? model->tensor_flops_per_ns_16bit : model->tensor_flops_per_ns_32bit;
    double moving = (double)bytes / model->memory_bytes_per_ns;
    double computing = engine == TN_ENGINE_DMA ? 0 : (double)flops / rate;
    return (int64_t)(model->start_ns + (moving > computing ? moving : computing));
}
