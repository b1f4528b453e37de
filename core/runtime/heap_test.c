/* The allocator. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/thread.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "tn/op/sleep.h"

static tn_memory_stats stats(void)
{
    tn_memory_stats result;
    TN_CHECK_OK(tn_memory_get_stats(0, &result));
    return result;
}

TN_CASE(size_classes)
{
    unsigned previous_class = 0, size_class;
    size_t previous = 0;
    for (size_t bytes = 1; bytes <= TN_CLASS_LIMIT_BYTES; bytes += bytes / 37 + 1) {
        size_t size = tn_size_class(bytes, &size_class);
        TN_CHECK(size >= bytes && size % TN_UNIT_BYTES == 0 && size_class < TN_QUICK_CLASSES);
        TN_CHECK(size >= previous && size_class >= previous_class);
        TN_CHECK(bytes < 4096 || size - bytes <= bytes / 16);
        TN_CHECK(tn_size_class(size, &size_class) == size);
        previous = size;
        previous_class = size_class;
    }
    TN_CHECK_INT(tn_size_class(1, &size_class), 256);
    TN_CHECK_INT(tn_size_class((16 << 20) + 1, &size_class), (16 << 20) + (64 << 10));
}

TN_CASE(reuse_and_generation)
{
    tn_block *a, *b;
    TN_CHECK_OK(tn_block_alloc(0, 1000, NULL, &a));
    TN_CHECK(a->bytes == 1000 && a->device == 0 && (uintptr_t)a->data % 256 == 0);
    uint64_t generation = a->generation;
    void *data = a->data;
    TN_CHECK(tn_block_find((char *)data + 999) == a);
    tn_block_free(a);
    TN_CHECK(tn_block_find(data) == NULL);
    TN_CHECK_OK(tn_block_alloc(0, 1020, NULL, &b));
    TN_CHECK(b == a && b->data == data && b->generation > generation);
    tn_block_free(b);
    TN_CHECK_INT(stats().allocated_bytes[TN_POOL_ALL].current, 0);
}

enum { BLOCKS = 500 };

static size_t random_size(unsigned *seed)
{
    int kind = rand_r(seed) % 10;
    size_t r = (size_t)rand_r(seed);
    return kind < 7 ? 1 + r % 5000 : kind < 9 ? 1 + r % (3 << 20) : 1 + r % (24 << 20);
}

static void fill_ends(const tn_block *block, int tag)
{
    memset(block->data, tag, block->bytes < 64 ? block->bytes : 64);
    ((char *)block->data)[block->bytes - 1] = (char)tag;
}

static bool ends_hold(const tn_block *block, int tag)
{
    const char *data = block->data;
    return data[0] == (char)tag && data[block->bytes - 1] == (char)tag;
}

TN_CASE(blocks_never_overlap)
{
    static tn_block *blocks[BLOCKS];
    unsigned seed = 7;
    int wrong = 0;
    for (int round = 0; round < 20000; round++) {
        int i = rand_r(&seed) % BLOCKS;
        if (blocks[i]) {
            wrong += !ends_hold(blocks[i], i);
            wrong += tn_block_find((char *)blocks[i]->data + blocks[i]->bytes / 2) != blocks[i];
            tn_block_free(blocks[i]);
            blocks[i] = NULL;
        } else if (tn_block_alloc(0, random_size(&seed), NULL, &blocks[i]) == TN_OK) {
            fill_ends(blocks[i], i);
        }
        if (round % 5000 == 4999)
            TN_CHECK_OK(tn_memory_empty_cache(0));
    }
    TN_CHECK_INT(wrong, 0);
    for (int i = 0; i < BLOCKS; i++)
        tn_block_free(blocks[i]);
    TN_CHECK_INT(stats().allocated_bytes[TN_POOL_ALL].current, 0);
    TN_CHECK_INT(stats().requested_bytes[TN_POOL_ALL].current, 0);
    TN_CHECK_INT(stats().active[TN_POOL_ALL].current, 0);
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_INT(stats().reserved_bytes[TN_POOL_ALL].current, 0);
    TN_CHECK_INT(stats().segment[TN_POOL_ALL].current, 0);
    TN_CHECK_INT(stats().inactive_split[TN_POOL_ALL].current, 0);
    TN_CHECK_INT(stats().inactive_split_bytes[TN_POOL_ALL].current, 0);
}

/* ---- limits --------------------------------------------------------------------------------- */

