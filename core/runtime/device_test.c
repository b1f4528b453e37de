/* What depends on the environment or on the life of the process: each case in a child of its own,
 * made before anything is open. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cpu.h"
#include "prof/prof.h"
#include "runtime/limit.h"
#include "runtime/stream.h"
#include "tn/op/sleep.h"

/* Runs `body` in a child with the variables "A=1 B=2" set; its checks count here. */
static void in_child(const char *variables, void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        char copy[256];
        snprintf(copy, sizeof copy, "%s", variables);
        for (char *at = strtok(copy, " "); at; at = strtok(NULL, " "))
            putenv(strdup(at));
        tn_failed_checks = 0;
        body();
        exit(tn_failed_checks ? 1 : 0);
    }
    int status = -1;
    bool ok = waitpid(child, &status, 0) == child && status == 0;
    if (!ok)
        fprintf(stderr, "with %s: status %d\n", variables, status);
    TN_CHECK(ok);
}

static void no_devices(void)
{
    tn_block *block;
    TN_CHECK_INT(tn_device_count(), 0);
    TN_CHECK_INT(tn_init(), TN_ERROR_RUNTIME);
    TN_CHECK_INT(tn_block_alloc(0, 1, NULL, &block), TN_ERROR_RUNTIME);
    TN_CHECK(!tn_is_initialized());
}

static void one_device(void)
{
    TN_CHECK_INT(tn_device_count(), 1);
}

static void four_devices(void)
{
    tn_stream *stream, *again;
    tn_event *event;
    tn_block *block;
    TN_CHECK_INT(tn_device_count(), 4);
    TN_CHECK(!tn_is_initialized());
    TN_CHECK_OK(tn_stream_default(3, &stream));
    TN_CHECK(tn_is_initialized() && tn_stream_device(stream) == 3 && tn_stream_id(stream) == 0);
    TN_CHECK_OK(tn_stream_create(3, -1, &again));
    TN_CHECK(tn_stream_priority(again) == -1 && tn_stream_id(again) == 1);
    TN_CHECK_OK(tn_block_alloc(3, 100, NULL, &block));
    TN_CHECK(block->device == 3 && tn_block_find(block->data) == block);
    tn_block_free(block);
    TN_CHECK_OK(tn_event_create(2, false, &event));
    TN_CHECK_INT(tn_event_record(event, stream), TN_ERROR_RUNTIME);
    tn_event_destroy(event);
    size_t free_bytes, total;
    TN_CHECK_OK(tn_memory_info(0, &free_bytes, &total));
    TN_CHECK(total <= tn_host_memory() / 4 || total == (size_t)64 << 20);
}

TN_CASE(device_count)
{
    in_child("NEURON_RT_NUM_CORES=0", no_devices);
    in_child("NEURON_RT_NUM_CORES=none", no_devices);
    in_child("NEURON_RT_VISIBLE_CORES=3-1", no_devices);
    in_child("NEURON_RT_VISIBLE_CORES=1,", one_device);
    in_child("A=1", one_device);
    in_child("NEURON_RT_VISIBLE_CORES=5", one_device);
    in_child("NEURON_RT_NUM_CORES=4", four_devices);
    in_child("LOCAL_WORLD_SIZE=4", four_devices);
    in_child("LOCAL_WORLD_SIZE=4 NEURON_RT_NUM_CORES=1", one_device);
    in_child("NEURON_RT_VISIBLE_CORES=0,2,4-5 NEURON_RT_NUM_CORES=1", four_devices);
}

static void properties_trn3(void)
{
    tn_device_properties properties;
    TN_CHECK_OK(tn_device_get_properties(0, &properties));
    TN_CHECK(strcmp(properties.name, "trn3") == 0 && properties.major == 4);
    TN_CHECK(properties.modelled_memory == (uint64_t)18 << 30);
    TN_CHECK(properties.total_memory >= (uint64_t)64 << 20);
    TN_CHECK(properties.total_memory < tn_host_memory());
    TN_CHECK(properties.multi_processor_count == 3 && properties.physical_cores >= 1);
    TN_CHECK(properties.host_cpu[0] && properties.isa[0]);
    TN_CHECK_INT(tn_device_get_properties(1, &properties), TN_ERROR_DEVICE);
}

