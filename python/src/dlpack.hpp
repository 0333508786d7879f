// What of DLPack's binary interface is read here: versions 0.x and 1.x, and the table that PyTorch offers for calls
// that keep nothing. Layouts as in the DLPack specification, version 1.3.
#pragma once

#include <cstdint>

namespace planck::python::dlpack {

inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kCudaHost = 3;
inline constexpr std::int32_t kCudaManaged = 13;
inline constexpr std::uint64_t kReadOnly = 1;
inline constexpr std::uint64_t kIsCopied = 2;

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;  ///< as in the table of element kinds
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null if contiguous (before version 1.2)
  std::uint64_t byte_offset;
};

/// In a capsule named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

/// In a capsule named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

/// A type's `__dlpack_c_exchange_api__`, in a capsule named "dlpack_exchange_api".
struct ExchangeApi {
  Version version;
  const ExchangeApi* previous;
  void* allocate;
  void* managed_from_object;
  void* object_from_managed;
  /// Fills a view that is good until control returns to Python; may be null.
  int (*tensor_from_object)(void* object, Tensor* out);
  void* current_stream;
};

}  // namespace planck::python::dlpack
