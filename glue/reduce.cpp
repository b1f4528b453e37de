// Reductions. ATen's meta functions decide shape, dtype and errors of the structured ones; dtypes that
// the kernels do not compute in (fp8) go to the host fallback.
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <ATen/ops/abs.h>
#include <ATen/ops/all_meta.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/norm_meta.h>
#include <ATen/ops/prod_meta.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/view_as_real.h>

#include "dims.h"
#include "fallback.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/reduce.h"

namespace neuron {
namespace {

using Dtype = std::optional<at::ScalarType>;
using OptionalScalar = std::optional<at::Scalar>;
using Dims = at::OptionalIntArrayRef;

// Complex numbers of a dtype that the kernels read, nothing pending.
at::Tensor settled(const at::Tensor& self, at::ScalarType dtype)
{
    return self.to(dtype).resolve_conj().resolve_neg();
}

bool is_wide_complex(at::ScalarType dtype)
{
    return dtype == at::kComplexFloat || dtype == at::kComplexDouble;
}

// out = op over the dimensions of mask, computed in `compute`.
void launch_reduce(int op, const at::Tensor& out, const at::Tensor& self, uint64_t mask,
                   at::ScalarType compute)
{
    if (out.numel() == 0)
        return;
    at::Tensor in = is_wide_complex(out.scalar_type()) ? settled(self, compute) : self;
    if (out.scalar_type() == at::kBool && (op == TN_OP_sum || op == TN_OP_prod)) {
        op = op == TN_OP_sum ? TN_OP_any : TN_OP_all; // of truth values
        compute = self.scalar_type();
    }
    Launch(op).out(out).in(in).scalar(mask_scalar(mask)).compute(compute).run();
}

bool serves(const at::Tensor& self, at::ScalarType compute)
{
    if (is_wide_complex(compute) || compute == at::kBool)
        return is_row_tensor(self) || (is_neuron(self) && is_wide_complex(self.scalar_type()));
    return is_row_tensor(self) && is_row_dtype(compute);
}

// ---- structured ops: functional and out= form of each -----------------------------------------
// A form names its meta class, op and dispatcher names, and says how arguments become a mask.

template <class Form, class Signature>
struct Reduction;

template <class Form, class... Args>
struct Reduction<Form, void(Args...)> {
    static at::Tensor call(const at::Tensor& self, Args... args)
    {
        Structured<typename Form::Meta> op;
        Form::meta(op, self, args...);
        if (!Form::serves(self, op.output()))
            return call_fallback<at::Tensor(const at::Tensor&, Args...)>(Form::name, Form::overload,
                                                                        self, args...);
        Form::launch(op.output(), self, args...);
        return op.take();
    }

