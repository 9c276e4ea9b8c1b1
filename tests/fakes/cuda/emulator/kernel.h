// The emulated kernels by name, and how one is run.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/emulator/block.h"

namespace tern::cuda::emulated {

struct Parameter {
  std::size_t bytes;
  std::size_t alignment;
};

struct Kernel {
  const char* name;
  void (*invoke)(const Kernel& kernel, void* const* params);
  void (*function)();
  std::vector<Parameter> parameters;
  unsigned most_threads;
};

// Null where there is none.
[[nodiscard]] const Kernel* find_kernel(const std::string& name);
void add_kernel(Kernel kernel);

// Where a kernel is known from a generated file: after its definition, at start.
struct Registered {
  template <typename... Args>
  Registered(const char* name, void (*function)(Args...), unsigned most_threads) {
    add_kernel({name, &invoke<Args...>, reinterpret_cast<void (*)()>(function), {{sizeof(Args), alignof(Args)}...},
                most_threads});
  }

 private:
  template <typename... Args>
  static void invoke(const Kernel& kernel, void* const* params) {
    call(reinterpret_cast<void (*)(Args...)>(kernel.function), params, std::index_sequence_for<Args...>());
  }
  template <typename... Args, std::size_t... i>
  static void call(void (*function)(Args...), [[maybe_unused]] void* const* params, std::index_sequence<i...>) {
    function(*static_cast<Args*>(params[i])...);
  }
};

struct Grid {
  Dim blocks;
  Dim threads;
  unsigned shared_bytes;
  bool overlapped = false;  // each thread must call wait_for_previous()
};

// Runs all blocks, over a second thread of the system where there are many. False, after a text on stderr, where a thread
// misused a barrier or the like.
[[nodiscard]] bool run_kernel(const Kernel& kernel, const Grid& grid, void* const* params);

}  // namespace tern::cuda::emulated
