// Batch normalisation, and the pieces of it that SyncBatchNorm exchanges between processes. The kernel sees x as
// [N, C, S] or, where channels lie innermost, as [N S, C] (core/kernel/channels.h).
#include <array>

#include <c10/core/MemoryFormat.h>
#include <torch/library.h>

#include "channels.h"
#include "launch.h"
#include "structured.h"
#include "tn/op/batch_norm.h"

namespace neuron {
namespace {

using Optional = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Quadruple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Where the statistics come from: scalar 4 of the kernels.
enum Source : int64_t { kBatch = 0, kVariance = 1, kReciprocal = 2 };

void check(const at::Tensor& input, std::initializer_list<std::pair<const char*, const Optional*>> parameters)
{
    int64_t channels = input.size(1);
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(input.scalar_type()) && input.element_size() > 1,
                                "\"batch_norm\" not implemented for '", input.scalar_type(), "'");
    TORCH_CHECK(input.numel() > 0, "input tensor must have at least one element, but got input_sizes = ",
                input.sizes());
    for (auto [name, parameter] : parameters) {
        if (!is_given(*parameter))
            continue;
        check_same_device("batch_norm", {&input, &**parameter});
        TORCH_CHECK((*parameter)->numel() == channels, name, " should contain ", channels, " elements not ",
                    (*parameter)->numel());
    }
}

struct Forward {
    const at::Tensor& input;
    const Optional &weight, &bias, &mean, &spread; // the last two: running averages, or as given
    Source source;
    double momentum, eps;
    bool as_variance = false;
};

// Fills those of the outputs that are defined.
void launch(const Forward& f, const ChannelView& view, const at::Tensor& out, const at::Tensor& mean,
            const at::Tensor& spread)
{
    Optional m = dense(f.mean), s = dense(f.spread);
    bool updates = f.source == kBatch;
    Launch call(TN_OP_batch_norm);
    call.out(out).out(mean).out(spread);
    call.out(updates && m ? *m : at::Tensor()).out(updates && s ? *s : at::Tensor());
    call.in(view.tensor).in(dense(f.weight)).in(dense(f.bias)).in(m).in(s);
    view.scalars(call);
    call.scalar(int64_t{f.source}).scalar(f.as_variance).scalar(f.momentum).scalar(f.eps).run();
    if (updates && m && !m->is_same(*f.mean))
        copy_back(*m, *f.mean);
    if (updates && s && !s->is_same(*f.spread))
        copy_back(*s, *f.spread);
}

Triple batch_norm(const at::Tensor& input, const Optional& weight, const Optional& bias,
                  const Optional& running_mean, const Optional& running_var, bool training, double momentum,
                  double eps)
{
    check(input, {{"weight", &weight}, {"bias", &bias}, {"running_mean", &running_mean},
                  {"running_var", &running_var}});
    TORCH_CHECK(training || (is_given(running_mean) && is_given(running_var)),
                "running_mean and running_var must be defined in evaluation mode");
    auto dtype = parameter_dtype("batch_norm", input, {&weight, &bias, &running_mean, &running_var});
    int64_t saved = training ? input.size(1) : 0;
    ChannelView view(input);
    Triple results{view.new_result(input.scalar_type()), new_tensor({saved}, dtype, input.device()),
                   new_tensor({saved}, dtype, input.device())};
    auto& [out, mean, invstd] = results;
    at::Tensor none;
    launch({input, weight, bias, running_mean, running_var, training ? kBatch : kVariance, momentum, eps}, view,
           out, training ? mean : none, training ? invstd : none);
    return results;
}

Triple no_stats(const at::Tensor& input, const Optional& weight, const Optional& bias, bool training,
                double momentum, double eps)
{
    return batch_norm(input, weight, bias, {}, {}, training, momentum, eps);
}

Triple legit(const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
             at::Tensor& running_var, bool training, double momentum, double eps)
{
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Quadruple with_update(const at::Tensor& input, const Optional& weight, const Optional& bias,
                      at::Tensor& running_mean, at::Tensor& running_var, double momentum, double eps)
{
    auto [out, mean, invstd] = batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
    return {out, mean, invstd, new_tensor({0}, at::kByte, input.device())};
}

Quadruple no_update(const at::Tensor& input, const Optional& weight, const Optional& bias,
                    const Optional& running_mean, const Optional& running_var, double momentum, double eps)
{
    auto [out, mean, invstd] = batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps);
    return {out, mean, invstd, new_tensor({0}, at::kByte, input.device())};
}

void write(const at::Tensor& result, at::Tensor& out)
{
    prepare_out(out, result.sizes(), {}, result.options());
    copy_back(result, out);
}

using Out = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;

Out batch_norm_out(const at::Tensor& input, const Optional& weight, const Optional& bias,
                   const Optional& running_mean, const Optional& running_var, bool training, double momentum,
                   double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd)
{
    auto [y, mean, invstd] = batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
    write(y, out);
    write(mean, save_mean);
    write(invstd, save_invstd);
    return {out, save_mean, save_invstd};
}

Out no_stats_out(const at::Tensor& input, const Optional& weight, const Optional& bias, bool training,
                 double momentum, double eps, at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd)
{
    return batch_norm_out(input, weight, bias, {}, {}, training, momentum, eps, out, save_mean, save_invstd);
}

Out legit_out(const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
              at::Tensor& running_var, bool training, double momentum, double eps, at::Tensor& out,
              at::Tensor& save_mean, at::Tensor& save_invstd)
{
    return batch_norm_out(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean,
                          save_invstd);
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>
with_update_out(const at::Tensor& input, const Optional& weight, const Optional& bias, at::Tensor& running_mean,
                at::Tensor& running_var, double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                at::Tensor& save_invstd, at::Tensor& reserve)
{
    batch_norm_out(input, weight, bias, running_mean, running_var, true, momentum, eps, out, save_mean, save_invstd);
    return {out, save_mean, save_invstd, reserve};
}

Pair update_stats(const at::Tensor& input, const Optional& running_mean, const Optional& running_var,
                  double momentum)
{
    check(input, {{"running_mean", &running_mean}, {"running_var", &running_var}});
    auto dtype = parameter_dtype("batch_norm", input, {&running_mean, &running_var});
    Pair results{new_tensor({input.size(1)}, dtype, input.device()),
                 new_tensor({input.size(1)}, dtype, input.device())};
    launch({input, {}, {}, running_mean, running_var, kBatch, momentum, 0, true}, ChannelView(input), {},
           std::get<0>(results), std::get<1>(results));
    return results;
}

// ---- backward ----------------------------------------------------------------------------------------

// The sums of SyncBatchNorm's two steps: asked for, or given with the number of their terms.
struct Sums {
    at::Tensor out_sum, out_dot;
    Optional sum, dot, counts;
};

struct Backward {
    const at::Tensor &grad, &input;
    const Optional &weight, &mean, &spread;
    Source source;
    bool training;
    double eps;
};

void launch(const Backward& b, const at::Tensor& grad_input, const at::Tensor& grad_weight,
            const at::Tensor& grad_bias, const ChannelView& view, const Sums& sums = {})
{
    Launch call(TN_OP_batch_norm_backward);
    call.out(grad_input).out(grad_weight).out(grad_bias).out(sums.out_sum).out(sums.out_dot);
    call.in(view.match(b.grad)).in(view.tensor).in(dense(b.mean)).in(dense(b.spread)).in(dense(b.weight));
    call.in(sums.sum).in(sums.dot).in(sums.counts);
    view.scalars(call);
    call.scalar(int64_t{b.source}).scalar(b.training).scalar(b.eps).run();
}

void check_grad(const at::Tensor& grad, const at::Tensor& input)
{
    check_same_device("batch_norm_backward", {&input, &grad});
    TORCH_CHECK(grad.sizes().equals(input.sizes()), "batch_norm_backward: expected a gradient of size ",
                input.sizes(), ", got ", grad.sizes());
    TORCH_CHECK(grad.scalar_type() == input.scalar_type(), "batch_norm_backward: expected scalar type ",
                input.scalar_type(), " but found ", grad.scalar_type());
}

Triple batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const Optional& weight,
                           const Optional& running_mean, const Optional& running_var, const Optional& save_mean,
                           const Optional& save_invstd, bool train, double eps, std::array<bool, 3> mask)
{
    const Optional &mean = train ? save_mean : running_mean, &spread = train ? save_invstd : running_var;
    check(input, {{"weight", &weight}, {"mean", &mean}, {train ? "invstd" : "variance", &spread}});
    check_grad(grad, input);
    TORCH_CHECK(is_given(mean) && is_given(spread), "batch_norm_backward: ", train ? "saved" : "running",
                " statistics must be defined");
    auto dtype = is_given(weight) ? weight->scalar_type() : input.scalar_type();
    ChannelView view(input);
    Triple results;
    auto& [grad_input, grad_weight, grad_bias] = results;
    if (mask[0])
        grad_input = view.new_result(input.scalar_type());
    if (mask[1])
        grad_weight = new_tensor({input.size(1)}, dtype, input.device());
    if (mask[2])
        grad_bias = new_tensor({input.size(1)}, dtype, input.device());
    launch({grad, input, weight, mean, spread, train ? kReciprocal : kVariance, train, eps}, grad_input,
           grad_weight, grad_bias, view);
    return results;
}

Triple backward_with_reserve(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                             const Optional& running_mean, const Optional& running_var,
                             const Optional& save_mean, const Optional& save_var, bool update, double eps,
                             std::array<bool, 3> mask, const at::Tensor&)
{
    return batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_var, update, eps,
                               mask);
}

