// Random numbers: argument checks, a reserved piece of the generator's stream, one launch. Tensors that
// are not contiguous are filled through a contiguous one, so that numbers follow logical order.
#include <cmath>
#include <limits>

#include <ATen/Dispatch.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <ATen/ops/view_as_real.h>

#include "generator.h"
#include "launch.h"
#include "tn/op/rng.h"

namespace neuron {
namespace {

using MaybeGenerator = std::optional<at::Generator>;

constexpr uint64_t kNumbersPerElement = 4;

at::Tensor contiguous_target(const at::Tensor& self)
{
    return self.is_contiguous() ? self : new_tensor(self.sizes(), self.scalar_type(), self.device());
}

template <class... Scalars>
at::Tensor& fill(int op, at::Tensor& self, const MaybeGenerator& generator, Scalars... scalars)
{
    if (self.numel() == 0)
        return self;
    auto [seed, offset] = philox_reserve(generator, self.device().index(), kNumbersPerElement);
    at::Tensor target = contiguous_target(self);
    Launch launch(op);
    launch.out(target);
    (launch.scalar(scalars), ...);
    launch.rng(seed, offset).run();
    if (!target.is_same(self))
        self.copy_(target);
    return self;
}

void check_floating(const char* op, const at::Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()) &&
                                    self.scalar_type() != at::kFloat8_e5m2 && self.element_size() > 1,
                                "\"", op, "\" not implemented for '", self.scalar_type(), "'");
}

void check_real(const char* op, const at::Tensor& self)
{
    TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex() && self.scalar_type() != at::kUInt16 &&
                                    self.scalar_type() != at::kUInt32 && self.scalar_type() != at::kUInt64,
                                "\"", op, "\" not implemented for '", self.scalar_type(), "'");
}

at::Tensor& uniform_(at::Tensor& self, double from, double to, MaybeGenerator generator)
{
    if (self.is_complex()) {
        at::Tensor parts = at::view_as_real(self);
        uniform_(parts, from, to, generator);
        return self;
    }
    check_floating("uniform_", self);
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
                " > to=", to);
    TORCH_CHECK(to - from <= std::numeric_limits<float>::max() || self.scalar_type() == at::kDouble,
                "uniform_ expects to-from <= std::numeric_limits<", self.scalar_type(),
                ">::max(), but found to=", to, " and from=", from,
                " which result in to-from to exceed the limit");
    return fill(TN_OP_uniform, self, generator, from, to);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, MaybeGenerator generator)
{
    TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
    if (self.is_complex()) {
        // A complex normal has half its variance in each part.
        at::Tensor parts = at::view_as_real(self);
        normal_(parts, 0.0, std * M_SQRT1_2, generator);
        return mean == 0 ? self : self.add_(mean);
    }
    check_floating("normal_", self);
    return fill(TN_OP_normal, self, generator, mean, std);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, MaybeGenerator generator)
{
    check_floating("log_normal_", self);
    TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
    return fill(TN_OP_log_normal, self, generator, mean, std);
}

at::Tensor& exponential_(at::Tensor& self, double lambda, MaybeGenerator generator)
{
    check_floating("exponential_", self);
    TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
    return fill(TN_OP_exponential, self, generator, lambda);
}

at::Tensor& geometric_(at::Tensor& self, double p, MaybeGenerator generator)
{
    check_real("geometric_", self);
    TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
    return fill(TN_OP_geometric, self, generator, p);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, MaybeGenerator generator)
{
    TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
    TORCH_CHECK(at::isFloatingType(self.scalar_type()),
                "Cauchy distribution is a continuous probability distribution. dtype must be a floating "
                "point but you specified ", self.dtype());
    check_floating("cauchy_", self);
    return fill(TN_OP_cauchy, self, generator, median, sigma);
}

at::Tensor& bernoulli_scalar(at::Tensor& self, double p, MaybeGenerator generator)
{
    check_real("bernoulli_", self);
    TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
    return fill(TN_OP_bernoulli_scalar, self, generator, p);
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, MaybeGenerator generator)
{
    check_real("bernoulli_", self);
    TORCH_CHECK(at::isFloatingType(p.scalar_type()), "bernoulli_: probabilities must be floating, got ",
                p.scalar_type());
    if (self.numel() == 0)
        return self;
    auto [seed, offset] = philox_reserve(generator, self.device().index(), kNumbersPerElement);
    at::Tensor target = contiguous_target(self);
    at::Tensor probabilities = p.to(self.device()).expand(self.sizes()).contiguous();
    Launch(TN_OP_bernoulli).out(target).in(probabilities).rng(seed, offset).run();
    if (!target.is_same(self))
        self.copy_(target);
    return self;
}

