// Matrix products: mm, addmm, bmm, baddbmm, addmv, dot and their relatives, each one launch of matmul.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "fallback.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/matmul.h"

namespace neuron {
namespace {

using at::Scalar;
using at::Tensor;

// Products of bool, fp8 and half-width complex numbers have no native kernel.
bool has_kernel(at::ScalarType dtype)
{
    return dtype != at::kComplexHalf && dtype != at::kBool && !c10::isFloat8Type(dtype) &&
           !c10::isBarebonesUnsignedType(dtype);
}

void check_dtypes(const char* op, const Tensor& a, const Tensor& b)
{
    TORCH_CHECK(a.scalar_type() == b.scalar_type(), op,
                ": expected m1 and m2 to have the same dtype, but got: ", a.scalar_type(), " != ",
                b.scalar_type());
}

void check_addend(const char* op, const Tensor& c, const Tensor& a, const Tensor& b)
{
    check_dtypes(op, a, b);
    TORCH_CHECK(c.scalar_type() == b.scalar_type(), op,
                ": self and mat2 must have the same dtype, but got ", c.scalar_type(), " and ",
                b.scalar_type());
}

bool overlaps(const Tensor& out, const Tensor& in)
{
    return out.storage().is_alias_of(in.storage());
}

// A complex product is four real ones: each part of `out` is a sum of two, read from and written to every
// other number in place. A pending conjugation turns the sign of an imaginary part.
struct Parts {
    Tensor real, imaginary;
    int sign = 1;
    explicit Parts(const Tensor& tensor)
    {
        Tensor plain = tensor.resolve_neg();
        sign = plain.is_conj() ? -1 : 1;
        Tensor pairs = at::view_as_real(plain.is_conj() ? plain.conj() : plain);
        real = pairs.select(-1, 0);
        imaginary = pairs.select(-1, 1);
    }
};

void launch_real(const Tensor& out, const Tensor& a, const Tensor& b, int alpha, bool adds)
{
    Launch desc(TN_OP_matmul);
    desc.out(out).in(a).in(b);
    if (adds)
        desc.in(out);
    desc.scalar(int64_t{1}).scalar(int64_t{alpha}).run();
}

void launch_complex_product(const Tensor& out, const Tensor& a, const Tensor& b)
{
    Parts x(a), y(b), z(out);
    launch_real(z.real, x.real, y.real, 1, false);
    launch_real(z.real, x.imaginary, y.imaginary, -x.sign * y.sign, true);
    launch_real(z.imaginary, x.real, y.imaginary, y.sign, false);
    launch_real(z.imaginary, x.imaginary, y.real, x.sign, true);
}

Tensor wrapped_number(const Scalar& value)
{
    Tensor number = at::scalar_tensor(value, value.type());
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    return number;
}

void launch_complex(const Tensor& out, const Tensor* c, const Tensor& a, const Tensor& b,
                    const Scalar& beta, const Scalar& alpha)
{
    bool adds = c && beta.toComplexDouble() != 0.0;
    if (!adds && alpha.toComplexDouble() == 1.0)
        return launch_complex_product(out, a, b);
    Tensor product = new_tensor(out.sizes(), out.scalar_type(), out.device());
    launch_complex_product(product, a, b);
    if (!adds)
        at::mul_out(const_cast<Tensor&>(out), product, wrapped_number(alpha));
    else
        at::add_out(const_cast<Tensor&>(out), at::mul(*c, beta), product, alpha);
}

void launch(const Tensor& out, const Tensor* c, const Tensor& a, const Tensor& b, const Scalar& beta,
            const Scalar& alpha)
{
    if (out.is_complex())
        return launch_complex(out, c, a, b, beta, alpha);
    Launch desc(TN_OP_matmul);
    desc.out(out).in(a).in(b);
    if (c)
        desc.in(*c);
    desc.scalar(beta).scalar(alpha).run();
}

// out = beta c + alpha a b, for an out= that may share memory with its inputs.
void multiply(const Tensor& out, const Tensor* c, const Tensor& a, const Tensor& b, const Scalar& beta,
              const Scalar& alpha)
{
    if (out.numel() == 0)
        return;
    bool same_c = c && out.is_same(*c);
    if (!out.is_conj() && !out.is_neg() && !overlaps(out, a) && !overlaps(out, b) &&
        (!c || same_c || !overlaps(out, *c)))
        return launch(out, c, a, b, beta, alpha);
    Tensor fresh = new_tensor(out.sizes(), out.scalar_type(), out.device());
    launch(fresh, c, a, b, beta, alpha);
    copy_back(fresh, out);
}

// What broadcasts to the result is read in place; anything else raises expand's error.
void check_expands(const Tensor& c, at::IntArrayRef sizes)
{
    if (!at::is_expandable_to(c.sizes(), sizes))
        c.expand(sizes);
}

// ---- mm and bmm -------------------------------------------------------------------------------

Tensor mm(const Tensor& self, const Tensor& mat2)
{
    auto dtype = self.scalar_type();
    if (self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(0) &&
        mat2.scalar_type() == dtype && self.device() == mat2.device() && has_kernel(dtype))
        [[likely]] {
        Tensor out = new_tensor({self.size(0), mat2.size(1)}, dtype, self.device());
        if (out.numel() != 0)
            launch(out, nullptr, self, mat2, 0, 1);
        return out;
    }
    check_same_device("mm", {&self, &mat2});
    Structured<at::meta::structured_mm> op;
    op.meta(self, mat2);
    check_dtypes("mm", self, mat2);
    return call_fallback<Tensor(const Tensor&, const Tensor&)>("aten::mm", "", self, mat2);
}

Tensor& mm_out(const Tensor& self, const Tensor& mat2, Tensor& out)
{
    check_same_device("mm", {&self, &mat2, &out});
    Structured<at::meta::structured_mm> op(Variant::Out, {out});
    op.meta(self, mat2);
    check_dtypes("mm", self, mat2);
    if (!has_kernel(self.scalar_type()))
        return call_fallback<Tensor&(const Tensor&, const Tensor&, Tensor&)>("aten::mm", "out", self,
                                                                            mat2, out);
    multiply(op.output(), nullptr, self, mat2, 0, 1);
    op.finish();
    return out;
}

Tensor bmm(const Tensor& self, const Tensor& mat2)
{
    check_same_device("bmm", {&self, &mat2});
    Structured<at::meta::structured_bmm> op;
    op.meta(self, mat2);
    check_dtypes("bmm", self, mat2);
    if (!has_kernel(self.scalar_type()))
        return call_fallback<Tensor(const Tensor&, const Tensor&)>("aten::bmm", "", self, mat2);
    if (op.output().numel() != 0)
        launch(op.output(), nullptr, self, mat2, 0, 1);
    return op.take();
}

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, Tensor& out)
{
    check_same_device("bmm", {&self, &mat2, &out});
    Structured<at::meta::structured_bmm> op(Variant::Out, {out});
    op.meta(self, mat2);
    check_dtypes("bmm", self, mat2);
    if (!has_kernel(self.scalar_type()))
        return call_fallback<Tensor&(const Tensor&, const Tensor&, Tensor&)>("aten::bmm", "out", self,
                                                                            mat2, out);
    multiply(op.output(), nullptr, self, mat2, 0, 1);
    op.finish();
    return out;
}

// ---- the four with an addend ------------------------------------------------------------------

template <class Meta>
struct Name;
template <>
struct Name<at::meta::structured_addmm> {
    static constexpr const char *plain = "addmm", *full = "aten::addmm", *in_place = "aten::addmm_";
};
template <>
struct Name<at::meta::structured_baddbmm> {
    static constexpr const char *plain = "baddbmm", *full = "aten::baddbmm",
                                *in_place = "aten::baddbmm_";
};
template <>
struct Name<at::meta::structured_addmv> {
    static constexpr const char *plain = "addmv", *full = "aten::addmv", *in_place = "aten::addmv_";
};

template <class Meta>
void run_added(Structured<Meta>& op, const Tensor& self, const Tensor& a, const Tensor& b,
               const Scalar& beta, const Scalar& alpha)
{
    check_expands(self, op.output().sizes());
    multiply(op.output(), &self, a, b, beta, alpha);
    op.finish();
}

template <class Meta>
Tensor added(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
             const Scalar& alpha)
{
    check_same_device(Name<Meta>::plain, {&self, &a, &b});
    Structured<Meta> op;
    op.meta(self, a, b, beta, alpha);
    check_addend(Name<Meta>::plain, self, a, b);
    if (!has_kernel(a.scalar_type()))
        return call_fallback<Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&,
                                    const Scalar&)>(Name<Meta>::full, "", self, a, b, beta, alpha);
    run_added(op, self, a, b, beta, alpha);
    return op.take();
}