TN_CASE(out_of_memory_then_recovery)
{
    size_t free_bytes, total;
    tn_block *held[3], *too_large;
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_OK(tn_memory_info(0, &free_bytes, &total));
    TN_CHECK(free_bytes == total && total >= (size_t)64 << 20);
    TN_CHECK_OK(tn_memory_set_fraction(0, 0x3000000 / (double)total)); /* 48 MiB */
    for (int i = 0; i < 2; i++)
        TN_CHECK_OK(tn_block_alloc(0, 20 << 20, NULL, &held[i]));
    int64_t retries = stats().num_alloc_retries, ooms = stats().num_ooms;
    tn_memory_stats before = stats();
    TN_CHECK_INT(tn_block_alloc(0, 20 << 20, NULL, &too_large), TN_ERROR_OUT_OF_MEMORY);
    const char *message = tn_last_error()->message;
    TN_CHECK(strstr(message, "Tried to allocate 20.00 MiB") && strstr(message, "neuron:0"));
    TN_CHECK(strstr(message, "40.00 MiB is allocated"));
    TN_CHECK_INT(stats().num_alloc_retries, retries + 1);
    TN_CHECK_INT(stats().num_ooms, ooms + 1);
    TN_CHECK_INT(stats().allocated_bytes[0].current, before.allocated_bytes[0].current);
    TN_CHECK_INT(stats().reserved_bytes[0].current, before.reserved_bytes[0].current);
    /* Freed but cached in pieces that do not fit: the flush makes room. */
    tn_block_free(held[0]);
    tn_block_free(held[1]);
    TN_CHECK_OK(tn_block_alloc(0, 40 << 20, NULL, &held[2]));
    tn_block_free(held[2]);
    TN_CHECK_INT(tn_block_alloc(0, (size_t)1 << 60, NULL, &too_large), TN_ERROR_OUT_OF_MEMORY);
    TN_CHECK_INT(tn_memory_set_fraction(0, 1.5), TN_ERROR_VALUE);
    TN_CHECK_INT(tn_memory_set_fraction(0, -0.5), TN_ERROR_VALUE);
    TN_CHECK_OK(tn_memory_set_fraction(0, 1));
    TN_CHECK_INT(tn_block_alloc(99, 10, NULL, &too_large), TN_ERROR_DEVICE);
}

TN_CASE(empty_cache_gives_pages_back)
{
    enum { BYTES = 24 << 20 };
    struct stat file;
    tn_block *block;
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK(fstat(tn_devices[0].heap.fd, &file) == 0);
    int64_t before = (int64_t)file.st_blocks * 512;
    TN_CHECK_OK(tn_block_alloc(0, BYTES, NULL, &block));
    memset(block->data, 1, BYTES);
    TN_CHECK(fstat(tn_devices[0].heap.fd, &file) == 0);
    TN_CHECK((int64_t)file.st_blocks * 512 - before >= BYTES);
    TN_CHECK_OK(tn_memory_empty_cache(0)); /* in use: stays */
    TN_CHECK(((char *)block->data)[BYTES - 1] == 1);
    tn_block_free(block);
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK(fstat(tn_devices[0].heap.fd, &file) == 0);
    TN_CHECK_INT((int64_t)file.st_blocks * 512, before);
}

/* ---- settings ------------------------------------------------------------------------------- */

TN_CASE(large_blocks_are_not_split_beyond_the_limit)
{
    tn_block *large, *small;
    TN_CHECK_OK(tn_memory_empty_cache(0));
    tn_memory_configure(&(tn_memory_config){.max_split_size = 20 << 20});
    TN_CHECK_OK(tn_block_alloc(0, 30 << 20, NULL, &large));
    TN_CHECK_INT(stats().oversize_allocations.current, 1);
    TN_CHECK_INT(stats().oversize_segments.current, 1);
    TN_CHECK_INT(stats().max_split_size, 20 << 20);
    void *data = large->data;
    tn_block_free(large);
    TN_CHECK_OK(tn_block_alloc(0, 4 << 20, NULL, &small));
    TN_CHECK(small->data != data);
    TN_CHECK_OK(tn_block_alloc(0, 29 << 20, NULL, &large));
    TN_CHECK(large->data == data);
    tn_block_free(large);
    tn_block_free(small);
    tn_memory_configure(&(tn_memory_config){0});
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_INT(stats().oversize_allocations.current, 0);
    TN_CHECK_INT(stats().oversize_segments.current, 0);
}

