// The fused recurrent cells that ATen's lstm and gru call on devices, after the products with the weights.
#include <torch/library.h>

#include <ATen/ops/sum.h>

#include "channels.h"
#include "launch.h"
#include "tn/op/rnn_cell.h"

namespace neuron {
namespace {

using Optional = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Quintuple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_state(const char* op, const at::Tensor& state)
{
    TORCH_CHECK(state.dim() == 2, op, ": expected a state [batch, hidden], got shape ", state.sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(state.scalar_type()) && state.element_size() > 1, "\"", op,
                                "\" not implemented for '", state.scalar_type(), "'");
}

// `tensor` belongs to `state` and has `width` times its hidden size.
void check_like(const char* op, const char* name, const at::Tensor& tensor, const at::Tensor& state, int64_t width)
{
    check_same_device(op, {&state, &tensor});
    TORCH_CHECK(tensor.scalar_type() == state.scalar_type(), op, ": expected ", name, " of dtype ",
                state.scalar_type(), ", got ", tensor.scalar_type());
    TORCH_CHECK(tensor.dim() == 2 && tensor.size(0) == state.size(0) && tensor.size(1) == width * state.size(1), op,
                ": expected ", name, " of shape [", state.size(0), ", ", width * state.size(1), "], got ",
                tensor.sizes());
}

void check_cell(const char* op, const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                const at::Tensor& state, const Optional& input_bias, const Optional& hidden_bias, int64_t gates)
{
    check_state(op, state);
    check_like(op, "input gates", input_gates, state, gates);
    check_like(op, "hidden gates", hidden_gates, state, gates);
    TORCH_CHECK(is_given(input_bias) == is_given(hidden_bias), op, ": expected both biases or none");
    for (const Optional* bias : {&input_bias, &hidden_bias}) {
        if (!is_given(*bias))
            continue;
        check_same_device(op, {&state, &**bias});
        TORCH_CHECK((*bias)->scalar_type() == state.scalar_type() && (*bias)->numel() == gates * state.size(1), op,
                    ": expected a bias of ", gates * state.size(1), " elements of ", state.scalar_type(), ", got ",
                    (*bias)->numel(), " of ", (*bias)->scalar_type());
    }
}

at::Tensor rows_like(const at::Tensor& state, int64_t width)
{
    return new_tensor({state.size(0), width * state.size(1)}, state.scalar_type(), state.device());
}

at::Tensor bias_gradient(bool has_bias, const at::Tensor& grad_gates)
{
    return has_bias ? at::sum(grad_gates, 0, false) : at::Tensor();
}

Triple lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& cx,
                 const Optional& input_bias, const Optional& hidden_bias)
{
    check_cell("_thnn_fused_lstm_cell", input_gates, hidden_gates, cx, input_bias, hidden_bias, 4);
    Triple results{rows_like(cx, 1), rows_like(cx, 1), rows_like(cx, 4)};
    auto& [hy, cy, workspace] = results;
    if (cx.numel() > 0)
        Launch(TN_OP_lstm_cell)
            .out(hy).out(cy).out(workspace)
            .in(input_gates.contiguous()).in(hidden_gates.contiguous()).in(cx.contiguous())
            .in(dense(input_bias)).in(dense(hidden_bias))
            .run();
    return results;
}

Triple lstm_cell_backward(const Optional& grad_hy, const Optional& grad_cy, const at::Tensor& cx,
                          const at::Tensor& cy, const at::Tensor& workspace, bool has_bias)
{
    constexpr const char* op = "_thnn_fused_lstm_cell_backward";
    if (!is_given(grad_hy) && !is_given(grad_cy))
        return {};
    check_state(op, cx);
    check_like(op, "cy", cy, cx, 1);
    check_like(op, "the workspace", workspace, cx, 4);
    for (const Optional* grad : {&grad_hy, &grad_cy})
        if (is_given(*grad))
            check_like(op, "a gradient", **grad, cx, 1);
    at::Tensor grad_gates = rows_like(cx, 4), grad_cx = rows_like(cx, 1);
    if (cx.numel() > 0)
        Launch(TN_OP_lstm_cell_backward)
            .out(grad_gates).out(grad_cx)
            .in(dense(grad_hy)).in(dense(grad_cy)).in(cx.contiguous()).in(cy.contiguous())
            .in(workspace.contiguous())
            .run();
    return {grad_gates, grad_cx, bias_gradient(has_bias, grad_gates)};
}

Pair gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hx,
              const Optional& input_bias, const Optional& hidden_bias)
{
    check_cell("_thnn_fused_gru_cell", input_gates, hidden_gates, hx, input_bias, hidden_bias, 3);
    Pair results{rows_like(hx, 1), rows_like(hx, 5)};
    if (hx.numel() > 0)
        Launch(TN_OP_gru_cell)
            .out(std::get<0>(results)).out(std::get<1>(results))
            .in(input_gates.contiguous()).in(hidden_gates.contiguous()).in(hx.contiguous())
            .in(dense(input_bias)).in(dense(hidden_bias))
            .run();
    return results;
}

Quintuple gru_cell_backward(const at::Tensor& grad_hy, const at::Tensor& workspace, bool has_bias)
{
    constexpr const char* op = "_thnn_fused_gru_cell_backward";
    check_state(op, grad_hy);
    check_like(op, "the workspace", workspace, grad_hy, 5);
    at::Tensor input_gates = rows_like(grad_hy, 3), hidden_gates = rows_like(grad_hy, 3);
    at::Tensor grad_hx = rows_like(grad_hy, 1);
    if (grad_hy.numel() > 0)
        Launch(TN_OP_gru_cell_backward)
            .out(input_gates).out(hidden_gates).out(grad_hx)
            .in(grad_hy.contiguous()).in(workspace.contiguous())
            .run();
    return {input_gates, hidden_gates, grad_hx, bias_gradient(has_bias, input_gates),
            bias_gradient(has_bias, hidden_gates)};
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_thnn_fused_lstm_cell", &neuron::lstm_cell);
    m.impl("_thnn_fused_lstm_cell_backward_impl", &neuron::lstm_cell_backward);
    m.impl("_thnn_fused_gru_cell", &neuron::gru_cell);
    m.impl("_thnn_fused_gru_cell_backward", &neuron::gru_cell_backward);
}