template <class Meta>
Tensor& added_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha, Tensor& out)
{
    check_same_device(Name<Meta>::plain, {&self, &a, &b, &out});
    Structured<Meta> op(Variant::Out, {out});
    op.meta(self, a, b, beta, alpha);
    check_addend(Name<Meta>::plain, self, a, b);
    if (!has_kernel(a.scalar_type()))
        return call_fallback<Tensor&(const Tensor&, const Tensor&, const Tensor&, const Scalar&,
                                     const Scalar&, Tensor&)>(Name<Meta>::full, "out", self, a, b,
                                                              beta, alpha, out);
    run_added(op, self, a, b, beta, alpha);
    return out;
}

template <class Meta>
Tensor& added_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
               const Scalar& alpha)
{
    check_same_device(Name<Meta>::plain, {&self, &a, &b});
    Structured<Meta> op(Variant::InPlace, {self});
    op.meta(self, a, b, beta, alpha);
    check_addend(Name<Meta>::plain, self, a, b);
    if (!has_kernel(a.scalar_type()))
        return call_fallback<Tensor&(Tensor&, const Tensor&, const Tensor&, const Scalar&,
                                     const Scalar&)>(Name<Meta>::in_place, "", self, a, b, beta,
                                                     alpha);
    run_added(op, self, a, b, beta, alpha);
    return self;
}

