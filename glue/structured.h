// Structured operators: ATen's meta function decides shape, dtype, overlap and errors; this class only
// provides the outputs that the meta function asks for.
//
//     Structured<at::meta::structured_sum_dim_IntList> op;            // functional: sum(x, dim)
//     op.meta(self, dim, keepdim, dtype);
//     Launch(TN_OP_sum).out(op.output()).in(self)....run();
//     return op.take();
//
//     Structured<at::meta::structured_sum_dim_IntList> op(Variant::Out, {out});   // sum(..., out=)
//     op.meta(...); launch; op.finish();
//
// output(i) may be a proxy of the caller's out= tensor where the meta function demands strides that
// it does not have; finish() copies it back.
#pragma once

#include <array>
#include <initializer_list>

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/native/Resize.h>

#include "tensor.h"

namespace neuron {

enum class Variant { Functional, InPlace, Out };

// out= and in-place checks with ATen's texts (structured.cpp).
void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options);
void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options);
at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options);
void copy_back(const at::Tensor& proxy, const at::Tensor& out);

template <class Meta, size_t Count = 1>
class Structured final : public Meta {
  public:
    static constexpr bool kIterator = std::is_base_of_v<at::TensorIteratorBase, Meta>;

    Structured() = default;
    Structured(Variant variant, std::initializer_list<at::Tensor> outputs) : variant_(variant)
    {
        size_t i = 0;
        for (const at::Tensor& output : outputs)
            outputs_[i++] = output;
    }

    void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                            at::TensorOptions options) override
    {
        provide(i, sizes, strides, options);
        if (variant_ != Variant::Functional && !strides.empty() &&
            outputs_[i].strides() != strides)
            proxies_[i] = new_output(sizes, strides, options);
        if constexpr (kIterator)
            Meta::set_output_raw_strided(i, sizes, strides, options);
    }

    void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                                at::TensorOptions options) override
    {
        provide(i, sizes, strides, options);
        if constexpr (kIterator)
            Meta::set_output_raw_strided(i, sizes, strides, options);
    }

    const at::Tensor& maybe_get_output(int64_t i) override
    {
        return proxies_[i].defined() ? proxies_[i] : outputs_[i];
    }

    const at::Tensor& output(int64_t i = 0)
    {
        return maybe_get_output(i);
    }

    at::Tensor take(int64_t i = 0)
    {
        return std::move(outputs_[i]);
    }

    void finish()
    {
        for (size_t i = 0; i < Count; i++)
            if (proxies_[i].defined())
                copy_back(proxies_[i], outputs_[i]);
    }

    // The dtype that the op computes in: ATen's promoted one, else that of `self`.
    at::ScalarType compute_dtype(const at::Tensor& self) const
    {
        if constexpr (kIterator)
            if (auto common = this->maybe_common_dtype())
                return *common;
        return self.scalar_type();
    }

  private:
    void provide(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options)
    {
        if (variant_ == Variant::Functional)
            outputs_[i] = new_output(sizes, strides, options);
        else if (variant_ == Variant::InPlace)
            check_inplace(outputs_[i], sizes, options);
        else
            prepare_out(outputs_[i], sizes, strides, options);
    }

    Variant variant_ = Variant::Functional;
    std::array<at::Tensor, Count> outputs_;
    std::array<at::Tensor, Count> proxies_;
};

// Meta functions take optional scalars and tensors by reference wrappers.
template <class T>
const T& meta_argument(const T& argument)
{
    return argument;
}
inline at::OptionalScalarRef meta_argument(const std::optional<at::Scalar>& argument)
{
    return argument ? at::OptionalScalarRef(&*argument) : at::OptionalScalarRef();
}
inline at::OptionalTensorRef meta_argument(const std::optional<at::Tensor>& argument)
{
    return argument && argument->defined() ? at::OptionalTensorRef(*argument) : at::OptionalTensorRef();
}

} // namespace neuron
