// The current device and the current stream of each device, per thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "tn/runtime.h"

namespace neuron {

inline constexpr int kMaxDevices = 64;

namespace detail {
extern thread_local c10::DeviceIndex device;
extern thread_local tn_stream* streams[kMaxDevices]; // null: the default stream
tn_stream* default_stream(c10::DeviceIndex index);
} // namespace detail

inline c10::DeviceIndex current_device()
{
    return detail::device;
}

// -1 means the current device.
inline tn_stream* current_stream(c10::DeviceIndex index)
{
    if (index < 0)
        index = detail::device;
    tn_stream* stream = detail::streams[index];
    return stream ? stream : detail::default_stream(index);
}

c10::Stream to_c10(tn_stream* stream);
tn_stream* from_c10(const c10::Stream& stream);

} // namespace neuron
