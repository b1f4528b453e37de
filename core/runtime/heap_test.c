/* The allocator. */
#include <stdlib.h>

#include "base/check.h"
#include "runtime/device.h"
#include "runtime/stream.h"

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
    return *(char *)block->data == (char)tag && ((char *)block->data)[block->bytes - 1] == (char)tag;
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

TN_CASES_END
