// Ids are remembered per (code object, instruction), so that a line that launches again costs a look-up and
// no text. Frames of torch and of this package are skipped: the line that is wanted is the user's.
#include <Python.h>

#include "source.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <typeinfo>
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

// What is known of one code object. The table holds a reference to it, so that its address stays its own.
struct Code {
    bool is_library;
    std::unordered_map<int, uint32_t> ids; // by instruction
};

// Read and written with the GIL held; leaked, because lines are asked for until the very end.
std::unordered_map<PyCodeObject*, Code>& codes = *new std::unordered_map<PyCodeObject*, Code>();

// The folder of a package's __init__.py with a slash at the end, or "".
std::string package_folder(const char* name)
{
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
    PyObject* file = module ? PyObject_GetAttrString(module, "__file__") : nullptr;
    const char* text = file ? PyUnicode_AsUTF8(file) : nullptr;
    std::string path = text ? text : "";
    Py_XDECREF(file);
    PyErr_Clear();
    return path.substr(0, path.rfind('/') + 1);
}

bool is_library_file(const std::string& file)
{
    static const std::string folders[] = {package_folder("torch"), package_folder("torch_neuronx")};
    for (const std::string& folder : folders)
        if (!folder.empty() && file.compare(0, folder.size(), folder) == 0)
            return true;
    return file.compare(0, 9, "<frozen i") == 0; // <frozen importlib...>, <frozen runpy> is the user's
}

std::string file_of(PyCodeObject* code)
{
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file)
        PyErr_Clear();
    return file ? file : "?";
}

Code& code_entry(PyCodeObject* code)
{
    auto entry = codes.find(code);
    if (entry == codes.end()) {
        Py_INCREF(code);
        entry = codes.emplace(code, Code{is_library_file(file_of(code)), {}}).first;
    }
    return entry->second;
}

uint32_t line_id(PyCodeObject* code, Code& entry, int instruction)
{
    uint32_t& id = entry.ids[instruction];
    if (id == 0)
        id = id_of(file_of(code) + ":" + std::to_string(PyCode_Addr2Line(code, instruction)));
    return id;
}

// The innermost line outside the libraries, else the innermost line; 0 without a frame. The GIL is held.
uint32_t frame_line()
{
    uint32_t innermost = 0;
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame) {
        PyCodeObject* code = PyFrame_GetCode(frame);
        Code& entry = code_entry(code);
        uint32_t id = entry.is_library && innermost ? 0 : line_id(code, entry, PyFrame_GetLasti(frame));
        Py_DECREF(code); // `codes` keeps it
        PyFrameObject* outer = entry.is_library ? PyFrame_GetBack(frame) : nullptr;
        Py_DECREF(frame);
        if (!entry.is_library) {
            Py_XDECREF(outer);
            return id;
        }
        innermost = innermost ? innermost : id;
        frame = outer;
    }
    return innermost;
}

uint32_t python_line()
{
    // A thread that Python has never seen has no frame, and must not be made to wait for the GIL.
    if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_GetThisThreadState())
        return 0;
    PyGILState_STATE state = PyGILState_Ensure();
    uint32_t id = frame_line();
    PyGILState_Release(state);
    return id;
}

} // namespace

uint32_t source_line()
{
    auto node = torch::autograd::get_current_node();
    if (!node)
        return python_line();
    // A node of the autograd graph says more than the line that called backward(), unless it is the user's
    // own torch.autograd.Function (whose C++ class torch does not export).
    const char* type = typeid(*node).name();
    if (std::strcmp(type, "N5torch8autograd6PyNodeE") == 0) {
        uint32_t line = python_line();
        return line ? line : id_of(node->name());
    }
    thread_local const char* last_type = nullptr;
    thread_local uint32_t last_id = 0;
    if (type != last_type) {
        last_id = id_of(node->name());
        last_type = type;
    }
    return last_id;
}

std::string source_text(uint32_t id)
{
    std::lock_guard lock(mutex);
    return id == 0 || id > texts.size() ? std::string() : texts[id - 1];
}

} // namespace neuron