at::Tensor& bernoulli_out(const at::Tensor& self, MaybeGenerator generator, at::Tensor& out)
{
    at::native::resize_output(out, self.sizes());
    return bernoulli_tensor(out, self, generator);
}

// ---- integers: the largest value that random_ draws for a dtype, plus one -----------------------

uint64_t full_range(at::ScalarType dtype)
{
    switch (dtype) {
    case at::kBool:
        return 2;
    case at::kByte:
        return 1ULL << 8;
    case at::kChar:
        return 1ULL << 7;
    case at::kShort:
        return 1ULL << 15;
    case at::kInt:
        return 1ULL << 31;
    case at::kLong:
        return 1ULL << 63;
    case at::kHalf:
        return (1ULL << 11) + 1;
    case at::kBFloat16:
        return (1ULL << 8) + 1;
    case at::kFloat:
        return (1ULL << 24) + 1;
    case at::kDouble:
        return (1ULL << 53) + 1;
    default:
        TORCH_CHECK_NOT_IMPLEMENTED(false, "\"random_\" not implemented for '", dtype, "'");
    }
}

at::Tensor& random_range(at::Tensor& self, int64_t base, uint64_t range, MaybeGenerator generator)
{
    return fill(TN_OP_random_integer, self, generator, base, static_cast<int64_t>(range));
}

at::Tensor& random_(at::Tensor& self, MaybeGenerator generator)
{
    return random_range(self, 0, full_range(self.scalar_type()), generator);
}

void check_bounds(const at::Tensor& self, int64_t from, int64_t last)
{
    if (!at::isIntegralType(self.scalar_type(), true))
        return;
    int64_t low = self.scalar_type() == at::kByte || self.scalar_type() == at::kBool
                      ? 0
                      : -static_cast<int64_t>(full_range(self.scalar_type()) - 1) - 1;
    int64_t high = static_cast<int64_t>(full_range(self.scalar_type()) - 1);
    TORCH_CHECK(low <= from && from <= high, "from is out of bounds for ", self.dtype());
    TORCH_CHECK(low <= last && last <= high, "to - 1 is out of bounds for ", self.dtype());
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        MaybeGenerator generator)
{
    uint64_t whole = full_range(self.scalar_type());
    if (to) {
        TORCH_CHECK(from < *to, "random_ expects 'from' to be less than 'to', but got from=", from,
                    " >= to=", *to);
        check_bounds(self, from, *to - 1);
        return random_range(self, from, static_cast<uint64_t>(*to) - static_cast<uint64_t>(from),
                            generator);
    }
    if (from == std::numeric_limits<int64_t>::lowest())
        return random_range(self, from, 0, generator);
    check_bounds(self, from, from);
    return random_range(self, from, whole - static_cast<uint64_t>(from), generator);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, MaybeGenerator generator)
{
    return random_from(self, 0, to, generator);
}

at::Tensor& randperm_out(int64_t n, MaybeGenerator generator, at::Tensor& out)
{
    TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
    at::native::resize_output(out, {n});
    if (out.scalar_type() != at::kLong) {
        TORCH_CHECK(!at::isIntegralType(out.scalar_type(), true) || n == 0 ||
                        static_cast<uint64_t>(n - 1) < full_range(out.scalar_type()),
                    "n is too large for result tensor type: '", out.toString(), "'");
        at::Tensor order = new_tensor({n}, at::kLong, out.device());
        return out.copy_(randperm_out(n, generator, order));
    }
    return fill(TN_OP_randperm, out, generator);
}

// ---- normal with tensor parameters: a standard normal, scaled and shifted on the device ----------

at::Tensor& normal_from(at::Tensor& out, const at::Tensor& mean, const at::Tensor& std,
                        MaybeGenerator generator)
{
    normal_(out, 0.0, 1.0, generator);
    return out.mul_(std).add_(mean);
}

void check_std(const at::Tensor& std)
{
    TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
    TORCH_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(),
                "normal expects all elements of std >= 0.0");
}

at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std,
                                     MaybeGenerator generator, at::Tensor& out)
{
    check_std(std);
    at::native::resize_output(out, at::infer_size(mean.sizes(), std.sizes()));
    return normal_from(out, mean, std, generator);
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std,
                                MaybeGenerator generator)
{
    at::Tensor out = new_tensor(at::infer_size(mean.sizes(), std.sizes()), mean.scalar_type(),
                                is_neuron(mean) ? mean.device() : std.device());
    return normal_tensor_tensor_out(mean, std, generator, out);
}

