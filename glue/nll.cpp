// Negative log likelihood, 1-D and 2-D: the kernel sees [N, C, S] and [N, S].
#include <torch/library.h>

#include <ATen/native/Resize.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/nll.h"

namespace neuron {
namespace {

using MaybeTensor = std::optional<at::Tensor>;

constexpr int64_t kNone = 0;

// [C] and [N, C] gain the dimensions that they lack; [N, C, H, W] joins its positions.
at::Tensor as_samples(const at::Tensor& self)
{
    if (self.dim() == 1)
        return self.view({1, self.size(0), 1});
    if (self.dim() == 2)
        return self.unsqueeze(2);
    return self.flatten(2);
}

at::Tensor as_targets(const at::Tensor& target, int64_t input_dim)
{
    if (input_dim <= 2)
        return target.reshape({-1, 1});
    return target.flatten(1);
}

void forward(const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight,
             int64_t reduction, int64_t ignored, const at::Tensor& out, const at::Tensor& total)
{
    if (self.numel() == 0 && self.dim() > 1 && reduction == kNone && self.size(0) == 0) {
        total.zero_();
        return;
    }
    at::Tensor x = as_samples(self), t = as_targets(target, self.dim()).contiguous();
    at::Tensor w = weight.defined() ? weight.contiguous() : weight;
    at::Tensor result = out.is_contiguous() ? out : new_tensor(out.sizes(), out.scalar_type(), out.device());
    Launch(TN_OP_nll_loss)
        .out(result)
        .out(total)
        .in(x)
        .in(t)
        .in(w)
        .scalar(reduction)
        .scalar(ignored)
        .run();
    if (!result.is_same(out))
        copy_back(result, out);
}

void backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
              const at::Tensor& weight, int64_t reduction, int64_t ignored, const at::Tensor& total,
              const at::Tensor& out)
{
    out.zero_();
    if (self.numel() == 0)
        return;
    at::Tensor result = out.is_contiguous()
                            ? out
                            : new_tensor(out.sizes(), out.scalar_type(), out.device()).zero_();
    at::Tensor shaped = as_samples(result), t = as_targets(target, self.dim()).contiguous();
    at::Tensor g = reduction == kNone ? as_targets(grad, self.dim()) : grad;
    at::Tensor w = weight.defined() ? weight.contiguous() : weight;
    Launch(TN_OP_nll_loss_backward)
        .out(shaped)
        .in(g)
        .in(t)
        .in(w)
        .in(total)
        .scalar(reduction)
        .scalar(ignored)
        .run();
    if (!result.is_same(out))
        copy_back(result, out);
}

void check_dtypes(const at::Tensor& self, const at::Tensor& target)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) && self.element_size() > 1,
                                "\"nll_loss_out_frame\" not implemented for '", self.scalar_type(), "'");
    TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
                "expected scalar type Long or Byte but found ", target.scalar_type());
}

// ---- 1-D: structured -------------------------------------------------------------------------------

using ForwardMeta = Structured<at::meta::structured_nll_loss_forward, 2>;
using BackwardMeta = Structured<at::meta::structured_nll_loss_backward>;

at::Tensor given(const MaybeTensor& tensor)
{
    return tensor.value_or(at::Tensor());
}

std::tuple<at::Tensor, at::Tensor> nll_loss_forward(const at::Tensor& self, const at::Tensor& target,
                                                    const MaybeTensor& weight, int64_t reduction,
                                                    int64_t ignored)
{
    check_dtypes(self, target);
    ForwardMeta op;
    op.meta(self, target, meta_argument(weight), reduction, ignored);
    forward(self, target, given(weight), reduction, ignored, op.output(0), op.output(1));
    return {op.take(0), op.take(1)};
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss_forward_out(const at::Tensor& self,
                                                          const at::Tensor& target,
                                                          const MaybeTensor& weight, int64_t reduction,
                                                          int64_t ignored, at::Tensor& out,
                                                          at::Tensor& total)
{
    check_dtypes(self, target);
    ForwardMeta op(Variant::Out, {out, total});
    op.meta(self, target, meta_argument(weight), reduction, ignored);
    forward(self, target, given(weight), reduction, ignored, op.output(0), op.output(1));
    op.finish();
    return {out, total};
}

at::Tensor nll_loss_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                             const MaybeTensor& weight, int64_t reduction, int64_t ignored,
                             const at::Tensor& total)
{
    check_dtypes(self, target);
    BackwardMeta op;
    op.meta(grad, self, target, meta_argument(weight), reduction, ignored, total);
    backward(grad, self, target, given(weight), reduction, ignored, total, op.output());
    return op.take();
}

