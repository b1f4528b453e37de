/* Arena over a list of chunks, each twice as large as the one before up to a limit. */
#include "base/arena.h"

#include <string.h>

#include "base/alloc.h"

enum { ALIGNMENT = 16, FIRST_CHUNK = 4 << 10, LARGEST_CHUNK = 1 << 20 };

struct tn_arena_chunk {
    _Alignas(ALIGNMENT) tn_arena_chunk *next;
    size_t bytes; /* behind this header */
};

static void *add_chunk(tn_arena *arena, size_t bytes)
{
    size_t size = arena->chunks ? arena->chunks->bytes * 2 : FIRST_CHUNK;
    size = size > LARGEST_CHUNK ? LARGEST_CHUNK : size;
    size = size < bytes ? bytes : size;
    tn_arena_chunk *chunk = tn_calloc(1, sizeof *chunk + size);
    if (!chunk)
        return NULL;
    chunk->bytes = size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->used = bytes;
    return chunk + 1;
}

void *tn_arena_alloc(tn_arena *arena, size_t bytes)
{
    if (bytes > (size_t)-1 - sizeof(tn_arena_chunk) - ALIGNMENT)
        return NULL;
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (!arena->chunks || arena->chunks->bytes - arena->used < bytes)
        return add_chunk(arena, bytes);
    void *memory = (char *)(arena->chunks + 1) + arena->used;
    arena->used += bytes;
    return memory;
}

char *tn_arena_copy(tn_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = tn_arena_alloc(arena, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void tn_arena_reset(tn_arena *arena)
{
    for (tn_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        tn_free(chunk);
    }
    *arena = (tn_arena){0};
}
