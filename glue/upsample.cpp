// Interpolation: nearest, linear and cubic, forward and backward. ATen's meta functions check and shape.
#include <torch/library.h>

#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_lanczos2d_aa_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

#include "fallback.h"
#include "resample.h"
#include "structured.h"

namespace neuron {
namespace {

// Picks align_corners and the scales out of an argument list.
void read(Resample&, at::IntArrayRef) {}
void read(Resample& resample, bool align_corners)
{
    resample.align_corners = align_corners;
}
void read(Resample& resample, std::optional<double> scale)
{
    resample.parameters.insert(resample.parameters.end(), {scale.value_or(0), 0, 0});
}

// Bytes pass through fp32. Interpolated ones are rounded and bounded after each dimension, the innermost first, as
// on the CPU.
void resample_bytes(const at::Tensor& out, const at::Tensor& self, const Resample& resample)
{
    at::Tensor image = self.to(at::kFloat);
    if (resample.kind == Taps::Nearest || resample.kind == Taps::NearestExact) {
        at::Tensor result = new_tensor(out.sizes(), at::kFloat, out.device());
        resample.run(result, image);
        out.copy_(result);
        return;
    }
    for (int64_t d = resample.spatial - 1; d >= 0; d--) {
        int64_t dim = self.dim() - resample.spatial + d;
        at::DimVector sizes(image.sizes());
        sizes[dim] = out.size(dim);
        at::Tensor result = new_tensor(sizes, at::kFloat, out.device());
        Resample one{.kind = resample.kind, .spatial = 1, .align_corners = resample.align_corners};
        one.parameters.append(resample.parameters.begin() + 3 * d, resample.parameters.begin() + 3 * d + 3);
        one.run(result.transpose(dim, -1), image.transpose(dim, -1));
        image = result.add_(0.5).floor_().clamp_(0, 255);
    }
    out.copy_(image);
}

template <class Meta, Taps Kind, int Spatial, bool Gradient, class... Args>
struct Upsample {
    // Of the dispatcher, for the fallback. Plain pointers: strings would be constructed after add() has set them.
    static inline const char *name = nullptr, *out_overload = nullptr;

    static bool serves(const at::Tensor& self)
    {
        bool bytes = Kind == Taps::Nearest || Kind == Taps::NearestExact || Spatial == 2;
        return resamples(self) || (self.scalar_type() == at::kByte && bytes && !Gradient);
    }
    static void into(Structured<Meta>& op, const at::Tensor& self, Args... args)
    {
        op.meta(self, args...);
        Resample resample{.kind = Kind, .spatial = Spatial, .gradient = Gradient};
        (read(resample, args), ...);
        if (self.scalar_type() == at::kByte)
            resample_bytes(op.output(), self, resample);
        else
            resample.run(op.output(), self);
        op.finish();
    }
    static at::Tensor functional(const at::Tensor& self, Args... args)
    {
        if (!serves(self))
            return call_fallback<at::Tensor(const at::Tensor&, Args...)>(name, "", self, args...);
        Structured<Meta> op;
        into(op, self, args...);
        return op.take();
    }
    static at::Tensor& out(const at::Tensor& self, Args... args, at::Tensor& out)
    {
        if (!serves(self))
            return call_fallback<at::Tensor&(const at::Tensor&, Args..., at::Tensor&)>(
                name, out_overload, self, args..., out);
        Structured<Meta> op(Variant::Out, {out});
        into(op, self, args...);
        return out;
    }
    static void add(torch::Library& m, const std::string& plain)
    {
        name = (new std::string("aten::" + plain))->c_str();
        out_overload = Gradient ? "grad_input" : "out";
        m.impl(plain.c_str(), &functional);
        m.impl((plain + "." + out_overload).c_str(), &out);
    }
};

using Sizes = at::IntArrayRef;
using Scale = std::optional<double>;

template <class Forward, class Backward, Taps Kind, int Spatial, class... Rest>
void add(torch::Library& m, const std::string& name)
{
    Upsample<Forward, Kind, Spatial, false, Sizes, Rest...>::add(m, name);
    Upsample<Backward, Kind, Spatial, true, Sizes, Sizes, Rest...>::add(m, name + "_backward");
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using namespace at::meta;
    add<structured_upsample_nearest1d, structured_upsample_nearest1d_backward, Taps::Nearest, 1, Scale>(
        m, "upsample_nearest1d");
    add<structured_upsample_nearest2d, structured_upsample_nearest2d_backward, Taps::Nearest, 2, Scale,
        Scale>(m, "upsample_nearest2d");
    add<structured_upsample_nearest3d, structured_upsample_nearest3d_backward, Taps::Nearest, 3, Scale,
        Scale, Scale>(m, "upsample_nearest3d");
    add<structured__upsample_nearest_exact1d, structured__upsample_nearest_exact1d_backward,
        Taps::NearestExact, 1, Scale>(m, "_upsample_nearest_exact1d");
    add<structured__upsample_nearest_exact2d, structured__upsample_nearest_exact2d_backward,
        Taps::NearestExact, 2, Scale, Scale>(m, "_upsample_nearest_exact2d");
    add<structured__upsample_nearest_exact3d, structured__upsample_nearest_exact3d_backward,
        Taps::NearestExact, 3, Scale, Scale, Scale>(m, "_upsample_nearest_exact3d");
    add<structured_upsample_linear1d, structured_upsample_linear1d_backward, Taps::Linear, 1, bool, Scale>(
        m, "upsample_linear1d");
    add<structured_upsample_bilinear2d, structured_upsample_bilinear2d_backward, Taps::Linear, 2, bool,
        Scale, Scale>(m, "upsample_bilinear2d");
    add<structured_upsample_trilinear3d, structured_upsample_trilinear3d_backward, Taps::Linear, 3, bool,
        Scale, Scale, Scale>(m, "upsample_trilinear3d");
    add<structured_upsample_bicubic2d, structured_upsample_bicubic2d_backward, Taps::Cubic, 2, bool, Scale,
        Scale>(m, "upsample_bicubic2d");
    add<structured__upsample_bilinear2d_aa, structured__upsample_bilinear2d_aa_backward,
        Taps::LinearAntialiased, 2, bool, Scale, Scale>(m, "_upsample_bilinear2d_aa");
    add<structured__upsample_bicubic2d_aa, structured__upsample_bicubic2d_aa_backward, Taps::CubicAntialiased,
        2, bool, Scale, Scale>(m, "_upsample_bicubic2d_aa");
    add<structured__upsample_lanczos2d_aa, structured__upsample_lanczos2d_aa_backward, Taps::Lanczos, 2, bool,
        Scale, Scale>(m, "_upsample_lanczos2d_aa");
}
