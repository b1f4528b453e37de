#pragma once

namespace neuron {

// Registers what must happen last before the interpreter goes down. At import, under the GIL.
void rest_at_exit();

} // namespace neuron
