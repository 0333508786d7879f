// Which device a call is on: the CPU, or one CUDA device for all of its arrays, if the package was built for that.
#pragma once

#include <string>

#include "array.hpp"

namespace planck::python {

/// One at the top of every function that runs a plan; arrays that are seen while it lives say where they are.
class CallDevice {
 public:
  static constexpr int kCpu = -1;

  CallDevice() : outer_(current()) { current() = this; }
  ~CallDevice() { current() = outer_; }
  CallDevice(const CallDevice&) = delete;
  CallDevice& operator=(const CallDevice&) = delete;

  /// The number of the CUDA device, or kCpu.
  static int get() { return current() == nullptr ? kCpu : current()->device_; }

  /// Notes an array's device. All have the same one.
  static void see(int device, const char* name) {
    CallDevice* const call = current();
    if (call == nullptr) return;
    if (call->first_ == nullptr) {
      call->first_ = name;
      call->device_ = device;
    } else if (call->device_ != device) {
      raise(PyExc_ValueError, std::string(name) + " is on " + text_of_device(device) + ", and " + call->first_ +
                                  " on " + text_of_device(call->device_));
    }
  }

  static std::string text_of_device(int device) {
    return device == kCpu ? "the CPU" : "cuda:" + std::to_string(device);
  }

 private:
  static CallDevice*& current() {
    thread_local CallDevice* call = nullptr;
    return call;
  }

  CallDevice* outer_;
  const char* first_ = nullptr;  // of the arrays; names are literals
  int device_ = kCpu;
};

}  // namespace planck::python
