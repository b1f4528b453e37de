// Copies: between tensors of a device, between devices, and between host and device.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty.h>

#include "launch.h"
#include "tn/op/copy.h"
#include "wait.h"

namespace neuron {
namespace {

bool is_pinned_memory(const at::Tensor& tensor)
{
    return at::globalContext().getPinnedMemoryAllocator(c10::DeviceType::PrivateUse1) &&
           tensor.is_pinned();
}

// Keeps a pinned block from reuse until the stream has passed this copy.
void hold_pinned(const at::Tensor& host, tn_stream* stream, c10::Device device)
{
    const auto& data = host.storage().data_ptr();
    at::getHostAllocator(c10::DeviceType::PrivateUse1)
        ->record_event(data.get(), data.get_context(),
                       c10::Stream(c10::Stream::UNSAFE, device, tn_stream_id(stream)));
}

void copy_host_to_device(const at::Tensor& host, const at::Tensor& self, bool non_blocking)
{
    tn_stream* stream = current_stream(self.device().index());
    Launch copy(TN_OP_copy);
    copy.out(self).host_in(host).on(stream);
    if (!non_blocking || !is_pinned_memory(host))
        return copy.run_complete();
    copy.run();
    hold_pinned(host, stream, self.device());
}

void copy_device_to_host(const at::Tensor& source, const at::Tensor& host, bool non_blocking)
{
    tn_stream* stream = current_stream(source.device().index());
    Launch copy(TN_OP_copy);
    copy.host_out(host).in(source).on(stream);
    if (!non_blocking || !is_pinned_memory(host))
        return copy.run_complete();
    copy.run();
    hold_pinned(host, stream, source.device());
}

// The destination's stream waits for the source's, and the source's block for the destination's stream.
void copy_across_devices(const at::Tensor& source, const at::Tensor& self)
{
    tn_stream* from = current_stream(source.device().index());
    tn_stream* to = current_stream(self.device().index());
    tn_event* ready = nullptr;
    check(tn_event_create(source.device().index(), false, &ready));
    tn_status status = tn_event_record(ready, from);
    if (status == TN_OK)
        status = tn_stream_wait_event(to, ready);
    tn_event_destroy(ready);
    check(status);
    Launch(TN_OP_copy).on(to).out(self).in(source).run();
    if (tn_block* block = block_of(source.storage()))
        tn_block_record_stream(block, to);
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& self, bool non_blocking)
{
    TORCH_CHECK(self.defined() && source.defined(), "copy_: both tensors must be defined");
    if (self.is_same(source))
        return self;
    TORCH_CHECK(at::is_expandable_to(source.sizes(), self.sizes()), "copy_: a tensor of shape ",
                source.sizes(), " cannot be broadcast to the destination's shape ", self.sizes());
    if (self.numel() == 0)
        return self;
    bool from_device = is_neuron(source), to_device = is_neuron(self);
    TORCH_CHECK(source.layout() == c10::kStrided && self.layout() == c10::kStrided,
                "copy_: neuron tensors are dense; got layouts ", source.layout(), " and ",
                self.layout());
    if (from_device && to_device) {
        at::assert_no_internal_overlap(self);
        if (source.device() != self.device()) {
            copy_across_devices(source, self);
        } else {
            at::assert_no_partial_overlap(self, source);
            Launch(TN_OP_copy).out(self).in(source).run();
        }
    } else if (to_device) {
        at::assert_no_internal_overlap(self);
        TORCH_CHECK(source.device().is_cpu(), "copy_ between ", source.device(),
                    " and neuron is not supported; go through .cpu()");
        copy_host_to_device(source, self, non_blocking);
    } else {
        TORCH_CHECK(self.device().is_cpu(), "copy_ between neuron and ", self.device(),
                    " is not supported; go through .cpu()");
        copy_device_to_host(source, self, non_blocking);
    }
    return self;
}

// The plain case goes straight to the launch; ATen's copy_ broadcasts and knows tensors without memory.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking)
{
    if (self.sizes() != source.sizes() || source._is_zerotensor()) [[unlikely]]
        return at::native::copy_(self, source, non_blocking);
    copy_from(source, self, non_blocking);
    return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& self)
{
    if (self.sizes() != source.sizes())
        self.resize_(source.sizes());
    return copy_from(source, self, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self)
{
    auto host = at::empty({}, self.options().device(c10::kCPU));
    copy_device_to_host(self.reshape({}), host, false);
    return host.item();
}

} // namespace
} // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("copy_", &neuron::copy);
    m.impl("_copy_from", &neuron::copy_from);
    m.impl("_copy_from_and_resize", &neuron::copy_from_and_resize);
    m.impl("_local_scalar_dense", &neuron::local_scalar_dense);
}

// copy_ resolves lazy bits in the kernel (TN_OPERAND_CONJ, TN_OPERAND_NEG), not by a materialised copy.
TORCH_LIBRARY_IMPL(aten, Conjugate, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m)
{
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
