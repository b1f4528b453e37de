#include "launch.h"

#include "wait.h"

#include <ATen/core/Scalar.h>
#include <ATen/ops/_local_scalar_dense.h>

namespace neuron {

int64_t mode_code(std::string_view text)
{
    if (text == "none")
        return 0;
    if (text == "tanh" || text == "floor")
        return 1;
    if (text == "trunc")
        return 2;
    TORCH_CHECK(false, "unknown mode '", text, "'");
}

Launch& Launch::immediate(const at::TensorBase& tensor)
{
    TORCH_CHECK(tensor.device().is_cpu() && tensor.dim() == 0,
                "Expected all tensors to be on the same device, but found at least two devices, "
                "neuron and ",
                tensor.device(), "!");
    operands_.emplace_back();
    tn_operand& result = operands_.back();
    result = {};
    describe(result, tensor);
    result.flags = TN_OPERAND_IMMEDIATE; // item() has already resolved conj and neg
    result.value = to_scalar(at::_local_scalar_dense(at::Tensor(tensor)));
    return *this;
}

void Launch::refuse_devices(c10::DeviceIndex other) const
{
    TORCH_CHECK(false, tn_op_name(desc_.op), ": Expected all tensors to be on the same device, but found at "
                "least two devices, neuron:", static_cast<int>(device_), " and neuron:",
                static_cast<int>(other), "!");
}

Launch& Launch::host(const at::TensorBase& tensor)
{
    TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == c10::kStrided,
                "neuron can only copy from and to dense host tensors, but got a ", tensor.layout(),
                " tensor on ", tensor.device());
    operands_.emplace_back();
    tn_operand& result = operands_.back();
    result = {};
    describe(result, tensor);
    result.flags |= TN_OPERAND_HOST;
    result.data = tensor.unsafeGetTensorImpl()->mutable_data();
    return *this;
}

void Launch::run_complete()
{
    desc_.flags = TN_LAUNCH_COMPLETE_HOST;
    tn_status status = run_status();
    if (status == TN_TIMEOUT)
        wait_until_done([this] { return run_status(); });
    else
        check(status);
}

} // namespace neuron
