// tn_status to the exception that CPU torch raises for it (docs/errors.md).
#pragma once

#include "tn/runtime.h"

namespace neuron {

// Raises the exception for a failed status with the thread's last error.
[[noreturn]] void raise(tn_status status);

inline void check(tn_status status)
{
    if (status != TN_OK) [[unlikely]]
        raise(status);
}

} // namespace neuron
