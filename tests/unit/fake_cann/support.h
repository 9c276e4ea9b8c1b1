// What the tests of the fake of CANN share: a device that is made afresh, arrays on it, tensors over them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "backends/npu/cann/errors.h"
#include "backends/npu/cann/meta.h"
#include "backends/npu/cann/runtime.h"
#include "tests/fakes/cann/acl/control.h"
#include "tests/fakes/cann/op/control.h"

namespace fake_test {

using Settings = std::initializer_list<std::pair<const char*, const char*>>;

// A process of its own as far as the fake goes: variables, devices, and device 0 set in this thread.
class Fake {
 public:
  explicit Fake(Settings settings = {}, bool start = true) {
    for (const auto& [name, value] : settings) {
      setenv(name, value, 1);
      names_.emplace_back(name);
    }
    ternFakeCannRestart();
    if (!start) return;
    EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  }
  ~Fake() {
    for (const std::string& name : names_) unsetenv(name.c_str());
    (void)aclGetRecentErrMsg();
    ternFakeCannRestart();
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;

 private:
  std::vector<std::string> names_;
};

// What aclGetRecentErrMsg says now.
inline std::string message() {
  const char* text = aclGetRecentErrMsg();
  return text != nullptr ? text : "";
}

class StreamHandle {
 public:
  StreamHandle() { EXPECT_EQ(aclrtCreateStream(&handle_), ACL_SUCCESS); }
  ~StreamHandle() { (void)aclrtDestroyStream(handle_); }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  operator aclrtStream() const { return handle_; }

 private:
  aclrtStream handle_ = nullptr;
};

// Numbers in the device's memory.
template <typename Number>
class Array {
 public:
  explicit Array(const std::vector<Number>& values) : Array(values.size()) {
    EXPECT_EQ(aclrtMemcpy(data_, bytes(), values.data(), bytes(), ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  }
  explicit Array(std::size_t count) : count_(count) {
    EXPECT_EQ(aclrtMalloc(&data_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  }
  ~Array() { (void)aclrtFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(Number); }
  [[nodiscard]] std::vector<Number> values() const {
    std::vector<Number> read(count_);
    EXPECT_EQ(aclrtMemcpy(read.data(), bytes(), data_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    return read;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_ = 0;
};

class TensorHandle {
 public:
  TensorHandle(aclDataType dtype, const std::vector<std::int64_t>& shape, void* data,
               std::vector<std::int64_t> strides = {}, aclFormat format = ACL_FORMAT_ND) {
    if (strides.empty()) {
      strides.assign(shape.size(), 1);
      for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    }
    std::int64_t last = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
    handle_ = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0, format, &last, 1, data);
    EXPECT_NE(handle_, nullptr) << message();
  }
  ~TensorHandle() { (void)aclDestroyTensor(handle_); }
  TensorHandle(const TensorHandle&) = delete;
  TensorHandle& operator=(const TensorHandle&) = delete;
  operator aclTensor*() const { return handle_; }

 private:
  aclTensor* handle_ = nullptr;
};

class ScalarHandle {
 public:
  explicit ScalarHandle(float value) : handle_(aclCreateScalar(&value, ACL_FLOAT)) {}
  ~ScalarHandle() { (void)aclDestroyScalar(handle_); }
  ScalarHandle(const ScalarHandle&) = delete;
  ScalarHandle& operator=(const ScalarHandle&) = delete;
  operator aclScalar*() const { return handle_; }

 private:
  aclScalar* handle_ = nullptr;
};

// Both phases on a stream: run_op(stream, aclnnAddGetWorkspaceSize, aclnnAdd, a, b, alpha, out). The first code that
// isn't 0.
template <typename Plan, typename Launch, typename... Arguments>
aclnnStatus run_op(aclrtStream stream, Plan plan, Launch launch, const Arguments&... arguments) {
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  if (const aclnnStatus status = plan(arguments..., &size, &executor)) return status;
  void* workspace = nullptr;
  if (size > 0 && aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return -1;
  aclnnStatus status = launch(workspace, size, executor, stream);
  if (status == 0) status = aclrtSynchronizeStream(stream);
  if (workspace != nullptr) (void)aclrtFree(workspace);
  return status;
}

}  // namespace fake_test
