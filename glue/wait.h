// Waiting for the device without holding the GIL.
//
// All come back to Python at least every 100 ms, so that Ctrl-C works in a long wait.
#pragma once

#include <functional>

#include "tn/runtime.h"

namespace neuron {

void wait_stream(tn_stream* stream);
void wait_device(int device);
void wait_event(tn_event* event);
// Repeats an attempt that returns TN_TIMEOUT about every 100 ms.
void wait_until_done(const std::function<tn_status()>& attempt);

} // namespace neuron