    static at::Tensor& out(const at::Tensor& self, Args... args, at::Tensor& out)
    {
        Structured<typename Form::Meta> op(Variant::Out, {out});
        Form::meta(op, self, args...);
        if (!Form::serves(self, op.output()))
            return call_fallback<at::Tensor&(const at::Tensor&, Args..., at::Tensor&)>(
                Form::name, Form::out_overload, self, args..., out);
        Form::launch(op.output(), self, args...);
        op.finish();
        return out;
    }
};

// What most forms share: the meta function takes the arguments as they are, the result's dtype is the
// type to compute in.
template <class MetaClass, int Op>
struct Form {
    using Meta = MetaClass;
    template <class S, class... Args>
    static void meta(S& op, const at::Tensor& self, const Args&... args)
    {
        op.meta(self, meta_argument(args)...);
    }
    static bool serves(const at::Tensor& self, const at::Tensor& out)
    {
        return neuron::serves(self, out.scalar_type());
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, Dims dims, bool, Dtype)
    {
        launch_reduce(Op, out, self, dim_mask(dims, self.dim()), out.scalar_type());
    }
};

#define NAMES(NAME, OVERLOAD, OUT)                                                                  \
    static constexpr const char *name = "aten::" NAME, *overload = OVERLOAD, *out_overload = OUT

struct Sum : Form<at::meta::structured_sum_dim_IntList, TN_OP_sum> {
    NAMES("sum", "dim_IntList", "IntList_out");
};
struct Mean : Form<at::meta::structured_mean_dim, TN_OP_mean> {
    NAMES("mean", "dim", "out");
    static bool serves(const at::Tensor& self, const at::Tensor& out)
    {
        return neuron::serves(self, out.scalar_type()) && !at::isIntegralType(out.scalar_type(), true);
    }
};
struct Prod : Form<at::meta::structured_prod_dim_int, TN_OP_prod> {
    NAMES("prod", "dim_int", "int_out");
    static void launch(const at::Tensor& out, const at::Tensor& self, int64_t dim, bool, Dtype)
    {
        launch_reduce(TN_OP_prod, out, self, dim_mask(at::IntArrayRef(dim), self.dim()), out.scalar_type());
    }
};

// Extrema compute in the input's dtype; unsigned 64-bit order is not that of the kernel's int64.
template <class Meta, int Op>
struct Extremum : Form<Meta, Op> {
    static bool serves(const at::Tensor& self, const at::Tensor&)
    {
        return is_row_tensor(self) && self.scalar_type() != at::kUInt64;
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, at::IntArrayRef dims, bool)
    {
        launch_reduce(Op, out, self, dim_mask(Dims(dims), self.dim()), self.scalar_type());
    }
};
struct Amax : Extremum<at::meta::structured_amax, TN_OP_amax> {
    NAMES("amax", "", "out");
};
struct Amin : Extremum<at::meta::structured_amin, TN_OP_amin> {
    NAMES("amin", "", "out");
};

// Tests read any dtype, complex included.
template <class Meta, int Op>
struct Test : Form<Meta, Op> {
    static bool serves(const at::Tensor& self, const at::Tensor&)
    {
        return is_neuron(self) && (is_row_dtype(self.scalar_type()) ||
                                   self.scalar_type() == at::kComplexFloat ||
                                   self.scalar_type() == at::kComplexDouble);
    }
    static void run(const at::Tensor& out, const at::Tensor& self, uint64_t mask)
    {
        launch_reduce(Op, out, self, mask, self.scalar_type());
    }
    static void launch(const at::Tensor& out, const at::Tensor& self)
    {
        run(out, self, all_dims(self.dim()));
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, int64_t dim, bool)
    {
        run(out, self, dim_mask(at::IntArrayRef(dim), self.dim()));
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, Dims dims, bool)
    {
        run(out, self, dims ? dim_mask(*dims, self.dim()) : all_dims(self.dim()));
    }
};
struct Any : Test<at::meta::structured_any, TN_OP_any> {
    NAMES("any", "", "all_out");
};
struct AnyDim : Test<at::meta::structured_any_dim, TN_OP_any> {
    NAMES("any", "dim", "out");
};
struct AnyDims : Test<at::meta::structured_any_dims, TN_OP_any> {
    NAMES("any", "dims", "dims_out");
};
struct All : Test<at::meta::structured_all, TN_OP_all> {
    NAMES("all", "", "all_out");
};
struct AllDim : Test<at::meta::structured_all_dim, TN_OP_all> {
    NAMES("all", "dim", "out");
};
struct AllDims : Test<at::meta::structured_all_dims, TN_OP_all> {
    NAMES("all", "dims", "dims_out");
};

// The norm of complex numbers is that of their sizes.
bool has_norm(const at::Tensor& self, const at::Tensor& out)
{
    return (is_neuron(self) && is_wide_complex(self.scalar_type()) && is_row_dtype(out.scalar_type())) ||
           serves(self, out.scalar_type());
}

void launch_norm(const at::Tensor& out, const at::Tensor& self, double p, uint64_t mask)
{
    if (out.numel() != 0)
        Launch(TN_OP_norm)
            .out(out)
            .in(self.is_complex() ? at::abs(self.to(c10::toComplexType(out.scalar_type()))) : self)
            .scalar(mask_scalar(mask))
            .scalar(p)
            .compute(out.scalar_type())
            .run();
}

struct VectorNorm : Form<at::meta::structured_linalg_vector_norm, TN_OP_norm> {
    NAMES("linalg_vector_norm", "", "out");
    static bool serves(const at::Tensor& self, const at::Tensor& out)
    {
        return has_norm(self, out);
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, const at::Scalar& order,
                       Dims dims, bool, Dtype)
    {
        launch_norm(out, self, order.toDouble(), dim_mask(dims, self.dim()));
    }
};
struct Norm : Form<at::meta::structured_norm_ScalarOpt_dim, TN_OP_norm> {
    NAMES("norm", "ScalarOpt_dim", "out");
    static bool serves(const at::Tensor& self, const at::Tensor& out)
    {
        return has_norm(self, out);
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, const OptionalScalar& p,
                       at::IntArrayRef dims, bool)
    {
        launch_norm(out, self, p ? p->toDouble() : 2, dim_mask(Dims(dims), self.dim()));
    }
};
struct NormDtype : Form<at::meta::structured_norm_ScalarOpt_dim_dtype, TN_OP_norm> {
    NAMES("norm", "ScalarOpt_dim_dtype", "dtype_out");
    static bool serves(const at::Tensor& self, const at::Tensor& out)
    {
        return has_norm(self, out);
    }
    static void launch(const at::Tensor& out, const at::Tensor& self, const OptionalScalar& p,
                       at::IntArrayRef dims, bool keepdim, at::ScalarType)
    {
        Norm::launch(out, self, p, dims, keepdim);
    }
};

using SumOp = Reduction<Sum, void(Dims, bool, Dtype)>;
using MeanOp = Reduction<Mean, void(Dims, bool, Dtype)>;
using ProdOp = Reduction<Prod, void(int64_t, bool, Dtype)>;
using AmaxOp = Reduction<Amax, void(at::IntArrayRef, bool)>;
using AminOp = Reduction<Amin, void(at::IntArrayRef, bool)>;
using AnyOp = Reduction<Any, void()>;
using AnyDimOp = Reduction<AnyDim, void(int64_t, bool)>;
using AnyDimsOp = Reduction<AnyDims, void(Dims, bool)>;
using AllOp = Reduction<All, void()>;
using AllDimOp = Reduction<AllDim, void(int64_t, bool)>;
using AllDimsOp = Reduction<AllDims, void(Dims, bool)>;
using VectorNormOp =
    Reduction<VectorNorm, void(const at::Scalar&, Dims, bool, Dtype)>;
using NormOp = Reduction<Norm, void(const OptionalScalar&, at::IntArrayRef, bool)>;
using NormDtypeOp =
    Reduction<NormDtype, void(const OptionalScalar&, at::IntArrayRef, bool, at::ScalarType)>;

// ---- over everything ---------------------------------------------------------------------------

bool is_plain_float(const at::Tensor& self, Dtype dtype)
{
    return is_row_tensor(self) && at::isFloatingType(self.scalar_type()) &&
           (!dtype || *dtype == self.scalar_type());
}

at::Tensor reduce_all(int op, const at::Tensor& self, at::ScalarType dtype)
{
    auto out = new_tensor({}, dtype, self.device());
    launch_reduce(op, out, self, all_dims(self.dim()), dtype);
    return out;
}

at::Tensor sum_all(const at::Tensor& self, Dtype dtype)
{
    if (is_plain_float(self, dtype)) [[likely]]
        return reduce_all(TN_OP_sum, self, self.scalar_type());
    return SumOp::call(self, std::nullopt, false, dtype);
}

at::Tensor mean_all(const at::Tensor& self, Dtype dtype)
{
    if (is_plain_float(self, dtype)) [[likely]]
        return reduce_all(TN_OP_mean, self, self.scalar_type());
    return MeanOp::call(self, std::nullopt, false, dtype);
}

at::ScalarType sum_dtype(const at::Tensor& self, Dtype dtype)
{
    if (dtype)
        return *dtype;
    return c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

at::Tensor prod_all(const at::Tensor& self, Dtype dtype)
{
    auto type = sum_dtype(self, dtype);
    if (!serves(self, type))
        return call_fallback<at::Tensor(const at::Tensor&, Dtype)>("aten::prod", "", self, dtype);
    return reduce_all(TN_OP_prod, self, type);
}

template <int Op>
at::Tensor extremum_all(const at::Tensor& self)
{
    constexpr const char* name = Op == TN_OP_amax ? "max" : "min";
    TORCH_CHECK(self.numel() > 0, name, "(): Expected reduction dim to be specified for "
                "input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
    if (!is_row_tensor(self) || self.scalar_type() == at::kUInt64)
        return call_fallback<at::Tensor(const at::Tensor&)>(
            Op == TN_OP_amax ? "aten::max" : "aten::min", "", self);
    return reduce_all(Op, self, self.scalar_type());
}

template <int Op>
at::Tensor& extremum_all_out(const at::Tensor& self, at::Tensor& out)
{
    TORCH_CHECK(self.device() == out.device(), "expected out on ", self.device(), ", got ",
                out.device());
    TORCH_CHECK(c10::canCast(self.scalar_type(), out.scalar_type()), "Expected out tensor to have dtype ",
                self.dtype(), ", but got ", out.dtype(), " instead");
    at::native::resize_output(out, {});
    return out.copy_(extremum_all<Op>(self));
}

// ---- not structured --------------------------------------------------------------------------------

at::Tensor nansum_dims(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype)
{
    if (c10::isIntegralType(self.scalar_type(), true))
        return SumOp::call(self, dims, keepdim, dtype);
    auto type = sum_dtype(self, dtype);
    if (!serves(self, type) || !at::isFloatingType(type))
        return call_fallback<at::Tensor(const at::Tensor&, Dims, bool, Dtype)>("aten::nansum", "", self,
                                                                               dims, keepdim, dtype);
    uint64_t mask = dim_mask(dims, self.dim());
    auto out = new_tensor(reduced_sizes(self, mask, keepdim), type, self.device());
    launch_reduce(TN_OP_nansum, out, self, mask, type);
    return out;
}

at::Tensor& nansum_out(const at::Tensor& self, Dims dims, bool keepdim, Dtype dtype, at::Tensor& out)
{
    TORCH_CHECK(!dtype || *dtype == out.scalar_type(), "nansum: provided dtype must match dtype of "
                "result. Got ", toString(out.scalar_type()), " and ", toString(dtype.value_or(at::kFloat)),
                ".");
    TORCH_CHECK_NOT_IMPLEMENTED(!c10::isIntegralType(out.scalar_type(), true) ||
                                    c10::isIntegralType(self.scalar_type(), true),
                                "nansum of ", self.scalar_type(), " is not implemented for a result of ",
                                out.scalar_type(), "; pass an out of a floating point type");
    auto result = nansum_dims(self, dims, keepdim, out.scalar_type());
    at::native::resize_output(out, result.sizes());
    return out.copy_(result);
}

at::Tensor count_set(const at::Tensor& self, at::IntArrayRef dims)
{
    uint64_t mask = dim_mask(Dims(dims), self.dim());
    if (!Test<void, TN_OP_count_nonzero>::serves(self, self))
        return call_fallback<at::Tensor(const at::Tensor&, at::IntArrayRef)>(
            "aten::count_nonzero", "dim_IntList", self, dims);
    auto out = new_tensor(reduced_sizes(self, mask, false), at::kLong, self.device());
    launch_reduce(TN_OP_count_nonzero, out, self, mask, self.scalar_type());
    return out;
}

at::Tensor matrix_trace(const at::Tensor& self)
{
    TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
    auto diagonal = self.diagonal();
    if (!serves(diagonal, sum_dtype(self, {})))
        return call_fallback<at::Tensor(const at::Tensor&)>("aten::trace", "", self);
    return sum_all(diagonal, std::nullopt);
}

at::Tensor is_all_true(const at::Tensor& self)
{
    TORCH_CHECK(self.scalar_type() == at::kBool, "_is_all_true: expected a bool tensor, got ",
                self.scalar_type());
    return AllOp::call(self);
}

at::Tensor is_any_true(const at::Tensor& self)
{
    TORCH_CHECK(self.scalar_type() == at::kBool, "_is_any_true: expected a bool tensor, got ",
                self.scalar_type());
    return AnyOp::call(self);
}

// ---- variance ---------------------------------------------------------------------------------------

void check_variance(const char* name, const at::Tensor& self, uint64_t mask,
                    const OptionalScalar& correction)
{
    TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
                "std and var only support floating point and complex dtypes");
    double count = 1;
    for (int64_t d = 0; d < self.dim(); d++)
        count *= mask >> d & 1 ? static_cast<double>(self.size(d)) : 1;
    double taken = correction ? correction->toDouble() : 1;
    if (count - taken <= 0)
        TORCH_WARN(name, "(): degrees of freedom is <= 0. Correction should be strictly less than the "
                   "reduction factor (input numel divided by output numel).");
}

template <int Op>
void launch_variance(const at::Tensor& out, const at::Tensor* mean, const at::Tensor& self,
                     uint64_t mask, const OptionalScalar& correction)
{
    if (out.numel() == 0)
        return;
    Launch launch(Op);
    launch.out(out);
    if (mean)
        launch.out(*mean);
    launch.in(self)
        .scalar(mask_scalar(mask))
        .scalar(correction ? correction->toDouble() : 1.0)
        .compute(self.scalar_type())
        .run();
}

template <int Op>
constexpr const char* variance_name = Op == TN_OP_std ? "std" : "var";

// The variance of complex numbers is the sum of their parts' variances.
template <int Op>
at::Tensor complex_variance(const at::Tensor& self, uint64_t mask, const OptionalScalar& correction,
                            bool keepdim)
{
    at::Tensor parts = at::view_as_real(settled(self, self.scalar_type()));
    auto sizes = reduced_sizes(parts, mask, keepdim);
    at::Tensor both = new_tensor(sizes, parts.scalar_type(), self.device());
    launch_variance<TN_OP_var>(both, nullptr, parts, mask, correction);
    at::Tensor sum = SumOp::call(both, at::IntArrayRef(-1), false, std::nullopt);
    return Op == TN_OP_std ? at::sqrt(sum) : sum;
}

template <int Op>
at::Tensor variance(const at::Tensor& self, Dims dims, const OptionalScalar& correction, bool keepdim)
{
    uint64_t mask = dim_mask(dims, self.dim());
    check_variance(variance_name<Op>, self, mask, correction);
    if (is_neuron(self) && is_wide_complex(self.scalar_type()))
        return complex_variance<Op>(self, mask, correction, keepdim);
    if (!is_row_tensor(self))
        return call_fallback<at::Tensor(const at::Tensor&, Dims, const OptionalScalar&, bool)>(
            Op == TN_OP_std ? "aten::std" : "aten::var", "correction", self, dims, correction, keepdim);
    auto out = new_tensor(reduced_sizes(self, mask, keepdim), self.scalar_type(), self.device());
    launch_variance<Op>(out, nullptr, self, mask, correction);
    return out;
}

template <int Op>
at::Tensor& variance_out(const at::Tensor& self, Dims dims, const OptionalScalar& correction,
                         bool keepdim, at::Tensor& out)
{
    uint64_t mask = dim_mask(dims, self.dim());
    check_variance(variance_name<Op>, self, mask, correction);
    at::ScalarType result = c10::toRealValueType(self.scalar_type());
    TORCH_CHECK(c10::canCast(result, out.scalar_type()), "result type ", result,
                " can't be cast to the desired output type ", out.scalar_type());
    at::native::resize_output(out, reduced_sizes(self, mask, keepdim));
    if (!is_row_tensor(self) || !is_row_tensor(out))
        return out.copy_(variance<Op>(self, dims, correction, keepdim));
    launch_variance<Op>(out, nullptr, self, mask, correction);
    return out;
}

template <int Op>
std::tuple<at::Tensor, at::Tensor> variance_mean(const at::Tensor& self, Dims dims,
                                                 const OptionalScalar& correction, bool keepdim)
{
    uint64_t mask = dim_mask(dims, self.dim());
    check_variance(Op == TN_OP_std ? "std_mean" : "var_mean", self, mask, correction);
    if (is_neuron(self) && is_wide_complex(self.scalar_type()))
        return {complex_variance<Op>(self, mask, correction, keepdim),
                MeanOp::call(self, dims, keepdim, std::nullopt)};
    if (!is_row_tensor(self))
        return call_fallback<std::tuple<at::Tensor, at::Tensor>(
            const at::Tensor&, Dims, const OptionalScalar&, bool)>(
            Op == TN_OP_std ? "aten::std_mean" : "aten::var_mean", "correction", self, dims, correction,
            keepdim);
    auto sizes = reduced_sizes(self, mask, keepdim);
    auto out = new_tensor(sizes, self.scalar_type(), self.device());
    auto mean = new_tensor(sizes, self.scalar_type(), self.device());
    launch_variance<Op>(out, &mean, self, mask, correction);
    return {out, mean};
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("sum", &sum_all);
    m.impl("sum.dim_IntList", &SumOp::call);
    m.impl("sum.IntList_out", &SumOp::out);
    m.impl("mean", &mean_all);
    m.impl("mean.dim", &MeanOp::call);
    m.impl("mean.out", &MeanOp::out);
    m.impl("nansum", &nansum_dims);
    m.impl("nansum.out", &nansum_out);
    m.impl("prod", &prod_all);
    m.impl("prod.dim_int", &ProdOp::call);
    m.impl("prod.int_out", &ProdOp::out);
    m.impl("amax", &AmaxOp::call);
    m.impl("amax.out", &AmaxOp::out);
    m.impl("amin", &AminOp::call);
    m.impl("amin.out", &AminOp::out);
    m.impl("max", &extremum_all<TN_OP_amax>);
    m.impl("max.unary_out", &extremum_all_out<TN_OP_amax>);
    m.impl("min", &extremum_all<TN_OP_amin>);
    m.impl("min.unary_out", &extremum_all_out<TN_OP_amin>);
    m.impl("any", &AnyOp::call);
    m.impl("any.all_out", &AnyOp::out);
    m.impl("any.dim", &AnyDimOp::call);
    m.impl("any.out", &AnyDimOp::out);
    m.impl("any.dims", &AnyDimsOp::call);
    m.impl("any.dims_out", &AnyDimsOp::out);
    m.impl("all", &AllOp::call);
    m.impl("all.all_out", &AllOp::out);
    m.impl("all.dim", &AllDimOp::call);
    m.impl("all.out", &AllDimOp::out);
    m.impl("all.dims", &AllDimsOp::call);
    m.impl("all.dims_out", &AllDimsOp::out);
    m.impl("_is_all_true", &is_all_true);
    m.impl("_is_any_true", &is_any_true);
    m.impl("count_nonzero.dim_IntList", &count_set);
    m.impl("trace", &matrix_trace);
    m.impl("linalg_vector_norm", &VectorNormOp::call);
    m.impl("linalg_vector_norm.out", &VectorNormOp::out);
    m.impl("norm.ScalarOpt_dim", &NormOp::call);
    m.impl("norm.out", &NormOp::out);
    m.impl("norm.ScalarOpt_dim_dtype", &NormDtypeOp::call);
    m.impl("norm.dtype_out", &NormDtypeOp::out);
    m.impl("var.correction", &variance<TN_OP_var>);
    m.impl("var.correction_out", &variance_out<TN_OP_var>);
    m.impl("std.correction", &variance<TN_OP_std>);
    m.impl("std.correction_out", &variance_out<TN_OP_std>);
    m.impl("var_mean.correction", &variance_mean<TN_OP_var>);
    m.impl("std_mean.correction", &variance_mean<TN_OP_std>);
}