at::Tensor& nll_loss_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                  const at::Tensor& target, const MaybeTensor& weight,
                                  int64_t reduction, int64_t ignored, const at::Tensor& total,
                                  at::Tensor& out)
{
    check_dtypes(self, target);
    BackwardMeta op(Variant::Out, {out});
    op.meta(grad, self, target, meta_argument(weight), reduction, ignored, total);
    backward(grad, self, target, given(weight), reduction, ignored, total, op.output());
    op.finish();
    return out;
}

// ---- 2-D ---------------------------------------------------------------------------------------------

void check_2d(const at::Tensor& self, const at::Tensor& target, const MaybeTensor& weight)
{
    check_dtypes(self, target);
    TORCH_CHECK(target.dim() == 3, "only batches of spatial targets supported (3D tensors) but got "
                "targets of dimension: ", target.dim());
    TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got input "
                "of dimension: ", self.dim());
    TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
                "weight tensor should be defined either for all or no classes");
    TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
                    self.size(3) == target.size(2),
                "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}

std::tuple<at::Tensor&, at::Tensor&> nll_loss2d_forward_out(const at::Tensor& self,
                                                            const at::Tensor& target,
                                                            const MaybeTensor& weight,
                                                            int64_t reduction, int64_t ignored,
                                                            at::Tensor& out, at::Tensor& total)
{
    check_2d(self, target, weight);
    at::native::resize_output(out, reduction == kNone ? target.sizes() : at::IntArrayRef());
    at::native::resize_output(total, {});
    forward(self, target, given(weight), reduction, ignored, out, total);
    return {out, total};
}

std::tuple<at::Tensor, at::Tensor> nll_loss2d_forward(const at::Tensor& self, const at::Tensor& target,
                                                      const MaybeTensor& weight, int64_t reduction,
                                                      int64_t ignored)
{
    at::Tensor out = new_tensor({0}, self.scalar_type(), self.device());
    at::Tensor total = new_tensor({0}, self.scalar_type(), self.device());
    nll_loss2d_forward_out(self, target, weight, reduction, ignored, out, total);
    return {out, total};
}

at::Tensor& nll_loss2d_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                    const at::Tensor& target, const MaybeTensor& weight,
                                    int64_t reduction, int64_t ignored, const at::Tensor& total,
                                    at::Tensor& out)
{
    check_2d(self, target, weight);
    at::native::resize_output(out, self.sizes());
    backward(grad, self, target, given(weight), reduction, ignored, total, out);
    return out;
}

at::Tensor nll_loss2d_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                               const MaybeTensor& weight, int64_t reduction, int64_t ignored,
                               const at::Tensor& total)
{
    at::Tensor out = new_tensor(self.sizes(), self.scalar_type(), self.device());
    return nll_loss2d_backward_out(grad, self, target, weight, reduction, ignored, total, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("nll_loss_forward", &neuron::nll_loss_forward);
    m.impl("nll_loss_forward.output", &neuron::nll_loss_forward_out);
    m.impl("nll_loss_backward", &neuron::nll_loss_backward);
    m.impl("nll_loss_backward.grad_input", &neuron::nll_loss_backward_out);
    m.impl("nll_loss2d_forward", &neuron::nll_loss2d_forward);
    m.impl("nll_loss2d_forward.output", &neuron::nll_loss2d_forward_out);
    m.impl("nll_loss2d_backward", &neuron::nll_loss2d_backward);
    m.impl("nll_loss2d_backward.grad_input", &neuron::nll_loss2d_backward_out);
}
