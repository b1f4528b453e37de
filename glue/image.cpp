// Sampling at the points of a grid, windows as columns and back, and the shuffle of channels.
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/im2col_shape_check.h>
#include <torch/library.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/image.h"

namespace neuron
{
namespace
{

using at::Tensor;

// ---- grid_sampler -------------------------------------------------------------------------------

// fp32 for half-width floats, which are rounded once at the end.
at::ScalarType sampling_dtype(const char *name, const Tensor &input, const Tensor &grid)
{
    auto dtype = input.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(dtype) && !c10::isFloat8Type(dtype), "\"", name,
                                "\" not implemented for '", dtype, "'");
    TORCH_CHECK(grid.scalar_type() == dtype, name, ": expected scalar type ", dtype,
                " of the grid but found ", grid.scalar_type());
    return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

template <int Spatial>
void check_sampler(const Tensor &input, const Tensor &grid, int64_t mode)
{
    at::native::check_grid_sampler_common(input, grid);
    if constexpr (Spatial == 2)
        at::native::check_grid_sampler_2d(input, grid);
    else
        at::native::check_grid_sampler_3d(input, grid, mode);
}

at::DimVector sampled_sizes(const Tensor &input, const Tensor &grid)
{
    at::DimVector sizes{input.size(0), input.size(1)};
    for (int64_t d = 1; d < grid.dim() - 1; d++)
        sizes.push_back(grid.size(d));
    return sizes;
}

template <int Spatial>
constexpr const char *sampler_name = Spatial == 2 ? "grid_sampler_2d" : "grid_sampler_3d";

template <int Spatial>
Tensor grid_sampler(const Tensor &input, const Tensor &grid, int64_t mode, int64_t padding,
                    bool align_corners)
{
    check_sampler<Spatial>(input, grid, mode);
    auto wide = sampling_dtype(sampler_name<Spatial>, input, grid);
    Tensor out = new_tensor(sampled_sizes(input, grid), wide, input.device());
    if (out.numel() != 0)
        Launch(TN_OP_grid_sample)
            .out(out)
            .in(input.to(wide))
            .in(grid.to(wide))
            .scalar(mode)
            .scalar(padding)
            .scalar(align_corners)
            .run();
    return out.to(input.scalar_type());
}

template <int Spatial>
std::tuple<Tensor, Tensor> grid_sampler_backward(const Tensor &grad, const Tensor &input,
                                                 const Tensor &grid, int64_t mode, int64_t padding,
                                                 bool align_corners, std::array<bool, 2> mask)
{
    check_sampler<Spatial>(input, grid, mode);
    auto wide = sampling_dtype(sampler_name<Spatial>, input, grid);
    TORCH_CHECK(grad.sizes() == sampled_sizes(input, grid), sampler_name<Spatial>,
                "_backward(): expected a gradient of shape ",
                at::IntArrayRef(sampled_sizes(input, grid)), " but got ", grad.sizes());
    Tensor grad_input, grad_grid;
    if (mask[0])
        grad_input = new_tensor(input.sizes(), wide, input.device());
    if (mask[1])
        grad_grid = new_tensor(grid.sizes(), wide, input.device());
    if (mask[0] || mask[1])
        Launch(TN_OP_grid_sample_backward)
            .out(grad_input)
            .out(grad_grid)
            .in(grad.to(wide).contiguous())
            .in(input.to(wide))
            .in(grid.to(wide))
            .scalar(mode)
            .scalar(padding)
            .scalar(align_corners)
            .run();
    if (mask[0])
        grad_input = grad_input.to(input.scalar_type());
    if (mask[1])
        grad_grid = grad_grid.to(grid.scalar_type());
    return {grad_input, grad_grid};
}

// ---- im2col and col2im --------------------------------------------------------------------------

struct Windows {
    at::IntArrayRef kernel, dilation, padding, stride;
    // ATen's checks of the arguments' lengths.
    void check() const
    {
        TORCH_CHECK(kernel.size() == 2, "It is expected kernel_size equals to 2, but got size ",
                    kernel.size());
        TORCH_CHECK(dilation.size() == 2, "It is expected dilation equals to 2, but got size ",
                    dilation.size());
        TORCH_CHECK(padding.size() == 2, "It is expected padding equals to 2, but got size ",
                    padding.size());
        TORCH_CHECK(stride.size() == 2, "It is expected stride equals to 2, but got size ",
                    stride.size());
    }
    int64_t count(int64_t size, int d) const
    {
        return (size + 2 * padding[d] - (dilation[d] * (kernel[d] - 1) + 1)) / stride[d] + 1;
    }
    void pass(Launch &launch, int64_t height, int64_t width) const
    {
        for (at::IntArrayRef pair : {kernel, dilation, padding, stride})
            launch.scalar(pair[0]).scalar(pair[1]);
        launch.scalar(count(height, 0)).scalar(count(width, 1));
    }
};

void check_window_dtype(const char *name, at::ScalarType dtype)
{
    TORCH_CHECK_NOT_IMPLEMENTED((at::isFloatingType(dtype) && !c10::isFloat8Type(dtype)) ||
                                    dtype == at::kBool || dtype == at::kComplexFloat ||
                                    dtype == at::kComplexDouble,
                                "\"", name, "\" not implemented for '", dtype, "'");
}

void run_windows(int op, const Tensor &out, const Tensor &self, const Windows &windows,
                 int64_t height, int64_t width)
{
    if (out.numel() == 0)
        return;
    Tensor target =
        out.is_contiguous() ? out : new_tensor(out.sizes(), out.scalar_type(), out.device());
    Launch launch(op);
    launch.out(target).in(self.resolve_conj().resolve_neg());
    windows.pass(launch, height, width);
    launch.run();
    if (!target.is_same(out))
        copy_back(target, out);
}

Tensor &im2col_out(const Tensor &self, at::IntArrayRef kernel, at::IntArrayRef dilation,
                   at::IntArrayRef padding, at::IntArrayRef stride, Tensor &out)
{
    check_same_device("im2col", {&self, &out});
    Windows windows{kernel, dilation, padding, stride};
    windows.check();
    at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                   padding[0], padding[1], stride[0], stride[1]);
    check_window_dtype("im2col_out_cpu", self.scalar_type());
    Tensor images = self.dim() == 3 ? self.unsqueeze(0) : self;
    int64_t length = windows.count(images.size(2), 0) * windows.count(images.size(3), 1);
    int64_t lines = images.size(1) * kernel[0] * kernel[1];
    bool single = self.dim() == 3;
    prepare_out(
        out, single ? at::DimVector{lines, length} : at::DimVector{images.size(0), lines, length},
        {}, self.options());
    run_windows(TN_OP_im2col, single ? out.unsqueeze(0) : out, images, windows, images.size(2),
                images.size(3));
    return out;
}

Tensor im2col(const Tensor &self, at::IntArrayRef kernel, at::IntArrayRef dilation,
              at::IntArrayRef padding, at::IntArrayRef stride)
{
    Tensor out = new_tensor({0}, self.scalar_type(), self.device());
    return im2col_out(self, kernel, dilation, padding, stride, out);
}

Tensor &col2im_out(const Tensor &self, at::IntArrayRef size, at::IntArrayRef kernel,
                   at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride,
                   Tensor &out)
{
    check_same_device("col2im", {&self, &out});
    Windows windows{kernel, dilation, padding, stride};
    TORCH_CHECK(size.size() == 2, "It is expected output_size equals to 2, but got size ",
                size.size());
    windows.check();
    at::native::col2im_shape_check(self, Tensor(), size[0], size[1], kernel[0], kernel[1],
                                   dilation[0], dilation[1], padding[0], padding[1], stride[0],
                                   stride[1]);
    check_window_dtype("col2im_out_cpu", self.scalar_type());
    Tensor columns = self.dim() == 2 ? self.unsqueeze(0) : self;
    int64_t channels = columns.size(1) / (kernel[0] * kernel[1]);
    bool single = self.dim() == 2;
    prepare_out(out,
                single ? at::DimVector{channels, size[0], size[1]}
                       : at::DimVector{columns.size(0), channels, size[0], size[1]},
                {}, self.options());
    run_windows(TN_OP_col2im, single ? out.unsqueeze(0) : out, columns, windows, size[0], size[1]);
    return out;
}

Tensor col2im(const Tensor &self, at::IntArrayRef size, at::IntArrayRef kernel,
              at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride)
{
    Tensor out = new_tensor({0}, self.scalar_type(), self.device());
    return col2im_out(self, size, kernel, dilation, padding, stride, out);
}

// ---- channel_shuffle ----------------------------------------------------------------------------

Tensor channel_shuffle(const Tensor &self, int64_t groups)
{
    TORCH_CHECK(self.dim() > 2,
                "channel_shuffle expects input with > 2 dims, but got input with sizes ",
                self.sizes());
    TORCH_CHECK(
        groups > 0,
        "Number of groups to divide channels in must be positive. Value of groups:", groups);
    int64_t channels = self.size(1);
    TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ",
                channels, " channels and ", groups, " groups.");
    at::DimVector split(self.sizes());
    split[1] = channels / groups;
    split.insert(split.begin() + 1, groups);
    return self.reshape(split)
        .transpose(1, 2)
        .reshape(self.sizes())
        .contiguous(self.suggest_memory_format());
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("grid_sampler_2d", &grid_sampler<2>);
    m.impl("grid_sampler_3d", &grid_sampler<3>);
    m.impl("grid_sampler_2d_backward", &grid_sampler_backward<2>);
    m.impl("grid_sampler_3d_backward", &grid_sampler_backward<3>);
    m.impl("im2col", &im2col);
    m.impl("im2col.out", &im2col_out);
    m.impl("col2im", &col2im);
    m.impl("col2im.out", &col2im_out);
    m.impl("channel_shuffle", &channel_shuffle);
}
