/* Arena, allocation hook, status, clock and CPU detection. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/status.h"

TN_CASE(arena_keeps_what_it_gave)
{
    enum { COUNT = 3000 };
    static unsigned char *pieces[COUNT];
    tn_arena arena = {0};
    for (int i = 0; i < COUNT; i++) {
        size_t bytes = (size_t)(i * 7 % 500) + (i % 1000 == 999 ? 3 << 20 : 1);
        pieces[i] = tn_arena_alloc(&arena, bytes);
        TN_CHECK(pieces[i] && (uintptr_t)pieces[i] % 16 == 0 && pieces[i][bytes - 1] == 0);
        memset(pieces[i], i, bytes);
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += pieces[i][0] != (unsigned char)i;
    TN_CHECK_INT(wrong, 0);
    TN_CHECK(strcmp(tn_arena_copy(&arena, "text"), "text") == 0);
    TN_CHECK(tn_arena_alloc(&arena, (size_t)-1) == NULL);
    tn_arena_reset(&arena);
    TN_CHECK(tn_arena_alloc(&arena, 0) != NULL);
    tn_arena_reset(&arena);
}

TN_CASE(the_nth_allocation_fails)
{
    tn_arena arena = {0};
    tn_alloc_fail_at(2);
    TN_CHECK(tn_arena_alloc(&arena, 10) != NULL);
    TN_CHECK(tn_arena_alloc(&arena, 1 << 20) == NULL);
    TN_CHECK(tn_arena_alloc(&arena, 10) != NULL);
    TN_CHECK(tn_arena_alloc(&arena, 1 << 20) != NULL);
    TN_CHECK_INT(tn_alloc_count(), 3);
    tn_alloc_fail_at(0);
    tn_arena_reset(&arena);
}

TN_CASE(the_last_error_travels)
{
    TN_CHECK_INT(tn_fail(TN_ERROR_INDEX, "index %d", 3), TN_ERROR_INDEX);
    tn_error kept = *tn_last_error();
    TN_CHECK(strcmp(kept.message, "index 3") == 0);
    tn_fail(TN_ERROR_VALUE, "other");
    TN_CHECK_INT(tn_fail_again(&kept), TN_ERROR_INDEX);
    TN_CHECK(strcmp(tn_last_error()->message, "index 3") == 0);
}

TN_CASE(dtypes)
{
    TN_CHECK_INT(tn_dtype_size(TN_BFLOAT16), 2);
    TN_CHECK_INT(tn_dtype_size((tn_dtype)13), 0);
    TN_CHECK_INT(tn_dtype_size(TN_DTYPE_NONE), 0);
    TN_CHECK(strcmp(tn_dtype_name(TN_FLOAT8_E4M3FN), "float8_e4m3fn") == 0);
    TN_CHECK(strcmp(tn_dtype_name(TN_DTYPE_NONE), "unknown") == 0);
}

TN_CASE(ticks_are_nanoseconds_in_the_end)
{
    tn_clock_init();
    int64_t start = tn_now_ns();
    uint64_t ticks = tn_ticks();
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    uint64_t later = tn_ticks();
    int64_t end = tn_now_ns();
    tn_clock_line line = tn_clock_calibrate();
    TN_CHECK(later > ticks);
    TN_CHECK(tn_clock_to_ns(&line, ticks) >= start - 100000);
    TN_CHECK(tn_clock_to_ns(&line, later) <= end + 100000);
    TN_CHECK(tn_clock_to_ns(&line, later) - tn_clock_to_ns(&line, ticks) >= 2900000);
}

TN_CASE(the_cpu_is_known)
{
    const tn_cpu *cpu = tn_cpu_get();
    TN_CHECK(cpu->physical_cores >= 1 && cpu->physical_cores <= cpu->logical_cores);
    TN_CHECK(cpu->l1d_bytes >= 8 << 10 && cpu->l2_bytes >= cpu->l1d_bytes && cpu->name[0]);
    TN_CHECK(cpu->avx2 || !cpu->avx512);
}

TN_CASES_END
