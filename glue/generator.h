// The Philox generator of the device. Its state is 16 bytes: seed (8), then offset (8), a multiple of 4;
// an op reserves a range of offsets when it is launched, and number i of the op depends on (seed, offset,
// i) alone.
#pragma once

#include <optional>
#include <utility>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace neuron {

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// Reserves `count` numbers per element lane (rounded up to a multiple of 4) and returns (seed, offset)
// from before. Without a generator: the device's default one.
std::pair<uint64_t, uint64_t> philox_reserve(const std::optional<at::Generator>& generator,
                                             c10::DeviceIndex device, uint64_t count);

// A seed for a host generator out of a reserved (seed, offset).
uint64_t philox_mix(uint64_t seed, uint64_t offset);

} // namespace neuron
