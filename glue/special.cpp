// frexp: the one special function that ATen does not declare as structured.
#include <ATen/TensorIterator.h>
#include <torch/library.h>

#include "pointwise.h"
#include "tn/op/special.h"

namespace neuron
{
namespace
{

std::tuple<at::Tensor &, at::Tensor &> frexp_out(const at::Tensor &self, at::Tensor &mantissa,
                                                 at::Tensor &exponent)
{
    TORCH_CHECK(at::isFloatingType(self.scalar_type()),
                "torch.frexp() only supports floating-point dtypes");
    TORCH_CHECK(mantissa.scalar_type() == self.scalar_type(),
                "torch.frexp() expects mantissa to have dtype ", self.scalar_type(), " but got ",
                mantissa.scalar_type());
    TORCH_CHECK(exponent.scalar_type() == at::kInt,
                "torch.frexp() expects exponent to have int dtype but got ",
                exponent.scalar_type());
    auto iterator = at::TensorIteratorConfig()
                        .add_output(mantissa)
                        .add_output(exponent)
                        .add_const_input(self)
                        .check_all_same_dtype(false)
                        .set_check_mem_overlap(true)
                        .build();
    if (iterator.numel() != 0)
        Launch(TN_OP_frexp).out(mantissa).out(exponent).in(self).compute(self.scalar_type()).run();
    return {mantissa, exponent};
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("frexp.Tensor_out", &neuron::frexp_out);
}
