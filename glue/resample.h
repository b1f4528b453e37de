// One launch of the separable resampling kernel (core/kernel/resample.c).
#pragma once

#include "launch.h"
#include "tn/op/resample.h"

namespace neuron {

// tn_tap_kind in core/kernel/taps.h.
enum class Taps : int64_t {
    Nearest = 0,
    NearestExact = 1,
    Linear = 2,
    Cubic = 3,
    Average = 4,
    Adaptive = 5,
    Reflect = 6,
    Replicate = 7,
    LinearAntialiased = 8,
    CubicAntialiased = 9,
    Lanczos = 10
};

struct Resample {
    Taps kind;
    int64_t spatial;
    bool gradient = false; // transposed taps
    bool align_corners = false;
    bool count_include_pad = false;
    double divisor = 0;
    c10::SmallVector<double, 9> parameters{}; // three per spatial dimension, missing ones 0

    void run(const at::Tensor& out, const at::Tensor& in) const
    {
        if (out.numel() == 0)
            return;
        Launch launch(TN_OP_resample);
        launch.out(out).in(in).scalar(spatial).scalar(static_cast<int64_t>(kind)).scalar(gradient);
        launch.scalar(align_corners).scalar(count_include_pad).scalar(divisor);
        for (size_t i = 0; i < static_cast<size_t>(3 * spatial); i++)
            launch.scalar(i < parameters.size() ? parameters[i] : 0.0);
        launch.run();
    }
};

// The dtypes that the kernel sums in.
inline bool resamples(const at::Tensor& tensor)
{
    auto dtype = tensor.scalar_type();
    return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
}

} // namespace neuron
