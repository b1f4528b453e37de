#include "structured.h"

#include "launch.h"
#include "tn/op/copy.h"

namespace neuron {

at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options)
{
    auto dtype = c10::typeMetaToScalarType(options.dtype());
    auto device = resolve_device(options.device_opt());
    if (!strides.empty())
        return new_tensor(sizes, strides, dtype, device);
    auto result = new_tensor(sizes, dtype, device);
    if (auto format = options.memory_format_opt())
        result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    return result;
}

void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options)
{
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ",
                options.dtype(), ", but got ", out.dtype(), " instead");
    TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ",
                options.device(), ", but got ", out.device(), " instead");
    if (!at::native::resize_output(out, sizes))
        return;
    if (!strides.empty())
        out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    else if (auto format = options.memory_format_opt())
        out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options)
{
    TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: ", "input tensor dtype ",
                self.dtype(), " and output tensor dtype ", options.dtype(), " should match");
    TORCH_CHECK(options.device() == self.device(), "Bad in-place call: ", "input tensor device ",
                self.device(), " and output tensor device ", options.device(), " should match");
    TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: ", "input tensor size ", self.sizes(),
                " and output tensor size ", sizes, " should match");
}

void copy_back(const at::Tensor& proxy, const at::Tensor& out)
{
    Launch(TN_OP_copy).out(out).in(proxy).run();
}

} // namespace neuron
