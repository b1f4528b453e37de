/* Splits dimensions into kept and reduced axes, sorts and coalesces them. */
#include "kernel/axes.h"

/* Outermost first by the input's stride; equal strides keep their order. */
static void sort_axes(tn_axis *axes, int count)
{
    for (int i = 1; i < count; i++) {
        tn_axis moved = axes[i];
        int j = i;
        for (; j > 0 && axes[j - 1].stride[0] < moved.stride[0]; j--)
            axes[j] = axes[j - 1];
        axes[j] = moved;
    }
}

/* True when stepping past the end of `inner` lands on the next index of `outer` in every tensor. */
static bool continues(const tn_axis *outer, const tn_axis *inner, int num_tensors)
{
    for (int t = 0; t < num_tensors; t++)
        if (outer->stride[t] != inner->stride[t] * inner->size)
            return false;
    return true;
}

static int merge_axes(tn_axis *axes, int count, int num_tensors)
{
    int last = 0;
    if (count == 0)
        return 0;
    for (int i = 1; i < count; i++) {
        if (continues(&axes[last], &axes[i], num_tensors)) {
            int64_t size = axes[last].size * axes[i].size;
            axes[last] = axes[i];
            axes[last].size = size;
        } else {
            axes[++last] = axes[i];
        }
    }
    return last + 1;
}

void TN_ISA_NAME(tn_axes_split)(tn_axes *axes, const tn_operand *const *tensors, int num_tensors,
                                uint64_t mask, bool ordered)
{
    const tn_operand *input = tensors[0];
    int dense_dim[TN_AXES_TENSORS] = {0}; /* next dimension of each tensor */
    axes->num_kept = axes->num_reduced = 0;
    axes->num_tensors = num_tensors;
    axes->outputs = axes->count = 1;
    for (int d = 0; d < input->ndim; d++) {
        bool reduced = mask >> d & 1;
        tn_axis axis = {.size = input->sizes[d]};
        for (int t = 0; t < num_tensors; t++) {
            const tn_operand *tensor = tensors[t];
            if (reduced && tensor->ndim != input->ndim)
                continue; /* the tensor lacks this dimension */
            int at = dense_dim[t]++;
            if (at < tensor->ndim && (t == 0 || tensor->sizes[at] != 1))
                axis.stride[t] = tensor->strides[at] *
                                 (int64_t)tn_dtype_size((tn_dtype)tensor->dtype);
        }
        *(reduced ? &axes->count : &axes->outputs) *= axis.size;
        if (axis.size == 1)
            continue;
        if (reduced)
            axes->reduced[axes->num_reduced++] = axis;
        else
            axes->kept[axes->num_kept++] = axis;
    }
    sort_axes(axes->kept, axes->num_kept);
    if (!ordered)
        sort_axes(axes->reduced, axes->num_reduced);
    axes->num_kept = merge_axes(axes->kept, axes->num_kept, num_tensors);
    axes->num_reduced = merge_axes(axes->reduced, axes->num_reduced, num_tensors);
}