// The usual linear layer: a bias row, two matrices, nothing to resize.
Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
             const Scalar& alpha)
{
    auto dtype = a.scalar_type();
    if (a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && self.dim() == 1 &&
        self.size(0) == b.size(1) && b.scalar_type() == dtype && self.scalar_type() == dtype &&
        a.device() == b.device() && self.device() == a.device() && has_kernel(dtype)) [[likely]] {
        Tensor out = new_tensor({a.size(0), b.size(1)}, dtype, a.device());
        if (out.numel() != 0)
            launch(out, &self, a, b, beta, alpha);
        return out;
    }
    return added<at::meta::structured_addmm>(self, a, b, beta, alpha);
}

void activate(const Tensor& tensor, bool use_gelu)
{
    if (use_gelu)
        at::gelu_(const_cast<Tensor&>(tensor), "tanh");
    else
        at::relu_(const_cast<Tensor&>(tensor));
}

Tensor addmm_activation(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                        const Scalar& alpha, bool use_gelu)
{
    Tensor out = at::addmm(self, a, b, beta, alpha);
    activate(out, use_gelu);
    return out;
}

Tensor& addmm_activation_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                             const Scalar& alpha, bool use_gelu, Tensor& out)
{
    at::addmm_out(out, self, a, b, beta, alpha);
    activate(out, use_gelu);
    return out;
}

// ---- addbmm: the batch is one more stretch of k -------------------------------------------------

void check_addbmm(const Tensor& batch1, const Tensor& batch2)
{
    TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
    TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
    TORCH_CHECK(batch1.size(0) == batch2.size(0),
                "batch1 and batch2 must have same number of batches, got ", batch1.size(0), " and ",
                batch2.size(0));
    TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (",
                batch1.size(1), "x", batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
}

Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
              const Scalar& alpha)
{
    check_addbmm(batch1, batch2);
    int64_t k = batch1.size(0) * batch1.size(2);
    return at::addmm(self, batch1.permute({1, 0, 2}).reshape({batch1.size(1), k}),
                     batch2.reshape({k, batch2.size(2)}), beta, alpha);
}

