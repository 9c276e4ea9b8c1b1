// What the handles of aclnn point to.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/npu/cann/types.h"

namespace fake {

using Dims = std::vector<std::int64_t>;

[[nodiscard]] inline std::int64_t product(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

// Handles that were made and not destroyed yet: CANN reads freed memory where it is given another, and the fake says
// no.
class Handles {
 public:
  void add(const void* handle) {
    const std::lock_guard lock(mutex_);
    live_.insert(handle);
  }
  [[nodiscard]] bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(handle) == 1;
  }
  [[nodiscard]] bool has(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.contains(handle);
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }

 private:
  std::mutex mutex_;
  std::set<const void*> live_;
};

[[nodiscard]] Handles& live_handles();  // tensors, scalars, arrays, lists
[[nodiscard]] Handles& live_executors();
// What the calling thread planned last.
[[nodiscard]] const aclOpExecutor*& last_executor();

class Run;

}  // namespace fake

struct aclTensor {
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  fake::Dims dims, strides, storage;
  std::int64_t offset = 0;  // of the first element, in elements from data
  void* data = nullptr;
};

struct aclScalar {
  aclDataType dtype = ACL_FLOAT;
  double real = 0;
  std::int64_t integer = 0;
};

struct aclIntArray {
  fake::Dims values;
};

struct aclFloatArray {
  std::vector<float> values;
};

struct aclBoolArray {
  std::vector<bool> values;
};

struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

struct aclScalarList {
  std::vector<const aclScalar*> scalars;
};

struct aclOpExecutor {
  struct Slot {
    std::string name;
    const aclTensor* tensor = nullptr;
    void* address = nullptr;
    bool output = false;
    const aclTensorList* list = nullptr;  // that it came in
    std::size_t place = 0;                // in the list
  };
  std::string name;
  std::vector<Slot> slots;
  std::function<void(fake::Run&)> run;
  std::uint64_t workspace = 0;
  bool generated = false;  // its machinery was generated: other codes, and sizes that are checked
  bool may_repeat = true;
  bool repeatable = false;
  bool deterministic = false;
  std::thread::id thread;  // that planned it
};
