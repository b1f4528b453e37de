// The Python line that is executing, for errors, the fallback report and the event ring.
#pragma once

#include <cstdint>
#include <string>

namespace neuron {

// An id for the innermost Python line of this thread, or for the autograd node that is running; 0 when
// neither is known. Takes the GIL only if this thread has a Python frame. The core's source hook.
uint32_t source_line();

// "file.py:12", "AddmmBackward0", or "" for 0.
std::string source_text(uint32_t id);

inline std::string python_location()
{
    return source_text(source_line());
}

} // namespace neuron