static void properties_default(void)
{
    tn_device_properties properties;
    TN_CHECK_OK(tn_device_get_properties(0, &properties));
    TN_CHECK(strcmp(properties.name, "trn2") == 0);
}

TN_CASE(properties)
{
    in_child("NEURON_PLATFORM_TARGET_OVERRIDE=trn3 TORCH_NEURONX_NUM_THREADS=3", properties_trn3);
    in_child("NEURON_PLATFORM_TARGET_OVERRIDE=Gen4 TORCH_NEURONX_NUM_THREADS=3", properties_trn3);
    in_child("NEURON_PLATFORM_TARGET_OVERRIDE=gen3", properties_default);
    in_child("NEURON_PLATFORM_TARGET_OVERRIDE=trn9", properties_default);
}

static void isa_baseline(void)
{
    TN_CHECK(strcmp(tn_isa_name(), "baseline") == 0);
}

static void isa_at_most_avx2(void)
{
    TN_CHECK(strcmp(tn_isa_name(), "avx2") == 0 || strcmp(tn_isa_name(), "baseline") == 0);
}

static void isa_of_cpu(void)
{
    const tn_cpu *cpu = tn_cpu_get();
    TN_CHECK(strcmp(tn_isa_name(), cpu->avx512 ? "avx512" : cpu->avx2 ? "avx2" : "baseline") == 0);
}

TN_CASE(instruction_set)
{
    in_child("TN_ISA=baseline", isa_baseline);
    in_child("TN_ISA=avx2", isa_at_most_avx2);
    in_child("TN_ISA=amx", isa_of_cpu);
    in_child("TN_ISA=nonsense", isa_of_cpu);
}

static tn_scalar cycles_of(double milliseconds)
{
    return (tn_scalar){.i = (int64_t)(milliseconds * 1.4e6), .kind = TN_SCALAR_INT};
}

static void blocking(void)
{
    tn_stream *stream;
    TN_CHECK_OK(tn_stream_default(0, &stream));
    TN_CHECK(tn_launch_blocking());
    tn_scalar cycles = cycles_of(3);
    tn_launch_desc launch = {.op = TN_OP_sleep, .stream = stream, .scalars = &cycles,
                             .num_scalars = 1, .compute_dtype = TN_DTYPE_NONE};
    TN_CHECK_OK(tn_launch(&launch));
    TN_CHECK(tn_stream_query(stream));
}

TN_CASE(launch_blocking)
{
    in_child("NEURON_LAUNCH_BLOCKING=1", blocking);
}

/* exit() with work queued, streams parked and tensors alive; the destructors of a host program
 * follow. */
static void exit_in_the_middle(void)
{
    tn_stream *streams[3];
    tn_event *event;
    tn_block *block;
    tn_scalar cycles = cycles_of(20);
    for (int i = 0; i < 3; i++)
        TN_CHECK_OK(tn_stream_create(0, 0, &streams[i]));
    TN_CHECK_OK(tn_event_create(0, true, &event));
    TN_CHECK_OK(tn_block_alloc(0, 1000, streams[0], &block));
    for (int i = 0; i < 2; i++) {
        tn_launch_desc launch = {.op = TN_OP_sleep, .stream = streams[i], .scalars = &cycles,
                                 .num_scalars = 1, .compute_dtype = TN_DTYPE_NONE};
        TN_CHECK_OK(tn_launch(&launch));
    }
    TN_CHECK_OK(tn_event_record(event, streams[0]));
    TN_CHECK_OK(tn_stream_wait_event(streams[2], event));
    atexit(tn_quiesce);
}

TN_CASE(exits)
{
    for (int i = 0; i < 5; i++)
        in_child("A=1", exit_in_the_middle);
}

/* The parent has not opened the runtime: the child may. */
static void use_device(void)
{
    tn_block *block;
    TN_CHECK(!tn_in_bad_fork());
    TN_CHECK_OK(tn_block_alloc(0, 1000, NULL, &block));
    memset(block->data, 1, 1000);
    tn_block_free(block);
}

TN_CASE(fork_before_use)
{
    in_child("A=1", use_device);
}

TN_CASES_END