TN_CASE(other_settings)
{
    unsigned size_class;
    tn_block *block;
    tn_memory_configure(&(tn_memory_config){.roundup_power2_divisions = 4});
    TN_CHECK_INT(tn_size_class(1200000, &size_class), 1310720); /* 1 MiB * 5 / 4 */
    tn_memory_configure(&(tn_memory_config){.large_segment_size = 33 << 20});
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_OK(tn_block_alloc(0, 2 << 20, NULL, &block));
    TN_CHECK_INT(stats().reserved_bytes[TN_POOL_LARGE].current, 34 << 20);
    tn_block_free(block);
    tn_memory_configure(&(tn_memory_config){.garbage_collection_threshold = 1e-9});
    TN_CHECK_OK(tn_block_alloc(0, 40 << 20, NULL, &block)); /* the unused segment goes first */
    TN_CHECK_INT(stats().reserved_bytes[TN_POOL_LARGE].current, 40 << 20);
    tn_block_free(block);
    tn_memory_configure(&(tn_memory_config){0});
}

/* ---- what the allocator tells --------------------------------------------------------------- */

TN_CASE(statistics_follow_pytorch)
{
    tn_block *small, *large;
    TN_CHECK_OK(tn_memory_empty_cache(0));
    tn_memory_reset_peak(0);
    tn_memory_reset_accumulated(0);
    TN_CHECK_OK(tn_block_alloc(0, 1000, NULL, &small));
    TN_CHECK_OK(tn_block_alloc(0, 3000000, NULL, &large));
    tn_memory_stats now = stats();
    TN_CHECK_INT(now.allocation[TN_POOL_ALL].current, 2);
    TN_CHECK_INT(now.allocation[TN_POOL_SMALL].current, 1);
    TN_CHECK_INT(now.requested_bytes[TN_POOL_ALL].current, 3001000);
    TN_CHECK_INT(now.allocated_bytes[TN_POOL_SMALL].current, 1024);
    TN_CHECK_INT(now.reserved_bytes[TN_POOL_SMALL].current, 2 << 20);
    TN_CHECK_INT(now.reserved_bytes[TN_POOL_LARGE].current, 20 << 20);
    TN_CHECK_INT(now.segment[TN_POOL_ALL].current, 2);
    TN_CHECK_INT(now.num_device_alloc, 2);
    TN_CHECK_INT(now.inactive_split[TN_POOL_ALL].current, 2);
    TN_CHECK_INT(now.inactive_split_bytes[TN_POOL_SMALL].current, (2 << 20) - 1024);
    tn_block_free(large);
    TN_CHECK_INT(stats().allocation[TN_POOL_ALL].freed, 1);
    TN_CHECK_INT(stats().requested_bytes[TN_POOL_ALL].peak, 3001000);
    tn_memory_reset_peak(0);
    TN_CHECK_INT(stats().requested_bytes[TN_POOL_ALL].peak, 1000);
    tn_memory_reset_accumulated(0);
    TN_CHECK_INT(stats().allocation[TN_POOL_ALL].allocated, 0);
    tn_block_free(small);
}

TN_CASE(snapshot_covers_every_segment)
{
    enum { MOST = 64 };
    tn_snapshot_row rows[MOST];
    size_t count, again;
    tn_block *a, *b;
    TN_CHECK_OK(tn_memory_empty_cache(0));
    TN_CHECK_OK(tn_block_alloc(0, 1000, NULL, &a));
    TN_CHECK_OK(tn_block_alloc(0, 2000, NULL, &b));
    tn_block_free(a);
    TN_CHECK_OK(tn_memory_snapshot(NULL, 0, &count));
    TN_CHECK_OK(tn_memory_snapshot(rows, MOST, &again));
    TN_CHECK(count == again && count == 4);
    TN_CHECK(rows[0].is_segment && !rows[0].is_large && rows[0].bytes == 2 << 20);
    TN_CHECK(rows[0].requested_bytes == 2000 && rows[0].allocated_bytes == 2048);
    uint64_t at = rows[0].address;
    for (size_t i = 1; i < count; i++) {
        TN_CHECK(!rows[i].is_segment && rows[i].address == at);
        at += rows[i].bytes;
    }
    TN_CHECK(at == rows[0].address + rows[0].bytes);
    TN_CHECK(rows[1].state == TN_BLOCK_INACTIVE && rows[2].state == TN_BLOCK_ACTIVE);
    tn_block_free(b);
}

