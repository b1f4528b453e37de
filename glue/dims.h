// Dimensions of reductions and scans: bit masks, output sizes, and which dtypes the row kernels read.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/WrapDimMinimal.h>

#include "tensor.h"

namespace neuron {

// What core/kernel/rows.h loads: integers, bool, bf16, fp16, fp32, fp64.
inline bool is_row_dtype(at::ScalarType dtype)
{
    return c10::isIntegralType(dtype, true) || dtype == at::kFloat || dtype == at::kDouble ||
           dtype == at::kBFloat16 || dtype == at::kHalf;
}

// A dense neuron tensor of a dtype that the row kernels read, without a pending conj or neg.
inline bool is_row_tensor(const at::Tensor& tensor)
{
    return is_neuron(tensor) && is_row_dtype(tensor.scalar_type()) && !tensor.is_neg();
}

inline uint64_t all_dims(int64_t ndim)
{
    return ndim >= 64 ? ~uint64_t{0} : (uint64_t{1} << ndim) - 1;
}

// Bit d for every dimension of the list; repeated ones are refused with ATen's text.
inline uint64_t dim_mask(at::IntArrayRef dims, int64_t ndim)
{
    uint64_t mask = 0;
    for (int64_t dim : dims) {
        uint64_t bit = uint64_t{1} << c10::maybe_wrap_dim(dim, ndim);
        TORCH_CHECK(!(mask & bit), "dim ", c10::maybe_wrap_dim(dim, ndim),
                    " appears multiple times in the list of dims");
        mask |= bit;
    }
    return mask;
}

// No list and an empty one mean all dimensions.
inline uint64_t dim_mask(at::OptionalIntArrayRef dims, int64_t ndim)
{
    return !dims || dims->empty() ? all_dims(ndim) : dim_mask(*dims, ndim);
}

inline c10::SmallVector<int64_t, 6> reduced_sizes(const at::Tensor& self, uint64_t mask, bool keepdim)
{
    c10::SmallVector<int64_t, 6> sizes;
    for (int64_t d = 0; d < self.dim(); d++) {
        if (!(mask >> d & 1))
            sizes.push_back(self.size(d));
        else if (keepdim)
            sizes.push_back(1);
    }
    return sizes;
}

inline tn_scalar mask_scalar(uint64_t mask)
{
    tn_scalar scalar{};
    scalar.kind = TN_SCALAR_INT;
    scalar.u = mask;
    return scalar;
}

} // namespace neuron