Tensor& addbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha, Tensor& out)
{
    check_addbmm(batch1, batch2);
    int64_t k = batch1.size(0) * batch1.size(2);
    return at::addmm_out(out, self, batch1.permute({1, 0, 2}).reshape({batch1.size(1), k}),
                         batch2.reshape({k, batch2.size(2)}), beta, alpha);
}

Tensor& addbmm_(Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                const Scalar& alpha)
{
    return addbmm_out(self, batch1, batch2, beta, alpha, self);
}

// ---- dot --------------------------------------------------------------------------------------

template <bool Conjugate>
Tensor dot(const Tensor& self, const Tensor& other)
{
    const char* op = Conjugate ? "vdot" : "dot";
    check_same_device(op, {&self, &other});
    TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(),
                "D and ", other.dim(), "D tensors");
    TORCH_CHECK(self.scalar_type() == other.scalar_type(), op,
                " : expected both vectors to have same dtype, but found ", self.scalar_type(), " and ",
                other.scalar_type());
    TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [",
                self.numel(), "] and src [", other.numel(),
                "] to have the same number of elements, but got ", self.numel(), " and ",
                other.numel(), " elements respectively");
    if (!has_kernel(self.scalar_type()))
        return call_fallback<Tensor(const Tensor&, const Tensor&)>(
            Conjugate ? "aten::vdot" : "aten::dot", "", self, other);
    Tensor out = new_tensor({}, self.scalar_type(), self.device());
    launch(out, nullptr, Conjugate ? self.conj() : self, other, 0, 1);
    return out;
}

// ---- a result wider than the factors ------------------------------------------------------------

void check_out_dtype(const char* op, const Tensor& a, at::ScalarType out_dtype)
{
    bool widens = out_dtype == at::kFloat && (a.scalar_type() == at::kHalf || a.scalar_type() == at::kBFloat16);
    TORCH_CHECK(out_dtype == a.scalar_type() || widens, op,
                ": out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs, got ",
                out_dtype, " for ", a.scalar_type());
    TORCH_CHECK(has_kernel(a.scalar_type()), op, ": not implemented for ", a.scalar_type());
}

// Shapes come from the meta function; the result's dtype from out_dtype.
template <class Meta, class... Args>
at::DimVector result_sizes(const Args&... args)
{
    Structured<Meta> op;
    op.meta(args...);
    return at::DimVector(op.output().sizes());
}

Tensor& widened(const char* op, const Tensor* c, const Tensor& a, const Tensor& b,
                at::IntArrayRef sizes, at::ScalarType out_dtype, const Scalar& beta,
                const Scalar& alpha, Tensor& out)
{
    check_out_dtype(op, a, out_dtype);
    check_dtypes(op, a, b);
    if (c) {
        TORCH_CHECK(c->scalar_type() == out_dtype || c->scalar_type() == a.scalar_type(), op,
                    ": self dtype must match either out_dtype or mat1 dtype, got ", c->scalar_type());
        check_expands(*c, sizes);
    }
    prepare_out(out, sizes, {}, a.options().dtype(out_dtype));
    multiply(out, c, a, b, beta, alpha);
    return out;
}

Tensor empty_result(const Tensor& like, at::ScalarType dtype)
{
    return new_tensor({0}, dtype, like.device());
}

Tensor& mm_dtype_out(const Tensor& self, const Tensor& mat2, at::ScalarType dtype, Tensor& out)
{
    check_same_device("mm", {&self, &mat2, &out});
    return widened("mm", nullptr, self, mat2, result_sizes<at::meta::structured_mm>(self, mat2), dtype,
                   0, 1, out);
}

Tensor mm_dtype(const Tensor& self, const Tensor& mat2, at::ScalarType dtype)
{
    Tensor out = empty_result(self, dtype);
    return mm_dtype_out(self, mat2, dtype, out);
}

Tensor& bmm_dtype_out(const Tensor& self, const Tensor& mat2, at::ScalarType dtype, Tensor& out)
{
    check_same_device("bmm", {&self, &mat2, &out});
    return widened("bmm", nullptr, self, mat2, result_sizes<at::meta::structured_bmm>(self, mat2),
                   dtype, 0, 1, out);
}

