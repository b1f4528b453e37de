// What the device does not have, said in one sentence instead of the dispatcher's list of backends: other
// layouts than dense, quantised tensors, recorded graphs.
#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace neuron {
namespace {

template <const char* kind>
void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(), ": ", kind,
                                " tensors are not supported on neuron; use a dense tensor, or keep it on "
                                "the CPU");
}

constexpr char sparse[] = "sparse";
constexpr char sparse_compressed[] = "sparse compressed (CSR, CSC, BSR, BSC)";
constexpr char quantised[] = "quantized";
constexpr char nested[] = "nested tensors of the strided layout (torch.jagged is served); such";

// torch.accelerator.Graph() asks for an implementation by the device's name.
class NoGraph final : public at::GraphImplInterface {
  public:
    explicit NoGraph(const at::GraphImplArgs&)
    {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "torch.accelerator.Graph: recording and replaying graphs is "
                                           "not implemented on neuron yet");
    }
    void capture_begin(c10::MempoolId_t, at::GraphCaptureMode) override {}
    void capture_end() override {}
    void instantiate() override {}
    void replay() override {}
    void reset() override {}
    c10::MempoolId_t pool() const override
    {
        return {0, 0};
    }
    void enable_debug_mode() override {}
    void debug_dump(const std::string&) override {}
};

// nn.TransformerEncoder would make a nested tensor of a padded batch: the dense path serves it.
bool nested_tensor_from_mask_left_aligned(const at::Tensor&, const at::Tensor&)
{
    return false;
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("_nested_tensor_from_mask_left_aligned", &neuron::nested_tensor_from_mask_left_aligned);
}

namespace at {
REGISTER_GRAPH_IMPL(NEURON, neuron::NoGraph)
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::refuse<neuron::sparse>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::refuse<neuron::sparse_compressed>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::refuse<neuron::quantised>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::refuse<neuron::nested>>());
}
