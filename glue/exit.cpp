// The end of the process. An autograd thread drops the last references to a finished backward a moment
// after the caller of backward() has gone on, and takes the GIL to do so. If the interpreter is going
// down by then, Python ends that thread in the middle of a destructor and the process aborts. So the last
// thing at exit is to let those threads come to rest.
#include "exit.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <torch/csrc/utils/pybind.h>

namespace neuron {
namespace {

namespace py = pybind11;

constexpr auto kLook = std::chrono::microseconds(300);
constexpr int kQuietLooks = 3;    // in a row, before the threads count as resting
constexpr int kMostLooks = 3000;  // about a second: exit never hangs on a backward in flight

// Whether the thread behind /proc/self/task/<id> belongs to autograd and is not asleep.
bool is_busy_autograd(const std::filesystem::path& task)
{
    std::string line;
    std::ifstream stat(task / "stat");
    if (!std::getline(stat, line)) // "<id> (<name>) <state> ..."
        return false;
    auto name = line.find('('), end = line.rfind(") ");
    if (name == std::string::npos || end == std::string::npos)
        return false;
    return line.compare(name + 1, strlen("pt_autograd"), "pt_autograd") == 0 && line[end + 2] != 'S';
}

bool autograd_is_busy()
{
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error))
        if (is_busy_autograd(task.path()))
            return true;
    return false;
}

void let_autograd_rest()
{
    py::gil_scoped_release no_gil;
    int quiet = 0;
    for (int look = 0; look < kMostLooks && quiet < kQuietLooks; look++) {
        quiet = autograd_is_busy() ? 0 : quiet + 1;
        std::this_thread::sleep_for(kLook);
    }
}

} // namespace

void rest_at_exit()
{
    py::module_::import("atexit").attr("register")(py::cpp_function(&let_autograd_rest));
}

} // namespace neuron
