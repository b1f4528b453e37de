// Scans along a dimension: cumsum, cumprod, cummax, cummin, logcumsumexp.
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include <ATen/ops/cumprod_meta.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/view_as_real.h>

#include "dims.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/scan.h"

namespace neuron {
namespace {

using Dtype = std::optional<at::ScalarType>;

// `self` in the result's dtype; the kernel widens integers to int64 by itself.
at::Tensor converted(const at::Tensor& self, at::ScalarType dtype)
{
    bool widened = dtype == at::kLong && c10::isIntegralType(self.scalar_type(), true);
    return widened || self.scalar_type() == dtype ? self.resolve_neg() : self.to(dtype);
}

void check_dtype(const char* name, at::ScalarType dtype, bool boolean)
{
    TORCH_CHECK_NOT_IMPLEMENTED((is_row_dtype(dtype) && !c10::isBarebonesUnsignedType(dtype) &&
                                 (boolean || dtype != at::kBool)) ||
                                    (!boolean && (dtype == at::kComplexFloat || dtype == at::kComplexDouble)),
                                "\"", name, "\" not implemented for '", dtype, "'");
}

void launch_scan(int op, const at::Tensor& out, const at::Tensor& self, int64_t dim)
{
    dim = at::maybe_wrap_dim(dim, self.dim());
    if (self.numel() != 0)
        Launch(op).out(out).in(self).scalar(dim).run();
}

template <class Meta, int Op>
struct Cumulative {
    static constexpr const char* kName = Op == TN_OP_cumsum ? "cumsum_out_cpu" : "cumprod_out_cpu";

    static void run(const at::Tensor& out, const at::Tensor& self, int64_t dim)
    {
        if (self.numel() == 0)
            return;
        auto dtype = out.scalar_type();
        auto input = converted(self, dtype);
        check_dtype(kName, dtype, false);
        if (!c10::isComplexType(dtype))
            return launch_scan(Op, out, input, dim);
        dim = at::maybe_wrap_dim(dim, self.dim());
        input = input.resolve_conj();
        if (Op == TN_OP_cumprod)
            launch_scan(TN_OP_cumprod_complex, out, input, dim);
        else if (self.dim() == 0)
            out.copy_(input);
        else
            launch_scan(TN_OP_cumsum, at::view_as_real(out), at::view_as_real(input), dim);
    }
    static at::Tensor call(const at::Tensor& self, int64_t dim, Dtype dtype)
    {
        Structured<Meta> op;
        op.meta(self, dim, dtype);
        run(op.output(), self, dim);
        return op.take();
    }
    static at::Tensor& inplace(at::Tensor& self, int64_t dim, Dtype dtype)
    {
        Structured<Meta> op(Variant::InPlace, {self});
        op.meta(self, dim, dtype);
        run(op.output(), self, dim);
        op.finish();
        return self;
    }
    static at::Tensor& out(const at::Tensor& self, int64_t dim, Dtype dtype, at::Tensor& out)
    {
        Structured<Meta> op(Variant::Out, {out});
        op.meta(self, dim, dtype);
        run(op.output(), self, dim);
        op.finish();
        return out;
    }
};
using Cumsum = Cumulative<at::meta::structured_cumsum, TN_OP_cumsum>;
using Cumprod = Cumulative<at::meta::structured_cumprod, TN_OP_cumprod>;

// ATen has checked and sized everything.
template <int Op>
void extremum_helper(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim)
{
    check_dtype(Op == TN_OP_cummax ? "cummax_cpu" : "cummin_cpu", self.scalar_type(), true);
    if (self.numel() != 0)
        Launch(Op).out(values).out(indices).in(self.resolve_neg())
            .scalar(at::maybe_wrap_dim(dim, self.dim())).run();
}

at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out)
{
    bool complex = self.scalar_type() == at::kComplexFloat || self.scalar_type() == at::kComplexDouble;
    TORCH_CHECK_NOT_IMPLEMENTED(complex || (at::isFloatingType(self.scalar_type()) && is_row_dtype(self.scalar_type())),
                                "\"logcumsumexp_out_cpu\" not implemented for '", self.scalar_type(), "'");
    at::native::resize_output(out, self.sizes());
    launch_scan(complex ? TN_OP_logcumsumexp_complex : TN_OP_logcumsumexp, out,
                self.resolve_conj().resolve_neg(), dim);
    return out;
}

at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim)
{
    auto out = new_tensor_like(self, self.scalar_type());
    return logcumsumexp_out(self, dim, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("cumsum", &neuron::Cumsum::call);
    m.impl("cumsum_", &neuron::Cumsum::inplace);
    m.impl("cumsum.out", &neuron::Cumsum::out);
    m.impl("cumprod", &neuron::Cumprod::call);
    m.impl("cumprod_", &neuron::Cumprod::inplace);
    m.impl("cumprod.out", &neuron::Cumprod::out);
    m.impl("_cummax_helper", &neuron::extremum_helper<TN_OP_cummax>);
    m.impl("_cummin_helper", &neuron::extremum_helper<TN_OP_cummin>);
    m.impl("_logcumsumexp", &neuron::logcumsumexp);
    m.impl("_logcumsumexp.out", &neuron::logcumsumexp_out);
}
