// A device of the fake with a stream, and arrays on it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda::fake_test {

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(fake::Init(0), CUDA_SUCCESS);
    ASSERT_EQ(fake::DevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(fake::CtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(fake::StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    ASSERT_EQ(fake::ModuleLoadData(&module_, "image"), CUDA_SUCCESS);
  }
  void TearDown() override {
    for (const CUdeviceptr address : allocated_) (void)fake::MemFree(address);
    (void)fake::StreamDestroy(stream_);
    (void)fake::DevicePrimaryCtxRelease(0);  // and with it an error that stuck
  }

  template <typename T>
  CUdeviceptr device(const std::vector<T>& values) {
    CUdeviceptr address = 0;
    EXPECT_EQ(fake::MemAlloc(&address, values.size() * sizeof(T)), CUDA_SUCCESS);
    EXPECT_EQ(fake::MemcpyHtoDAsync(address, values.data(), values.size() * sizeof(T), stream_), CUDA_SUCCESS);
    allocated_.push_back(address);
    return address;
  }
  template <typename T>
  std::vector<T> host(CUdeviceptr address, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(fake::MemcpyDtoHAsync(values.data(), address, count * sizeof(T), stream_), CUDA_SUCCESS);
    return values;
  }
  CUfunction function(const std::string& name) {
    CUfunction found = nullptr;
    EXPECT_EQ(fake::ModuleGetFunction(&found, module_, name.c_str()), CUDA_SUCCESS) << name;
    return found;
  }
  template <typename... Args>
  CUresult launch(const std::string& name, emulated::Grid grid, Args... args) {
    void* params[] = {&args..., nullptr};
    return fake::LaunchKernel(function(name), grid.blocks.x, grid.blocks.y, grid.blocks.z, grid.threads.x,
                              grid.threads.y, grid.threads.z, grid.shared_bytes, stream_, params, nullptr);
  }
  CUresult sync() { return fake::StreamSynchronize(stream_); }
  static emulated::Grid grid(unsigned blocks, unsigned threads, unsigned shared_bytes = 0) {
    return {{blocks, 1, 1}, {threads, 1, 1}, shared_bytes};
  }
  // Launches, and expects that it fails on the device, with a text that has both the kernel's name and these words.
  template <typename... Args>
  void expect_misuse(const std::string& name, const std::string& words, emulated::Grid grid, Args... args) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(launch(name, grid, args...), CUDA_SUCCESS);
    EXPECT_EQ(sync(), CUDA_ERROR_LAUNCH_FAILED) << name;
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("kernel " + name + ","), std::string::npos) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
    // It sticks, until nobody has the context.
    CUdeviceptr address = 0;
    EXPECT_EQ(fake::MemAlloc(&address, 16), CUDA_ERROR_LAUNCH_FAILED);
  }

  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUmodule module_ = nullptr;
  std::vector<CUdeviceptr> allocated_;
};

inline std::uint16_t bf16(float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16); }

}  // namespace tern::cuda::fake_test