// ---- SyncBatchNorm: statistics are kept in fp32 (fp64 for fp64) ---------------------------------------

at::ScalarType statistics_dtype(const at::Tensor& input)
{
    return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Pair stats(const at::Tensor& input, double eps)
{
    check(input, {});
    auto dtype = statistics_dtype(input);
    Pair results{new_tensor({input.size(1)}, dtype, input.device()),
                 new_tensor({input.size(1)}, dtype, input.device())};
    launch({input, {}, {}, {}, {}, kBatch, 0, eps}, ChannelView(input), {}, std::get<0>(results),
           std::get<1>(results));
    return results;
}

at::Tensor elemt(const at::Tensor& input, const Optional& weight, const Optional& bias, const at::Tensor& mean,
                 const at::Tensor& invstd, double eps)
{
    Optional m(mean), s(invstd);
    check(input, {{"weight", &weight}, {"bias", &bias}, {"mean", &m}, {"invstd", &s}});
    ChannelView view(input);
    at::Tensor out = view.new_result(input.scalar_type());
    launch({input, weight, bias, m, s, kReciprocal, 0, eps}, view, out, {}, {});
    return out;
}

at::Tensor& elemt_out(const at::Tensor& input, const Optional& weight, const Optional& bias,
                      const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out)
{
    write(elemt(input, weight, bias, mean, invstd, eps), out);
    return out;
}

Pair gather(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
            const Optional& running_mean, const Optional& running_var, double momentum, double eps, double count,
            const Optional& counts)
{
    check_same_device("batch_norm_gather_stats", {&input, &mean, &invstd});
    TORCH_CHECK(mean.dim() == 2 && mean.sizes().equals(invstd.sizes()),
                "batch_norm_gather_stats: expected means and reciprocal deviations of one size ",
                "[processes, channels], got ", mean.sizes(), " and ", invstd.sizes());
    int64_t channels = mean.size(1);
    for (const Optional* running : {&running_mean, &running_var})
        TORCH_CHECK(!is_given(*running) || (*running)->numel() == channels,
                    "running statistics should contain ", channels, " elements not ", (*running)->numel());
    TORCH_CHECK(!counts || counts->numel() == mean.size(0), "batch_norm_gather_stats: expected ", mean.size(0),
                " counts, got ", counts->numel());
    auto dtype = statistics_dtype(mean);
    Pair results{new_tensor({channels}, dtype, mean.device()), new_tensor({channels}, dtype, mean.device())};
    Optional m = dense(running_mean), s = dense(running_var);
    Launch(TN_OP_batch_norm_gather)
        .out(std::get<0>(results)).out(std::get<1>(results))
        .out(m ? *m : at::Tensor()).out(s ? *s : at::Tensor())
        .in(mean.contiguous()).in(invstd.contiguous()).in(dense(counts)).in(m).in(s)
        .scalar(channels).scalar(count).scalar(momentum).scalar(eps)
        .run();
    if (m && !m->is_same(*running_mean))
        copy_back(*m, *running_mean);
    if (s && !s->is_same(*running_var))
        copy_back(*s, *running_var);
    return results;
}

Pair gather_stats(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                  const Optional& running_mean, const Optional& running_var, double momentum, double eps,
                  int64_t count)
{
    return gather(input, mean, invstd, running_mean, running_var, momentum, eps, static_cast<double>(count), {});
}

Pair gather_stats_with_counts(const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
                              const Optional& running_mean, const Optional& running_var, double momentum,
                              double eps, const at::Tensor& counts)
{
    return gather(input, mean, invstd, running_mean, running_var, momentum, eps, 0, counts);
}

Quadruple backward_reduce(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& invstd, const Optional& weight, bool input_g, bool weight_g,
                          bool bias_g)
{
    Optional m(mean), s(invstd);
    check(input, {{"weight", &weight}, {"mean", &m}, {"invstd", &s}});
    check_grad(grad, input);
    auto dtype = is_given(weight) ? weight->scalar_type() : statistics_dtype(input);
    Sums sums;
    at::Tensor grad_weight, grad_bias;
    at::IntArrayRef sizes = mean.sizes();
    if (input_g) {
        sums.out_sum = new_tensor(sizes, statistics_dtype(input), input.device());
        sums.out_dot = new_tensor(sizes, statistics_dtype(input), input.device());
    }
    if (weight_g)
        grad_weight = new_tensor(sizes, dtype, input.device());
    if (bias_g)
        grad_bias = new_tensor(sizes, dtype, input.device());
    launch({grad, input, weight, m, s, kReciprocal, false, 0}, {}, grad_weight, grad_bias, ChannelView(input), sums);
    return {sums.out_sum, sums.out_dot, grad_weight, grad_bias};
}

at::Tensor backward_elemt(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& invstd, const Optional& weight, const at::Tensor& sum_dy,
                          const at::Tensor& sum_dy_xmu, const at::Tensor& count)
{
    Optional m(mean), s(invstd), sum(sum_dy.contiguous()), dot(sum_dy_xmu.contiguous());
    check(input, {{"weight", &weight}, {"mean", &m}, {"invstd", &s}, {"sum_dy", &sum}, {"sum_dy_xmu", &dot}});
    check_grad(grad, input);
    ChannelView view(input);
    at::Tensor grad_input = view.new_result(input.scalar_type());
    launch({grad, input, weight, m, s, kReciprocal, true, 0}, grad_input, {}, {}, view,
           {{}, {}, sum, dot, count.contiguous()});
    return grad_input;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    using namespace neuron;
    m.impl("native_batch_norm", &batch_norm);
    m.impl("native_batch_norm.out", &batch_norm_out);
    m.impl("_native_batch_norm_legit", &legit);
    m.impl("_native_batch_norm_legit.out", &legit_out);
    m.impl("_native_batch_norm_legit.no_stats", &no_stats);
    m.impl("_native_batch_norm_legit.no_stats_out", &no_stats_out);
    m.impl("_batch_norm_with_update", &with_update);
    m.impl("_batch_norm_with_update.out", &with_update_out);
    m.impl("_batch_norm_no_update", &no_update);
    m.impl("native_batch_norm_backward", &batch_norm_backward);
    m.impl("batch_norm_backward", &backward_with_reserve);
    m.impl("batch_norm_update_stats", &update_stats);
    m.impl("batch_norm_stats", &stats);
    m.impl("batch_norm_elemt", &elemt);
    m.impl("batch_norm_elemt.out", &elemt_out);
    m.impl("batch_norm_gather_stats", &gather_stats);
    m.impl("batch_norm_gather_stats_with_counts", &gather_stats_with_counts);
    m.impl("batch_norm_backward_reduce", &backward_reduce);
    m.impl("batch_norm_backward_elemt", &backward_elemt);
}
