// Waiting for the device without holding the GIL.
//
// The interruptible forms come back to Python at least every 100 ms, so that Ctrl-C works in a long wait;
// the others are for waits during which host memory is still being read or written.
#pragma once

#include "tn/tn.h"

namespace neuron {

void wait_stream(tn_stream* stream);
void wait_stream_to_end(tn_stream* stream);
void wait_device(int device);
void wait_event(tn_event* event);

} // namespace neuron