at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, MaybeGenerator generator,
                                    at::Tensor& out)
{
    at::native::resize_output(out, mean.sizes());
    normal_(out, 0.0, std, generator);
    return out.add_(mean);
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, MaybeGenerator generator)
{
    at::Tensor out = new_tensor(mean.sizes(), mean.scalar_type(), mean.device());
    return normal_tensor_float_out(mean, std, generator, out);
}

at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, MaybeGenerator generator,
                                    at::Tensor& out)
{
    check_std(std);
    at::native::resize_output(out, std.sizes());
    normal_(out, 0.0, 1.0, generator);
    return out.mul_(std).add_(mean);
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, MaybeGenerator generator)
{
    at::Tensor out = new_tensor(std.sizes(), std.scalar_type(), std.device());
    return normal_float_tensor_out(mean, std, generator, out);
}

// ---- dropout and multinomial ---------------------------------------------------------------------

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train)
{
    TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
    check_floating("native_dropout", input);
    at::Tensor mask = new_tensor(input.sizes(), at::kBool, input.device());
    if (!train.value_or(true) || p == 0 || p == 1 || input.numel() == 0) {
        bool keep = !train.value_or(true) || p == 0;
        mask.fill_(keep);
        return {keep ? input.clone() : new_tensor(input.sizes(), input.scalar_type(), input.device()).zero_(),
                mask};
    }
    at::Tensor dense = input.contiguous();
    at::Tensor output = new_tensor(input.sizes(), input.scalar_type(), input.device());
    auto [seed, offset] = philox_reserve({}, input.device().index(), kNumbersPerElement);
    Launch(TN_OP_dropout).out(output).out(mask).in(dense).scalar(p).rng(seed, offset).run();
    return {output, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale)
{
    return grad.mul(mask).mul(at::Scalar(scale));
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t samples, bool replacement,
                            MaybeGenerator generator, at::Tensor& out)
{
    TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
    TORCH_CHECK(at::isFloatingType(self.scalar_type()),
                "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
    TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ",
                out.scalar_type());
    TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
    int64_t categories = self.size(-1);
    TORCH_CHECK(replacement || samples <= categories,
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    TORCH_CHECK(categories <= (1 << 24), "number of categories cannot exceed 2^24");
    if (self.dim() == 1)
        at::native::resize_output(out, {samples});
    else
        at::native::resize_output(out, {self.size(0), samples});
    if (out.numel() == 0)
        return out;
    auto [seed, offset] = philox_reserve(generator, self.device().index(), kNumbersPerElement);
    at::Tensor target = contiguous_target(out);
    Launch(TN_OP_multinomial)
        .out(target)
        .in(self.contiguous())
        .scalar(samples)
        .scalar(replacement)
        .rng(seed, offset)
        .run();
    if (!target.is_same(out))
        out.copy_(target);
    return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement,
                       MaybeGenerator generator)
{
    at::Tensor out = new_tensor({0}, at::kLong, self.device());
    return multinomial_out(self, samples, replacement, generator, out);
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("uniform_", &neuron::uniform_);
    m.impl("normal_", &neuron::normal_);
    m.impl("log_normal_", &neuron::log_normal_);
    m.impl("exponential_", &neuron::exponential_);
    m.impl("geometric_", &neuron::geometric_);
    m.impl("cauchy_", &neuron::cauchy_);
    m.impl("bernoulli_.float", &neuron::bernoulli_scalar);
    m.impl("bernoulli_.Tensor", &neuron::bernoulli_tensor);
    m.impl("bernoulli.out", &neuron::bernoulli_out);
    m.impl("random_", &neuron::random_);
    m.impl("random_.from", &neuron::random_from);
    m.impl("random_.to", &neuron::random_to);
    m.impl("randperm.generator_out", &neuron::randperm_out);
    m.impl("normal.Tensor_Tensor", &neuron::normal_tensor_tensor);
    m.impl("normal.Tensor_Tensor_out", &neuron::normal_tensor_tensor_out);
    m.impl("normal.Tensor_float", &neuron::normal_tensor_float);
    m.impl("normal.Tensor_float_out", &neuron::normal_tensor_float_out);
    m.impl("normal.float_Tensor", &neuron::normal_float_tensor);
    m.impl("normal.float_Tensor_out", &neuron::normal_float_tensor_out);
    m.impl("native_dropout", &neuron::native_dropout);
    m.impl("native_dropout_backward", &neuron::native_dropout_backward);
    m.impl("multinomial", &neuron::multinomial);
    m.impl("multinomial.out", &neuron::multinomial_out);
}
