// softmax and log_softmax: the kernel sees contiguous tensors as [outer, n, inner].
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_meta.h>

#include "launch.h"
#include "structured.h"
#include "tn/op/softmax.h"

namespace neuron {
namespace {

// `out` is written through a contiguous tensor where it is not contiguous itself.
void run(int op, const at::Tensor& out, const at::Tensor& first, const at::Tensor* second, int64_t dim)
{
    if (out.numel() == 0)
        return;
    int64_t n = 1, inner = 1;
    if (first.dim() > 0) {
        dim = at::maybe_wrap_dim(dim, first.dim());
        n = first.size(dim);
        for (int64_t d = dim + 1; d < first.dim(); d++)
            inner *= first.size(d);
    }
    bool dense = out.is_contiguous();
    at::Tensor target = dense ? at::Tensor() : new_tensor(out.sizes(), out.scalar_type(), out.device());
    auto a = first.expect_contiguous();
    auto b = second ? second->expect_contiguous() : c10::MaybeOwned<at::Tensor>();
    Launch launch(op);
    launch.out(dense ? out : target).in(*a);
    if (second)
        launch.in(*b);
    launch.scalar(n).scalar(inner).run();
    if (!dense)
        copy_back(target, out);
}

void check_floating(const char* op, const at::Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) && self.element_size() > 1, "\"", op,
                                "\" not implemented for '", self.scalar_type(), "'");
}

template <class Meta, int Op>
struct Forward {
    static at::Tensor call(const at::Tensor& self, int64_t dim, bool half_to_float)
    {
        check_floating(tn_op_name(Op), self);
        if (self.is_contiguous() && self.numel() != 0 && !half_to_float) { // nothing left for the meta function
            dim = at::maybe_wrap_dim(dim, self.dim());
            at::Tensor out = new_tensor(self.sizes(), self.scalar_type(), self.device());
            run(Op, out, self, nullptr, dim);
            return out;
        }
        Structured<Meta> op;
        op.meta(self, dim, half_to_float);
        run(Op, op.output(), self, nullptr, dim);
        return op.take();
    }
    static at::Tensor& out(const at::Tensor& self, int64_t dim, bool half_to_float, at::Tensor& out)
    {
        check_floating(tn_op_name(Op), self);
        Structured<Meta> op(Variant::Out, {out});
        op.meta(self, dim, half_to_float);
        run(Op, op.output(), self, nullptr, dim);
        op.finish();
        return out;
    }
};

template <class Meta, int Op>
struct Backward {
    static at::Tensor call(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                           at::ScalarType input_dtype)
    {
        Structured<Meta> op;
        op.meta(grad, output, dim, input_dtype);
        run(Op, op.output(), grad, &output, dim);
        return op.take();
    }
    static at::Tensor& out(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                           at::ScalarType input_dtype, at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        op.meta(grad, output, dim, input_dtype);
        run(Op, op.output(), grad, &output, dim);
        op.finish();
        return out;
    }
};

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using Softmax = Forward<at::meta::structured__softmax, TN_OP_softmax>;
    using LogSoftmax = Forward<at::meta::structured__log_softmax, TN_OP_log_softmax>;
    using SoftmaxBackward = Backward<at::meta::structured__softmax_backward_data, TN_OP_softmax_backward>;
    using LogSoftmaxBackward =
        Backward<at::meta::structured__log_softmax_backward_data, TN_OP_log_softmax_backward>;
    m.impl("_softmax", &Softmax::call);
    m.impl("_softmax.out", &Softmax::out);
    m.impl("_log_softmax", &LogSoftmax::call);
    m.impl("_log_softmax.out", &LogSoftmax::out);
    m.impl("_softmax_backward_data", &SoftmaxBackward::call);
    m.impl("_softmax_backward_data.out", &SoftmaxBackward::out);
    m.impl("_log_softmax_backward_data", &LogSoftmaxBackward::call);
    m.impl("_log_softmax_backward_data.out", &LogSoftmaxBackward::out);
}
