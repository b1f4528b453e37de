/* Iteration spaces: broadcasting, ordering, merging. */
#include "base/check.h"
#include "kernel/walk.h"

static tn_operand operand(const int64_t *sizes, const int64_t *strides, int ndim)
{
    return (tn_operand){.sizes = sizes, .strides = strides, .ndim = ndim, .dtype = TN_FLOAT32};
}

static tn_walk walk_of(tn_operand a, tn_operand b, bool reorder)
{
    tn_walk walk;
    const tn_operand *operands[] = {&a, &b};
    tn_walk_init(&walk, operands, 2, reorder);
    return walk;
}

TN_CASE(dense_operands_become_one_dimension)
{
    int64_t sizes[] = {2, 1, 3, 4}, strides[] = {12, 99, 4, 1};
    tn_operand a = operand(sizes, strides, 4);
    tn_walk walk = walk_of(a, a, true);
    TN_CHECK_INT(walk.ndim, 1);
    TN_CHECK_INT(walk.sizes[0], 24);
    TN_CHECK_INT(walk.strides[0][0], 4);
}

TN_CASE(equal_permutations_become_one_dimension_unless_order_is_kept)
{
    int64_t sizes[] = {3, 4}, strides[] = {1, 3};
    tn_operand a = operand(sizes, strides, 2);
    TN_CHECK_INT(walk_of(a, a, true).ndim, 1);
    TN_CHECK_INT(walk_of(a, a, false).ndim, 2);
}

TN_CASE(broadcast_dimensions_have_stride_zero)
{
    int64_t sizes[] = {5, 3, 4}, strides[] = {12, 4, 1}, row[] = {4}, one[] = {1};
    tn_walk walk = walk_of(operand(sizes, strides, 3), operand(row, one, 1), true);
    TN_CHECK_INT(walk.ndim, 2);
    TN_CHECK_INT(walk.sizes[0], 15);
    TN_CHECK_INT(walk.strides[1][0], 0);
    TN_CHECK_INT(walk.strides[1][1], 4);
}

TN_CASE(single_elements_have_one_dimension)
{
    tn_operand a = operand(NULL, NULL, 0);
    tn_walk walk = walk_of(a, a, true);
    TN_CHECK_INT(walk.ndim, 1);
    TN_CHECK_INT(walk.sizes[0], 1);
}

TN_CASE(rows_are_counted_in_row_major_order)
{
    int64_t sizes[] = {2, 3, 4}, strides[] = {100, 10, 1}, index[TN_MAX_DIMS];
    tn_operand a = operand(sizes, strides, 3);
    tn_walk walk = walk_of(a, a, true);
    TN_CHECK_INT(walk.ndim, 3);
    tn_walk_seek(&walk, 4, index);
    TN_CHECK_INT(tn_walk_offset(&walk, 0, index), 4 * (100 + 10));
    TN_CHECK(tn_walk_next(&walk, index));
    TN_CHECK_INT(tn_walk_offset(&walk, 0, index), 4 * (100 + 20));
    TN_CHECK(!tn_walk_next(&walk, index));
}

TN_CASES_END
