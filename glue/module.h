// The parts of the extension module torch_neuronx._C, one per file.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace neuron {

void register_hooks();
void bind_device(pybind11::module_& m);   // module_device.cpp
void bind_memory(pybind11::module_& m);   // module_memory.cpp
void bind_tracking(pybind11::module_& m); // module_tracking.cpp

} // namespace neuron