TN_CASE(history_keeps_the_latest)
{
    tn_memory_trace_row rows[8];
    size_t count;
    tn_block *block;
    tn_memory_record_history(true, 8);
    for (int i = 0; i < 10; i++) {
        TN_CHECK_OK(tn_block_alloc(0, 5000, NULL, &block));
        tn_block_free(block);
    }
    tn_memory_record_history(false, 0);
    TN_CHECK_OK(tn_block_alloc(0, 5000, NULL, &block));
    tn_block_free(block);
    TN_CHECK_OK(tn_memory_history(rows, 8, &count));
    TN_CHECK_INT(count, 8);
    TN_CHECK_INT(rows[7].action, TN_TRACE_FREE_COMPLETED);
    TN_CHECK_INT(rows[6].action, TN_TRACE_FREE_REQUESTED);
    TN_CHECK_INT(rows[5].action, TN_TRACE_ALLOC);
    TN_CHECK(rows[5].address == (uint64_t)(uintptr_t)block->data && rows[5].bytes == 5120);
    TN_CHECK(rows[7].time_us >= rows[5].time_us);
}

/* ---- host memory runs out, threads collide -------------------------------------------------- */

/* One scenario that allocates host memory in every way the heap does. */
static bool scenario(tn_stream *own, tn_stream *other)
{
    enum { PIECES = 300 };
    static tn_block *pieces[PIECES];
    tn_scalar cycles = {.i = 1400000, .kind = TN_SCALAR_INT};
    tn_launch_desc sleep = {.op = TN_OP_sleep, .stream = other, .scalars = &cycles,
                            .num_scalars = 1, .compute_dtype = TN_DTYPE_NONE};
    bool ok = tn_launch(&sleep) == TN_OK;
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = NULL;
        ok &= tn_block_alloc(0, (size_t)(i % 9 == 0 ? 1 << 20 : 700), i % 2 ? other : own,
                             &pieces[i]) == TN_OK;
    }
    for (int i = 0; i < PIECES; i++) {
        if (pieces[i] && i % 5 == 0)
            tn_block_record_stream(pieces[i], i % 2 ? own : other);
        tn_block_free(pieces[i]);
    }
    return ok;
}

TN_CASE(every_host_allocation_may_fail)
{
    tn_stream *own, *other;
    TN_CHECK_OK(tn_stream_default(0, &own));
    TN_CHECK_OK(tn_stream_create(0, 0, &other));
    bool complete = false;
    for (int n = 1; n < 300 && !complete; n++) {
        tn_alloc_fail_at(n);
        bool ok = scenario(own, other);
        complete = tn_alloc_count() < n;
        tn_alloc_fail_at(0);
        TN_CHECK(ok || !complete);
        TN_CHECK_INT(stats().allocated_bytes[0].current, 0);
        TN_CHECK_OK(tn_memory_empty_cache(0));
    }
    TN_CHECK(complete);
}

static void *allocate_often(void *argument)
{
    tn_block *blocks[16] = {0};
    int tag = (int)(uintptr_t)argument;
    unsigned seed = (unsigned)tag;
    for (int i = 0; i < 3000; i++) {
        tn_block **at = &blocks[i % 16];
        if (*at)
            TN_CHECK(ends_hold(*at, tag));
        tn_block_free(*at);
        *at = NULL;
        TN_CHECK_OK(tn_block_alloc(0, 1 + (size_t)rand_r(&seed) % 100000, NULL, at));
        fill_ends(*at, tag);
    }
    for (int i = 0; i < 16; i++)
        tn_block_free(blocks[i]);
    return NULL;
}

TN_CASE(threads_share_the_heap)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        TN_CHECK(tn_thread_start("heap", allocate_often, (void *)(uintptr_t)(i + 1), &threads[i]));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    TN_CHECK_INT(stats().allocated_bytes[0].current, 0);
}

TN_CASES_END
