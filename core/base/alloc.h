/* Host memory of the core itself (queues, tables, scratch). Every allocation passes here, so that a
 * test can make the n-th one fail and prove that each caller survives it. */
#ifndef TN_BASE_ALLOC_H
#define TN_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *tn_malloc(size_t bytes);
void *tn_calloc(size_t count, size_t bytes);
void *tn_realloc(void *memory, size_t bytes);
void *tn_aligned_malloc(size_t alignment, size_t bytes); /* bytes: a multiple of alignment */
void tn_free(void *memory);

/* The n-th allocation from now on fails, once (n >= 1); 0 turns the hook off. */
void tn_alloc_fail_at(int64_t n);
/* Allocations since the last tn_alloc_fail_at. */
int64_t tn_alloc_count(void);

#endif
