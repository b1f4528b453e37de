// c10's device guard: devices, streams and events, each forwarded to the core.
#include "guard.h"

#include <ATen/core/ivalue.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "allocator.h"
#include "error.h"
#include "wait.h"

namespace neuron {
namespace detail {

thread_local c10::DeviceIndex device = 0;
thread_local tn_stream* streams[kMaxDevices] = {};

tn_stream* default_stream(c10::DeviceIndex index)
{
    tn_stream* stream = nullptr;
    check(tn_stream_default(index, &stream));
    return stream;
}

} // namespace detail

c10::Stream to_c10(tn_stream* stream)
{
    auto index = static_cast<c10::DeviceIndex>(tn_stream_device(stream));
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index),
                       tn_stream_id(stream));
}

tn_stream* from_c10(const c10::Stream& stream)
{
    tn_stream* result = nullptr;
    check(tn_stream_from_id(stream.device_index(), stream.id(), &result));
    return result;
}

namespace {

void check_index(c10::DeviceIndex index)
{
    TORCH_CHECK(index >= 0 && index < tn_device_count(), "invalid device ordinal: neuron:",
                static_cast<int>(index), " does not exist, this process has ", tn_device_count(),
                " neuron device(s)");
}

tn_event* to_event(void* event)
{
    return static_cast<tn_event*>(event);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override
    {
        return c10::DeviceType::PrivateUse1;
    }
    c10::Device getDevice() const override
    {
        return {type(), detail::device};
    }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        c10::Device previous = getDevice();
        if (device.index() != previous.index())
            setDevice(device);
        return previous;
    }
    void setDevice(c10::Device device) const override
    {
        if (device.index() == -1)
            return;
        check_index(device.index());
        detail::device = device.index();
    }
    void uncheckedSetDevice(c10::Device device) const noexcept override
    {
        if (device.index() >= 0)
            detail::device = device.index();
    }
    c10::DeviceIndex deviceCount() const noexcept override
    {
        return static_cast<c10::DeviceIndex>(tn_device_count());
    }
    c10::DeviceCapability getDeviceCapability(c10::Device) const override
    {
        // The bits are scalar types: whatever a dense tensor of the device can hold.
        c10::DeviceCapability capability;
        capability.capability_data.capability_bits = 0;
        for (int type = 0; type < static_cast<int>(c10::NUMBER_OF_DEVICE_CAPABILITIES); type++)
            if (!c10::isQIntType(static_cast<c10::ScalarType>(type)) &&
                tn_dtype_size(static_cast<tn_dtype>(type)) != 0)
                capability.capability_data.capability_bits |= 1ULL << type;
        return capability;
    }

    // ---- streams
    c10::Stream getStream(c10::Device device) const override
    {
        return to_c10(current_stream(device.index()));
    }
    c10::Stream getDefaultStream(c10::Device device) const override
    {
        auto index = device.index() < 0 ? detail::device : device.index();
        return to_c10(detail::default_stream(index));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override
    {
        return getNewStream(device, high_priority ? -1 : 0);
    }
    c10::Stream getNewStream(c10::Device device, int priority) const override
    {
        tn_stream* stream = nullptr;
        auto index = device.index() < 0 ? detail::device : device.index();
        check_index(index);
        check(tn_stream_create(index, priority, &stream));
        return to_c10(stream);
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        tn_stream* target = from_c10(stream);
        c10::Stream previous = getStream(stream.device());
        detail::streams[stream.device_index()] = target;
        return previous;
    }
    void* getStreamNativeHandle(const c10::Stream stream) const override
    {
        return from_c10(stream);
    }
    bool queryStream(const c10::Stream& stream) const override
    {
        return tn_stream_query(from_c10(stream));
    }
    void synchronizeStream(const c10::Stream& stream) const override
    {
        wait_stream(from_c10(stream));
    }
    void synchronizeDevice(const c10::DeviceIndex index) const override
    {
        wait_device(index < 0 ? detail::device : index);
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override
    {
        neuron_allocator()->recordStream(data, stream);
    }

    // ---- events
    void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override
    {
        if (event)
            tn_event_destroy(to_event(event));
    }
    void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
                const c10::EventFlag flag) const override
    {
        TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ",
                    static_cast<int>(device), " does not match recording stream's device index ",
                    static_cast<int>(stream.device_index()), ".");
        if (!*event) {
            tn_event* created = nullptr;
            bool timing = flag == c10::EventFlag::BACKEND_DEFAULT;
            check(tn_event_create(stream.device_index(), timing, &created));
            *event = created;
        }
        check(tn_event_record(to_event(*event), from_c10(stream)));
    }
    void block(void* event, const c10::Stream& stream) const override
    {
        if (event)
            check(tn_stream_wait_event(from_c10(stream), to_event(event)));
    }
    bool queryEvent(void* event) const override
    {
        return !event || tn_event_query(to_event(event));
    }
    void synchronizeEvent(void* event) const override
    {
        if (event)
            wait_event(to_event(event));
    }
    double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override
    {
        TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
        double milliseconds = 0;
        check(tn_event_elapsed_ms(to_event(start), to_event(end), &milliseconds));
        return milliseconds;
    }
};

} // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

} // namespace neuron
