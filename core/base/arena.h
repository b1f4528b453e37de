/* Arena: memory that is given back all at once. For everything that lives as long as one compile or
 * one simulation; nothing inside is freed alone, and pointers stay valid until tn_arena_reset. */
#ifndef TN_BASE_ARENA_H
#define TN_BASE_ARENA_H

#include <stddef.h>

typedef struct tn_arena_chunk tn_arena_chunk;

typedef struct tn_arena { /* zero-initialised: empty */
    tn_arena_chunk *chunks;
    size_t used; /* of the newest chunk */
} tn_arena;

/* 16-byte aligned, zeroed; NULL when host memory is exhausted (the arena stays usable). */
void *tn_arena_alloc(tn_arena *arena, size_t bytes);
char *tn_arena_copy(tn_arena *arena, const char *text);
void tn_arena_reset(tn_arena *arena);

#endif
