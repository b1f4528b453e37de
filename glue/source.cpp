#include <Python.h>

#include "source.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include <torch/csrc/autograd/function.h>

namespace neuron {
namespace {

// Ids are positions in `texts` plus one; `known` finds the id of a text again.
std::mutex mutex;
std::deque<std::string> texts;
std::unordered_map<std::string, uint32_t> known;

uint32_t id_of(const std::string& text)
{
    std::lock_guard lock(mutex);
    auto [entry, is_new] = known.try_emplace(text, static_cast<uint32_t>(texts.size() + 1));
    if (is_new)
        texts.push_back(text);
    return entry->second;
}

// The frame's file and line; the GIL is held.
std::string frame_text(PyFrameObject* frame)
{
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    std::string text = (file ? std::string(file) : "?") + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    Py_DECREF(code);
    return text;
}

} // namespace

uint32_t source_line()
{
    if (auto node = torch::autograd::get_current_node())
        return id_of(node->name());
    // A thread that Python has never seen has no frame, and must not be made to wait for the GIL.
    if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_GetThisThreadState())
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    PyFrameObject* frame = PyEval_GetFrame();
    std::string text = frame ? frame_text(frame) : std::string();
    PyGILState_Release(state);
    return text.empty() ? 0 : id_of(text);
}

std::string source_text(uint32_t id)
{
    std::lock_guard lock(mutex);
    return id == 0 || id > texts.size() ? std::string() : texts[id - 1];
}

} // namespace neuron
