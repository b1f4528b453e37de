// Page-aligned host memory that counts as pinned.
#pragma once

namespace neuron {

bool is_pinned(const void* data);

} // namespace neuron
