#include "plan_cache.hpp"

#include "call_device.hpp"

namespace planck::python {

StreamKey stream_key() {
  if (const int device = CallDevice::get(); device != CallDevice::kCpu) return {nullptr, -1 - device};
  const Stream stream = current_stream();
  return {&stream.executor(), stream.threads()};
}

}  // namespace planck::python
