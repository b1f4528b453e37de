// Autocast on the device: the op lists of the other accelerators, expanded from ATen's own header.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace neuron {
namespace {

at::Tensor binary_cross_entropy_banned(const at::Tensor&, const at::Tensor&,
                                       const std::optional<at::Tensor>&, int64_t)
{
    TORCH_CHECK(false, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
                       "autocast. Use torch.nn.functional.binary_cross_entropy_with_logits or "
                       "torch.nn.BCEWithLogitsLoss, which combine a sigmoid with the loss and are safe "
                       "to autocast.");
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

// The header's macros name ATen's types without a namespace.
namespace at {
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m)
{
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
    AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
    AT_FORALL_FP32(FP32)
#define FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
    AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_OPT_DTYPE)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_PROMOTE(PROMOTE)
    m.impl("binary_cross_entropy", &neuron::binary_cross_entropy_banned);
}
} // namespace at
