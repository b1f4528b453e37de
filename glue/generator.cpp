#include "generator.h"

#include <array>
#include <cstring>
#include <mutex>

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <c10/core/GeneratorImpl.h>

#include "guard.h"

namespace neuron {
namespace {

constexpr size_t kStateBytes = 16;

class Generator final : public c10::GeneratorImpl {
  public:
    explicit Generator(c10::DeviceIndex device)
        : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1))
    {
    }

    static c10::DeviceType device_type()
    {
        return c10::DeviceType::PrivateUse1;
    }
    void set_current_seed(uint64_t seed) override
    {
        seed_ = seed;
        offset_ = 0;
    }
    void set_offset(uint64_t offset) override
    {
        TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4, got ", offset);
        offset_ = offset;
    }
    uint64_t get_offset() const override
    {
        return offset_;
    }
    uint64_t current_seed() const override
    {
        return seed_;
    }
    uint64_t seed() override
    {
        set_current_seed(c10::detail::getNonDeterministicRandom());
        return seed_;
    }
    void set_state(const c10::TensorImpl& state) override
    {
        TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                        state.numel() == kStateBytes && state.is_contiguous(),
                    "RNG state must be a contiguous uint8 CPU tensor of ", kStateBytes,
                    " bytes (seed, offset)");
        std::array<uint64_t, 2> values;
        std::memcpy(values.data(), state.data(), kStateBytes);
        seed_ = values[0];
        set_offset(values[1]);
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override
    {
        at::TensorBase state = at::detail::empty_cpu({kStateBytes}, at::kByte);
        std::array<uint64_t, 2> values{seed_, offset_};
        std::memcpy(state.mutable_data_ptr(), values.data(), kStateBytes);
        return state.getIntrusivePtr();
    }
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override
    {
        auto* other = static_cast<Generator*>(state.get());
        seed_ = other->seed_;
        offset_ = other->offset_;
    }
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override
    {
        return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
    }
    std::pair<uint64_t, uint64_t> reserve(uint64_t count)
    {
        uint64_t offset = offset_;
        offset_ += (count + 3) / 4 * 4;
        return {seed_, offset};
    }

  private:
    Generator* clone_impl() const override
    {
        auto* copy = new Generator(device_.index());
        copy->seed_ = seed_;
        copy->offset_ = offset_;
        return copy;
    }

    uint64_t seed_ = c10::default_rng_seed_val;
    uint64_t offset_ = 0;
};

} // namespace

const at::Generator& default_generator(c10::DeviceIndex device)
{
    static std::once_flag once[kMaxDevices];
    static std::array<at::Generator, kMaxDevices>& generators =
        *new std::array<at::Generator, kMaxDevices>(); // leaked: used until the very end
    size_t index = static_cast<size_t>(device < 0 ? current_device() : device);
    TORCH_CHECK(index < static_cast<size_t>(tn_device_count()), "neuron:", index, " does not exist");
    std::call_once(once[index], [&] {
        generators[index] = at::make_generator<Generator>(static_cast<c10::DeviceIndex>(index));
    });
    return generators[index];
}

at::Generator new_generator(c10::DeviceIndex device)
{
    return at::make_generator<Generator>(device < 0 ? current_device() : device);
}

std::pair<uint64_t, uint64_t> philox_reserve(const std::optional<at::Generator>& generator,
                                             c10::DeviceIndex device, uint64_t count)
{
    at::Generator chosen =
        generator && generator->defined() ? *generator : default_generator(device);
    TORCH_CHECK(chosen.device().type() == c10::DeviceType::PrivateUse1,
                "Expected a 'neuron' device type for generator but found '", chosen.device().type(),
                "'");
    std::lock_guard lock(chosen.mutex());
    return static_cast<Generator*>(chosen.unsafeGetGeneratorImpl())->reserve(count);
}

uint64_t philox_mix(uint64_t seed, uint64_t offset)
{
    return seed ^ (offset * 0x9E3779B97F4A7C15ULL);
}

} // namespace neuron
