// Where every output coordinate comes from one input coordinate: flip, roll, padding by reflection and
// repetition. The gradient of padding sums what meets (resample.h).
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "launch.h"
#include "resample.h"
#include "tn/op/remap.h"

namespace neuron {
namespace {

// remap_kind in core/kernel/remap.c.
enum RemapKind : int64_t { kFlip = 0, kRoll = 1, kReflect = 2, kReplicate = 3 };

void launch_remap(const at::Tensor& out, const at::Tensor& in, RemapKind kind, at::IntArrayRef parameters)
{
    if (out.numel() == 0)
        return;
    Launch launch(TN_OP_remap);
    launch.out(out).in(in).scalar(int64_t{kind});
    for (int64_t parameter : parameters)
        launch.scalar(parameter);
    launch.run();
}

// ---- flip and roll -------------------------------------------------------------------------------

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims)
{
    auto chosen = at::dim_list_to_bitset(dims, self.dim());
    auto out = new_tensor_like(self, self.scalar_type());
    if (self.dim() == 0)
        return out.copy_(self);
    at::DimVector reversed(static_cast<size_t>(self.dim()));
    for (size_t d = 0; d < reversed.size(); d++)
        reversed[d] = chosen[d];
    launch_remap(out, self, kFlip, reversed);
    return out;
}

at::Tensor roll_along(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims)
{
    TORCH_CHECK(!shifts.empty(), "`shifts` required");
    if (dims.empty() && shifts.size() == 1)
        return roll_along(self.contiguous().view(-1), shifts, {0}).view(self.sizes());
    TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
                ", dims:", dims.size());
    auto out = new_tensor_like(self, self.scalar_type());
    at::DimVector total(static_cast<size_t>(self.dim()), 0);
    for (size_t i = 0; i < dims.size(); i++) {
        int64_t dim = at::maybe_wrap_dim(dims[i], self.dim(), /*wrap_scalar=*/false);
        if (self.size(dim) != 0)
            total[static_cast<size_t>(dim)] += shifts[i] % self.size(dim);
    }
    if (self.dim() == 0)
        return out.copy_(self);
    launch_remap(out, self, kRoll, total);
    return out;
}

// ---- padding -------------------------------------------------------------------------------------
// Padding comes as (front, back) pairs, the last dimension first.

template <RemapKind Kind, int Spatial>
struct Pad {
    static std::string name()
    {
        return (Kind == kReflect ? "reflection_pad" : "replication_pad") + std::to_string(Spatial) + "d";
    }
    static at::DimVector sizes(const at::Tensor& self, at::IntArrayRef padding)
    {
        TORCH_CHECK(padding.size() == 2 * Spatial, "padding size is expected to be ", 2 * Spatial,
                    ", but got: ", padding.size());
        bool fits = self.dim() == Spatial + 1 || self.dim() == Spatial + 2;
        for (int64_t d = self.dim() - Spatial - 1; fits && d < self.dim(); d++)
            fits = self.size(d) != 0 || (Kind == kReflect && d < self.dim() - Spatial);
        TORCH_CHECK(fits, name(), ": expected ", Spatial + 1, "D or ", Spatial + 2,
                    "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                    "input, but got: ",
                    self.sizes());
        at::DimVector result(self.sizes());
        for (int i = 0; i < Spatial; i++) {
            int64_t dim = self.dim() - 1 - i, front = padding[2 * i], back = padding[2 * i + 1];
            if (Kind == kReflect)
                TORCH_CHECK(front < self.size(dim) && back < self.size(dim),
                            "Argument #4: Padding size should be less than the corresponding input "
                            "dimension, but got: padding (",
                            front, ", ", back, ") at dimension ", dim, " of input ", self.sizes());
            int64_t& size = result[static_cast<size_t>(dim)];
            size += front + back;
            TORCH_CHECK(size >= 1, name(), ": input ", self.sizes(), " with padding ", padding,
                        " is too small: calculated output size ", size, " at dimension ", dim);
        }
        return result;
    }
    static at::DimVector fronts(const at::Tensor& self, at::IntArrayRef padding)
    {
        at::DimVector result(static_cast<size_t>(self.dim()), 0);
        for (size_t i = 0; i < Spatial; i++)
            result[result.size() - 1 - i] = padding[2 * i];
        return result;
    }
    static at::MemoryFormat format(const at::Tensor& self)
    {
        auto format = self.suggest_memory_format();
        bool fits = format == at::MemoryFormat::ChannelsLast ? Spatial == 2 : Spatial == 3;
        return fits ? format : at::MemoryFormat::Contiguous;
    }
    static at::Tensor forward(const at::Tensor& self, at::IntArrayRef padding)
    {
        auto out = new_tensor(sizes(self, padding), self.scalar_type(), self.device());
        if (format(self) != at::MemoryFormat::Contiguous)
            out.unsafeGetTensorImpl()->empty_tensor_restride(format(self));
        launch_remap(out, self, Kind, fronts(self, padding));
        return out;
    }
    static at::Tensor& forward_out(const at::Tensor& self, at::IntArrayRef padding, at::Tensor& out)
    {
        auto shape = sizes(self, padding);
        TORCH_CHECK(out.dtype() == self.dtype(), "Expected out tensor to have dtype ", self.dtype(),
                    ", but got ", out.dtype(), " instead");
        check_same_device(name().c_str(), {&self, &out});
        at::native::resize_output(out, shape);
        launch_remap(out, self, Kind, fronts(self, padding));
        return out;
    }
    static at::Tensor& backward_out(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef padding,
                                    at::Tensor& grad_input)
    {
        auto shape = sizes(self, padding);
        TORCH_CHECK(grad.sizes() == at::IntArrayRef(shape), name(),
                    "_backward: grad_output size unexpected. Expected: ", at::IntArrayRef(shape),
                    ", Got: ", grad.sizes());
        TORCH_CHECK_NOT_IMPLEMENTED(resamples(grad), "\"", name(), "_backward\" not implemented for '",
                                    grad.scalar_type(), "'");
        at::native::resize_output(grad_input, self.sizes());
        Resample resample{.kind = Kind == kReflect ? Taps::Reflect : Taps::Replicate,
                          .spatial = Spatial,
                          .gradient = true};
        for (int i = Spatial - 1; i >= 0; i--)
            resample.parameters.insert(resample.parameters.end(),
                                       {static_cast<double>(padding[2 * i]), 0, 0});
        resample.run(grad_input, grad);
        return grad_input;
    }
    static at::Tensor backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef padding)
    {
        auto grad_input = new_tensor(self.sizes(), self.scalar_type(), self.device());
        if (format(self) != at::MemoryFormat::Contiguous)
            grad_input.unsafeGetTensorImpl()->empty_tensor_restride(format(self));
        return backward_out(grad, self, padding, grad_input);
    }
    static void add(torch::Library& m)
    {
        m.impl(name().c_str(), &forward);
        m.impl((name() + ".out").c_str(), &forward_out);
        m.impl((name() + "_backward").c_str(), &backward);
        m.impl((name() + "_backward.grad_input").c_str(), &backward_out);
    }
};

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("flip", &flip);
    m.impl("roll", &roll_along);
    Pad<kReflect, 1>::add(m);
    Pad<kReflect, 2>::add(m);
    Pad<kReflect, 3>::add(m);
    Pad<kReplicate, 1>::add(m);
    Pad<kReplicate, 2>::add(m);
    Pad<kReplicate, 3>::add(m);
}
