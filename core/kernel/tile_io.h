/* Loading and storing tiles: elements of any dtype to and from the dense arrays that primitives take. */
#ifndef TN_KERNEL_TILE_IO_H
#define TN_KERNEL_TILE_IO_H

#include "kernel/kernel.h"
#include "tn/tile/tile.h"

enum { TN_TILE_ELEMENTS = 512 }; /* of a buffered tile */

/* The class that holds every value of a dtype. */
static inline tn_tile_class tn_tile_class_of(uint8_t dtype)
{
    switch (dtype) {
    case TN_UINT8:
    case TN_INT8:
    case TN_INT16:
    case TN_UINT16:
    case TN_INT32:
    case TN_UINT32:
    case TN_INT64:
    case TN_UINT64:
    case TN_BOOL:
        return TN_TILE_I64;
    case TN_FLOAT64:
        return TN_TILE_F64;
    case TN_COMPLEX32:
    case TN_COMPLEX64:
    case TN_COMPLEX128:
        return TN_TILE_C128;
    default:
        return TN_TILE_F32;
    }
}

static inline size_t tn_tile_element_bytes(tn_tile_class class)
{
    return class == TN_TILE_F32 ? 4 : class == TN_TILE_C128 ? 16 : 8;
}

/* Whether memory of this dtype is a tile of this class as it stands. */
static inline bool tn_tile_is_native(tn_tile_class class, uint8_t dtype)
{
    return (class == TN_TILE_F32 && dtype == TN_FLOAT32) ||
           (class == TN_TILE_F64 && dtype == TN_FLOAT64) ||
           (class == TN_TILE_I64 && (dtype == TN_INT64 || dtype == TN_UINT64)) ||
           (class == TN_TILE_C128 && dtype == TN_COMPLEX128);
}

/* Dense memory of `dtype` to a tile and back, n <= TN_TILE_ELEMENTS. Conversions are torch's: to nearest
 * even; floats to integers truncate (x86's rule beyond the range); complex to real drops the rest. */
#define tn_tile_load TN_ISA_NAME(tn_tile_load)
#define tn_tile_store TN_ISA_NAME(tn_tile_store)
void tn_tile_load(tn_tile_class class, uint8_t dtype, void *tile, const void *memory, int64_t n);
void tn_tile_store(tn_tile_class class, uint8_t dtype, void *memory, const void *tile, int64_t n);

/* n elements `stride` bytes apart to dense ones and back. */
#define tn_gather_run TN_ISA_NAME(tn_gather_run)
#define tn_scatter_run TN_ISA_NAME(tn_scatter_run)
void tn_gather_run(void *dense, const void *memory, int64_t stride, int64_t n, size_t size);
void tn_scatter_run(void *memory, int64_t stride, const void *dense, int64_t n, size_t size);

/* All of a tile to one value. */
#define tn_tile_fill TN_ISA_NAME(tn_tile_fill)
void tn_tile_fill(tn_tile_class class, void *tile, int64_t n); /* element 0 to the others */

/* A number as element 0 of a tile. */
static inline void tn_tile_set(tn_tile_class class, void *tile, tn_scalar s)
{
    if (class == TN_TILE_F32)
        *(float *)tile = (float)tn_scalar_as_double(s);
    else if (class == TN_TILE_F64)
        *(double *)tile = tn_scalar_as_double(s);
    else if (class == TN_TILE_I64)
        *(int64_t *)tile = tn_scalar_as_int(s);
    else
        *(tn_complex *)tile = (tn_complex){tn_scalar_as_double(s),
                                           s.kind == TN_SCALAR_COMPLEX ? s.c[1] : 0};
}

/* Past the caches, for outputs that nobody could read back from them. */
#define tn_stream_out TN_ISA_NAME(tn_stream_out)
void tn_stream_out(void *memory, const void *dense, size_t bytes);
static inline void tn_stream_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
