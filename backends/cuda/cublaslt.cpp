#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/error.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/text.h"

namespace tern::cuda {
namespace {

struct Loaded {
  CublasLt functions;
  bool there = false;
};

Loaded load() {
  Loaded loaded;
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  loaded.there = library != nullptr;
#define TERN_CUDA_FIND(member, parameters)                                                                             \
  if (loaded.there) {                                                                                                  \
    loaded.functions.member = reinterpret_cast<decltype(loaded.functions.member)>(dlsym(library, "cublasLt" #member)); \
    loaded.there = loaded.functions.member != nullptr;                                                                 \
  }
  TERN_CUDA_CUBLASLT(TERN_CUDA_FIND)
#undef TERN_CUDA_FIND
  return loaded;  // the library stays open
}

void check_lt(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw Error(TERN_INTERNAL, cat("cublasLt: ", what, ": status ", static_cast<int>(status)));
  }
}

// A side as cublasLt has it: column by column. [rows, k] along the sum is [k, rows] there, transposed by `op`.
struct LtSide {
  bool along;
  std::int64_t stride;
};
LtSide side_of(const Side& side, std::int64_t rows, std::int64_t k) {
  if (side.col == 1 || (k <= 1 && side.row != 1)) return {true, std::max(side.row, k)};
  return {false, std::max(side.col, rows)};
}
bool lies_straight(const Side& side, std::int64_t rows, std::int64_t k) {
  if (side.batch < 0) return false;
  return side.col == 1 ? side.row >= k || rows <= 1 : side.row == 1 && (side.col >= rows || k <= 1);
}

cudaDataType_t type_of(tern_dtype dtype) {
  return dtype == TERN_F32 ? CUDA_R_32F : dtype == TERN_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

struct DestroyDesc {
  void operator()(cublasLtMatmulDesc_t desc) const { (void)cublaslt()->MatmulDescDestroy(desc); }
};
struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { (void)cublaslt()->MatrixLayoutDestroy(layout); }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    (void)cublaslt()->MatmulPreferenceDestroy(preference);
  }
};
using Desc = std::unique_ptr<cublasLtMatmulDescOpaque, DestroyDesc>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque, DestroyLayout>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque, DestroyPreference>;

// A product that was prepared once: the library's a is our b, its b our a, its columns are our rows.
struct Prepared {
  Desc desc;
  Layout a, b, out;
  bool has_algorithm = false;
  cublasLtMatmulAlgo_t algorithm{};
};

template <typename T>
void set(const Desc& desc, cublasLtMatmulDescAttributes_t attribute, T value) {
  check_lt(cublaslt()->MatmulDescSetAttribute(desc.get(), attribute, &value, sizeof value), "describing a product");
}

Layout make_layout(tern_dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batch,
                   std::int64_t batch_stride) {
  cublasLtMatrixLayout_t raw = nullptr;
  check_lt(cublaslt()->MatrixLayoutCreate(&raw, type_of(dtype), static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), stride),
           "describing a matrix");
  Layout layout(raw);
  if (batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(batch);
  check_lt(cublaslt()->MatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
           "describing a batch");
  check_lt(cublaslt()->MatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                                                sizeof batch_stride),
           "describing a batch");
  return layout;
}

// The largest power of two that divides the address, at most 256.
std::uint32_t alignment_of(Place place) {
  std::uint32_t alignment = 256;
  while (place % alignment != 0) alignment /= 2;
  return alignment;
}

std::unique_ptr<Prepared> prepare(cublasLtHandle_t handle, const ProductSpec& spec, const ProductCall& call) {
  const CublasLt& api = *cublaslt();
  auto made = std::make_unique<Prepared>();
  const LtSide left = side_of(spec.b, call.n, call.k), right = side_of(spec.a, call.m, call.k);
  const bool strict = spec.a.dtype == TERN_F32;  // no TF32
  cublasLtMatmulDesc_t desc = nullptr;
  check_lt(api.MatmulDescCreate(&desc, strict ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F, CUDA_R_32F),
           "describing a product");
  made->desc.reset(desc);
  set(made->desc, CUBLASLT_MATMUL_DESC_TRANSA, left.along ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made->desc, CUBLASLT_MATMUL_DESC_TRANSB, right.along ? CUBLAS_OP_N : CUBLAS_OP_T);
  const auto of_side = [&](const Side& side, const LtSide& lies, std::int64_t rows) {
    return make_layout(side.dtype, lies.along ? call.k : rows, lies.along ? rows : call.k, lies.stride, call.batch,
                       side.batch);
  };
  made->a = of_side(spec.b, left, call.n);
  made->b = of_side(spec.a, right, call.m);
  made->out = make_layout(call.out_dtype, call.n, call.m, std::max(call.out_row, call.n), call.batch, call.out_batch);

  cublasLtMatmulPreference_t raw = nullptr;
  check_lt(api.MatmulPreferenceCreate(&raw), "a preference");
  const Preference preference(raw);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_lt(api.MatmulPreferenceSetAttribute(raw, attribute, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, cublaslt_workspace(spec));
  // Parts of a sum are put together in fp32 and in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.out));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.out));
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status = api.MatmulAlgoGetHeuristic(handle, made->desc.get(), made->a.get(), made->b.get(),
                                                           made->out.get(), made->out.get(), raw, 1, &result, &count);
  made->has_algorithm = status == CUBLAS_STATUS_SUCCESS && count > 0 && result.state == CUBLAS_STATUS_SUCCESS &&
                        result.workspaceSize <= cublaslt_workspace(spec);
  made->algorithm = result.algo;
  return made;
}

using Key = std::array<std::int64_t, 24>;
Key key_of(const ProductSpec& spec, const ProductCall& call) {
  return {call.m,
          call.n,
          call.k,
          call.batch,
          spec.a.dtype,
          spec.a.row,
          spec.a.col,
          spec.a.batch,
          spec.b.dtype,
          spec.b.row,
          spec.b.col,
          spec.b.batch,
          call.out_dtype,
          call.out_row,
          call.out_batch,
          alignment_of(call.a),
          alignment_of(call.b),
          alignment_of(call.out),
          call.adds ? 1 : 0};
}

// A device's handle, and what was prepared for it. One call at a time.
struct OfDevice {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  bool refused = false;  // the library doesn't open the device: it may be too new for the driver
  std::map<Key, std::unique_ptr<Prepared>> prepared;
};
OfDevice& of_device(CUcontext context) {
  static std::mutex mutex;
  static std::map<CUcontext, std::unique_ptr<OfDevice>> devices;
  const std::lock_guard lock(mutex);
  auto& device = devices[context];
  if (!device) device = std::make_unique<OfDevice>();
  return *device;
}

bool is_open(OfDevice& device) {
  if (device.handle == nullptr && !device.refused) {
    const cublasStatus_t status = cublaslt()->Create(&device.handle);
    device.refused = status != CUBLAS_STATUS_SUCCESS;
    if (device.refused) device.handle = nullptr;
    if (device.refused && host().log != nullptr) {
      host().log(TERN_LOG_WARN, cat("cuBLASLt doesn't open the device (status ", static_cast<int>(status),
                                    "): products are made without it")
                                    .c_str());
    }
  }
  return !device.refused;
}

Prepared& prepared_of(OfDevice& device, const ProductSpec& spec, const ProductCall& call) {
  constexpr std::size_t kMostPrepared = 4096;  // rows that change with every call leave one each
  if (device.prepared.size() >= kMostPrepared) device.prepared.clear();
  auto& found = device.prepared[key_of(spec, call)];
  if (!found) found = prepare(device.handle, spec, call);
  return *found;
}

}  // namespace

const CublasLt* cublaslt() {
  static const Loaded instance = load();
  return instance.there ? &instance.functions : nullptr;
}

std::uint64_t cublaslt_workspace(const ProductSpec& spec) {
  constexpr std::int64_t kLeast = 1 << 20, kMost = 32 << 20, kPartials = 16;  // bytes of each result
  return static_cast<std::uint64_t>(std::clamp(spec.m * spec.n * spec.batch * kPartials, kLeast, kMost) / 256 * 256);
}

bool takes_cublaslt(const ProductSpec& spec, const LtCall& call) {
  const tern_dtype dtype = spec.a.dtype;
  if (spec.few_alike || spec.grouped || spec.bounded || spec.b.dtype != dtype) return false;
  if (spec.compute != dtype && spec.compute != TERN_F32) return false;
  if (call.out_dtype != dtype && call.out_dtype != TERN_F32) return false;
  if (call.out_col != 1 || call.out_row < spec.n) return false;
  if (!lies_straight(spec.a, spec.m, spec.k) || !lies_straight(spec.b, spec.n, spec.k)) return false;
  return cublaslt() != nullptr;
}

bool run_cublaslt(const Launch& launch, Place workspace, const ProductSpec& spec, const ProductCall& call) {
  OfDevice& device = of_device(launch.stream().state->context.get());
  const std::lock_guard lock(device.mutex);
  if (!is_open(device)) return false;
  Prepared& prepared = prepared_of(device, spec, call);
  if (!prepared.has_algorithm) return false;
  const std::array<std::int64_t, 7> identity = {call.m,
                                                call.n,
                                                call.k,
                                                call.batch,
                                                static_cast<std::int64_t>(call.a),
                                                static_cast<std::int64_t>(call.b),
                                                static_cast<std::int64_t>(call.out)};
  launch.library("cublasLt", std::as_bytes(std::span(identity)), [&](CUstream stream) {
    const auto at = [](Place place) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(place)); };
    const float alpha = call.alpha, beta = call.adds ? 1.0F : 0.0F;
    check_lt(
        cublaslt()->Matmul(device.handle, prepared.desc.get(), &alpha, at(call.b), prepared.a.get(), at(call.a),
                           prepared.b.get(), &beta, at(call.out), prepared.out.get(), at(call.out), prepared.out.get(),
                           &prepared.algorithm, at(workspace), cublaslt_workspace(spec), stream),
        "queueing a product");
  });
  return true;
}

}  // namespace tern::cuda
