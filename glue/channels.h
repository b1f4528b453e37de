// Tensors as the kernels of batch and group norm see them (core/kernel/channels.h), and optional parameters.
#pragma once

#include <c10/core/MemoryFormat.h>

#include "launch.h"

namespace neuron {

inline bool is_given(const std::optional<at::Tensor>& tensor)
{
    return tensor && tensor->defined();
}

// Contiguous, or absent.
inline std::optional<at::Tensor> dense(const std::optional<at::Tensor>& tensor)
{
    return is_given(tensor) ? std::optional(tensor->contiguous()) : std::nullopt;
}

// ATen's rule: parameters share the input's dtype, or are fp32 beside a narrow input.
inline at::ScalarType parameter_dtype(const char* op, const at::Tensor& input,
                                      std::initializer_list<const std::optional<at::Tensor>*> parameters)
{
    bool mixed = false;
    for (const auto* parameter : parameters)
        mixed = mixed || (is_given(*parameter) && (*parameter)->scalar_type() != input.scalar_type());
    if (!mixed)
        return input.scalar_type();
    for (const auto* parameter : parameters)
        TORCH_CHECK(!is_given(*parameter) || (*parameter)->scalar_type() == at::kFloat,
                    op, ": mixed dtype: expect parameter to have scalar type of Float, got ",
                    (*parameter)->scalar_type(), " beside an input of ", input.scalar_type());
    TORCH_CHECK(input.scalar_type() == at::kBFloat16 || input.scalar_type() == at::kHalf,
                op, ": mixed dtype: all inputs must share same datatype, got Float beside ",
                input.scalar_type());
    return at::kFloat;
}

// An input [N, C, ...], dense in the memory format that it suggests, with the numbers that describe its channels.
struct ChannelView {
    at::MemoryFormat format;
    at::Tensor tensor;
    int64_t keys, outer, width;
    bool last; // channels lie innermost

    // With `per_sample` every sample has channels of its own.
    explicit ChannelView(const at::Tensor& input, bool per_sample = false)
        : format(input.suggest_memory_format()), tensor(input.contiguous(format))
    {
        int64_t samples = input.size(0), channels = input.size(1), inner = input.numel() / (samples * channels);
        last = format != at::MemoryFormat::Contiguous || inner == 1;
        keys = per_sample ? samples * channels : channels;
        outer = (last ? inner : 1) * (per_sample ? 1 : samples);
        width = last ? channels : inner;
    }

    at::Tensor match(const at::Tensor& other) const
    {
        return other.contiguous(format);
    }

    at::Tensor new_result(at::ScalarType dtype) const
    {
        if (format == at::MemoryFormat::ChannelsLast)
            return new_tensor(tensor.sizes(), c10::get_channels_last_strides_2d(tensor.sizes()), dtype,
                              tensor.device());
        if (format == at::MemoryFormat::ChannelsLast3d)
            return new_tensor(tensor.sizes(), c10::get_channels_last_strides_3d(tensor.sizes()), dtype,
                              tensor.device());
        return new_tensor(tensor.sizes(), dtype, tensor.device());
    }

    void scalars(Launch& launch) const
    {
        launch.scalar(keys).scalar(outer).scalar(width).scalar(last);
    }
};

} // namespace neuron