Tensor bmm_dtype(const Tensor& self, const Tensor& mat2, at::ScalarType dtype)
{
    Tensor out = empty_result(self, dtype);
    return bmm_dtype_out(self, mat2, dtype, out);
}

template <class Meta, class Product>
Tensor& added_dtype_out(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType dtype,
                        const Scalar& beta, const Scalar& alpha, Tensor& out)
{
    check_same_device(Name<Meta>::plain, {&self, &a, &b, &out});
    return widened(Name<Meta>::plain, &self, a, b, result_sizes<Product>(a, b), dtype, beta, alpha, out);
}

template <class Meta, class Product>
Tensor added_dtype(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType dtype,
                   const Scalar& beta, const Scalar& alpha)
{
    Tensor out = empty_result(self, dtype);
    return added_dtype_out<Meta, Product>(self, a, b, dtype, beta, alpha, out);
}

Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out)
{
    check_same_device("_int_mm", {&self, &mat2, &out});
    auto is_byte = [](const Tensor& t) { return t.scalar_type() == at::kChar || t.scalar_type() == at::kByte; };
    TORCH_CHECK(self.dim() == 2, "_int_mm: Expected self to be of dimension 2 but got ", self.dim());
    TORCH_CHECK(mat2.dim() == 2, "_int_mm: Expected mat2 to be of dimension 2 but got ", mat2.dim());
    TORCH_CHECK(self.size(1) == mat2.size(0), "_int_mm: self.size(1) needs to match mat2.size(0) but got ",
                self.size(1), " and ", mat2.size(0));
    TORCH_CHECK(is_byte(self) && is_byte(mat2), "_int_mm: Expected self and mat2 to be of type int8, got ",
                self.scalar_type(), " and ", mat2.scalar_type());
    prepare_out(out, {self.size(0), mat2.size(1)}, {}, self.options().dtype(at::kInt));
    multiply(out, nullptr, self, mat2, 0, 1);
    return out;
}

Tensor int_mm(const Tensor& self, const Tensor& mat2)
{
    Tensor out = empty_result(self, at::kInt);
    return int_mm_out(self, mat2, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    using Addmm = at::meta::structured_addmm;
    using Baddbmm = at::meta::structured_baddbmm;
    using Addmv = at::meta::structured_addmv;
    m.impl("mm", &mm);
    m.impl("mm.out", &mm_out);
    m.impl("bmm", &bmm);
    m.impl("bmm.out", &bmm_out);
    m.impl("addmm", &addmm);
    m.impl("addmm_", &added_<Addmm>);
    m.impl("addmm.out", &added_out<Addmm>);
    m.impl("baddbmm", &added<Baddbmm>);
    m.impl("baddbmm_", &added_<Baddbmm>);
    m.impl("baddbmm.out", &added_out<Baddbmm>);
    m.impl("addmv", &added<Addmv>);
    m.impl("addmv_", &added_<Addmv>);
    m.impl("addmv.out", &added_out<Addmv>);
    m.impl("_addmm_activation", &addmm_activation);
    m.impl("_addmm_activation.out", &addmm_activation_out);
    m.impl("addbmm", &addbmm);
    m.impl("addbmm_", &addbmm_);
    m.impl("addbmm.out", &addbmm_out);
    m.impl("dot", &dot<false>);
    m.impl("vdot", &dot<true>);
    m.impl("mm.dtype", &mm_dtype);
    m.impl("mm.dtype_out", &mm_dtype_out);
    m.impl("bmm.dtype", &bmm_dtype);
    m.impl("bmm.dtype_out", &bmm_dtype_out);
    m.impl("addmm.dtype", &added_dtype<Addmm, at::meta::structured_mm>);
    m.impl("addmm.dtype_out", &added_dtype_out<Addmm, at::meta::structured_mm>);
    m.impl("baddbmm.dtype", &added_dtype<Baddbmm, at::meta::structured_bmm>);
    m.impl("baddbmm.dtype_out", &added_dtype_out<Baddbmm, at::meta::structured_bmm>);
    m.impl("_int_mm", &int_mm);
    m.impl("_int_mm.out", &int_mm_out);
}
