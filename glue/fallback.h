// The host fallback: an operator without a native kernel runs as its CPU kernel over aliases of device
// memory. Nothing falls back silently: every run is counted with its Python line (fallback_rows).
#pragma once

#include <string>
#include <vector>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace neuron {

// The boxed kernel registered for every op of PrivateUse1 that has no other.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// The same from inside an unboxed kernel that meets a case it does not serve.
template <class Signature>
struct CallFallback;

template <class Return, class... Args>
struct CallFallback<Return(Args...)> {
    static Return call(const char* name, const char* overload, Args... args)
    {
        auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
        return c10::impl::BoxedKernelWrapper<Return(Args...)>::call(
            c10::BoxedKernel::makeFromFunction<&fallback>(), op,
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), args...);
    }
};

template <class Signature, class... Args>
decltype(auto) call_fallback(const char* name, const char* overload, Args&&... args)
{
    return CallFallback<Signature>::call(name, overload, std::forward<Args>(args)...);
}

struct FallbackRow {
    std::string op;        // "aten::unique2"
    std::string location;  // "file.py:12" of the first call, or empty
    int64_t count;         // runs
    int64_t bytes_copied;  // results that were not born in device memory
    int64_t nanoseconds;   // in the host kernel, with the wait for the streams
};
std::vector<FallbackRow> fallback_rows();
void clear_fallback_rows();

// TORCH_NEURONX_STRICT=1: a fallback raises NotImplementedError instead of running.
bool strict_mode();
void set_strict_mode(bool on);

} // namespace neuron
