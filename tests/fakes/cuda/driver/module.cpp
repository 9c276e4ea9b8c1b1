// Modules and launches. An image is whatever isn't null: each module has all emulated kernels.
#include "tests/fakes/cuda/driver/module.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/fakes/cuda/driver/symbols.h"

namespace tern::cuda::fake {
namespace {

// Calls step(i, offset, bytes) for each argument, and returns how many bytes they have together.
template <typename Step>
std::size_t lay_out(const emulated::Kernel& kernel, Step&& step) {
  std::size_t end = 0, i = 0;
  for (const emulated::Parameter& parameter : kernel.parameters) {
    const std::size_t begin = (end + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    step(i++, begin, parameter.bytes);
    end = begin + parameter.bytes;
  }
  return end;
}

bool is_function(CUfunction function) {
  for (const CUmodule module : state().modules) {
    for (const auto& entry : module->functions) {
      if (entry.second.get() == function) return true;
    }
  }
  return false;
}

// What a kernel takes of a multiprocessor once nvcc has compiled it.
struct Resources {
  unsigned registers = 0;  // of a thread
  unsigned shared_bytes = 0;
};

// The host can't know: TERN_FAKE_CUDA_RESOURCES names what `cuobjdump -res-usage` said of the plugin's images.
const std::map<std::string, Resources>& compiled() {
  static const auto& all = *[] {
    auto read = std::make_unique<std::map<std::string, Resources>>();
    const char* const path = std::getenv("TERN_FAKE_CUDA_RESOURCES");
    std::ifstream file(path == nullptr ? "" : path);
    std::string line, name;
    while (std::getline(file, line)) {
      Resources resources;
      char text[512];
      if (std::sscanf(line.c_str(), " Function %511[^:]", text) == 1) name = text;
      if (std::sscanf(line.c_str(), " REG:%u STACK:%*u SHARED:%u", &resources.registers, &resources.shared_bytes) ==
          2) {
        (*read)[name] = resources;
      }
    }
    return read.release();
  }();
  return all;
}

// Registers come in units of 256 for a warp, 65,536 to a block; shared memory, with 1 KB of the system's, to 228 KB.
CUresult check_resources(const emulated::Kernel& kernel, const emulated::Grid& grid, std::uint64_t threads) {
  const auto found = compiled().find(kernel.name);
  if (found == compiled().end()) return CUDA_SUCCESS;
  const std::uint64_t warp = (found->second.registers * 32ULL + 255) / 256 * 256;
  if (warp * ((threads + 31) / 32) > 65536) {
    std::fprintf(stderr, "fake CUDA: kernel %s: %u registers in %lu threads\n", kernel.name, found->second.registers,
                 threads);
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  if (found->second.shared_bytes + grid.shared_bytes > 228U << 10) {
    std::fprintf(stderr, "fake CUDA: kernel %s: %u bytes of shared memory and %u more\n", kernel.name,
                 found->second.shared_bytes, grid.shared_bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult set_launch(CUgraphNode_st& node, CUfunction function, const emulated::Grid& grid, void** params) {
  if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  const emulated::Dim blocks = grid.blocks, threads = grid.threads;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || threads.x == 0 || threads.y == 0 || threads.z == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (blocks.x > 0x7fffffffU || blocks.y > 65535 || blocks.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (threads.x > 1024 || threads.y > 1024 || threads.z > 64) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t in_block = std::uint64_t{threads.x} * threads.y * threads.z;
  if (in_block > 1024 || in_block > function->kernel->most_threads) return CUDA_ERROR_INVALID_VALUE;
  if (grid.shared_bytes > function->most_dynamic_bytes) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = check_resources(*function->kernel, grid, in_block); error != CUDA_SUCCESS) return error;
  if (params == nullptr && !function->kernel->parameters.empty()) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> arguments(lay_out(*function->kernel, [](std::size_t, std::size_t, std::size_t) {}));
  lay_out(*function->kernel, [&](std::size_t i, std::size_t begin, std::size_t bytes) {
    std::memcpy(arguments.data() + begin, params[i], bytes);
  });
  node.kind = CUgraphNode_st::Kind::kernel;
  node.function = function;
  node.grid = grid;
  node.arguments = std::move(arguments);
  return CUDA_SUCCESS;
}

void run_kernel_node(const CUgraphNode_st& node) {
  const emulated::Kernel& kernel = *node.function->kernel;
  alignas(64) std::array<std::byte, 8192> storage;
  std::array<void*, 256> params;
  std::memcpy(storage.data(), node.arguments.data(), node.arguments.size());
  lay_out(kernel, [&](std::size_t i, std::size_t begin, std::size_t) { params[i] = storage.data() + begin; });
  if (!emulated::run_kernel(kernel, node.grid, params.data())) node.context->error = CUDA_ERROR_LAUNCH_FAILED;
}

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (image == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<CUmod_st>();
  made->context = current();
  *module = made.release();
  state().modules.insert(*module);
  return CUDA_SUCCESS;
}

CUresult ModuleUnload(CUmodule module) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  drain_context(current());
  const Lock lock(state().mutex);
  if (state().modules.erase(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::unique_ptr<CUmod_st> gone(module);
  return CUDA_SUCCESS;
}

CUresult ModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!state().modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  const emulated::Kernel* const kernel = emulated::find_kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  auto& found = module->functions[name];
  if (found == nullptr) {
    found = std::make_unique<CUfunc_st>();
    found->kernel = kernel;
    found->context = module->context;
  }
  *function = found.get();
  return CUDA_SUCCESS;
}

CUresult FuncSetAttribute(CUfunction function, int attribute, int value) {
  const Lock lock(state().mutex);
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
  int most = 0;
  if (const CUresult error =
          DeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, current()->device);
      error != CUDA_SUCCESS) {
    return error;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > most)
    return CUDA_ERROR_INVALID_VALUE;
  function->most_dynamic_bytes = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

namespace {

CUresult launch(CUfunction function, const emulated::Grid& grid, CUstream stream, void** params, void** extra) {
  if (const CUresult error = check_context(); error != CUDA_SUCCESS) return error;
  const Lock lock(state().mutex);
  stream = find_stream(stream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto node = std::make_shared<CUgraphNode_st>();
  node->context = stream->context;
  if (const CUresult error = set_launch(*node, function, grid, params); error != CUDA_SUCCESS) return error;
  if (function->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return add_node(stream, std::move(node));
  stream->push([node] {
    if (node->context->error == CUDA_SUCCESS) run_kernel_node(*node);
  });
  return CUDA_SUCCESS;
}

}  // namespace

CUresult LaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** params,
                      void** extra) {
  return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream, params, extra);
}

CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) {
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0)) return CUDA_ERROR_INVALID_VALUE;
  emulated::Grid grid{{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_INVALID_VALUE;
    grid.overlapped = attribute.value.programmaticStreamSerializationAllowed != 0;
  }
  return launch(function, grid, config->hStream, params, extra);
}

}  // namespace tern::cuda::fake
