// libcublasLt.so.13 of the fake: it multiplies in fp32 on the host, in the order of the stream, and refuses what the
// library would: descriptors that don't fit each other, less workspace or alignment than the algorithm was chosen with.
#include "backends/cuda/cublaslt.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "tests/fakes/cuda/emulator/half.h"

namespace tern::cuda {

struct cublasLtContext {
  std::uint64_t mark = 0x1c0b1a5;
};
struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  std::int64_t rows, columns, stride;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;
};
struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::uint32_t reduction = 7;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace fake_cublaslt {
namespace {

constexpr std::uint64_t kWorkspace = 64 << 10;  // that the algorithm writes

// What an algorithm's bytes hold.
struct Algorithm {
  std::uint64_t mark;
  std::uint64_t workspace;
  std::uint32_t alignment[4];
  std::int64_t m, n, k;
};
constexpr std::uint64_t kMark = 0xa1907174;

struct Job {
  cublasLtMatmulDescOpaque desc;
  cublasLtMatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;
  const std::byte *a, *b, *c;
  std::byte *d, *workspace;
  float alpha, beta;
  std::int64_t m, n, k;
};

float load(const std::byte* at, cudaDataType_t type, std::int64_t i) {
  if (type == CUDA_R_32F) {
    float value = 0.0F;
    std::memcpy(&value, at + i * 4, 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at + i * 2, 2);
  if (type == CUDA_R_16F) return emulated::half_to_float(bits);
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0.0F;
  std::memcpy(&value, &wide, 4);
  return value;
}
void store(std::byte* at, cudaDataType_t type, std::int64_t i, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(at + i * 4, &value, 4);
    return;
  }
  std::uint16_t bits = emulated::float_to_half(value);
  if (type == CUDA_R_16BF) {
    std::uint32_t wide = 0;
    std::memcpy(&wide, &value, 4);
    bits =
        static_cast<std::uint16_t>(std::isnan(value) ? wide >> 16 | 0x40U : (wide + 0x7fffU + (wide >> 16 & 1U)) >> 16);
  }
  std::memcpy(at + i * 2, &bits, 2);
}

void compute(void* data) {
  const Job& job = *static_cast<const Job*>(data);
  std::memset(job.workspace, 0xff, kWorkspace);
  std::vector<float> row(static_cast<std::size_t>(job.k));
  for (std::int32_t z = 0; z < job.d_layout.batch; ++z) {
    const auto at = [&](const cublasLtMatrixLayoutOpaque& layout, std::int64_t r, std::int64_t c) {
      return z * layout.batch_stride + c * layout.stride + r;
    };
    for (std::int64_t i = 0; i < job.m; ++i) {
      for (std::int64_t s = 0; s < job.k; ++s) {
        const bool plain = job.desc.a == CUBLAS_OP_N;
        row[static_cast<std::size_t>(s)] =
            load(job.a, job.a_layout.type, plain ? at(job.a_layout, i, s) : at(job.a_layout, s, i));
      }
      for (std::int64_t j = 0; j < job.n; ++j) {
        float sum = 0.0F;
        for (std::int64_t s = 0; s < job.k; ++s) {
          const bool plain = job.desc.b == CUBLAS_OP_N;
          sum += row[static_cast<std::size_t>(s)] *
                 load(job.b, job.b_layout.type, plain ? at(job.b_layout, s, j) : at(job.b_layout, j, s));
        }
        float value = job.alpha * sum;
        if (job.beta != 0.0F) value += job.beta * load(job.c, job.c_layout.type, at(job.c_layout, i, j));
        store(job.d, job.d_layout.type, at(job.d_layout, i, j), value);
      }
    }
  }
}

// m, n and k of the product; false where the layouts don't fit.
bool sizes_of(const cublasLtMatmulDescOpaque& desc, const cublasLtMatrixLayoutOpaque& a,
              const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& c,
              const cublasLtMatrixLayoutOpaque& d, Algorithm& sizes) {
  sizes.m = desc.a == CUBLAS_OP_N ? a.rows : a.columns;
  sizes.k = desc.a == CUBLAS_OP_N ? a.columns : a.rows;
  sizes.n = desc.b == CUBLAS_OP_N ? b.columns : b.rows;
  const std::int64_t k = desc.b == CUBLAS_OP_N ? b.rows : b.columns;
  const bool types = a.type == b.type && c.type == d.type && (d.type == a.type || d.type == CUDA_R_32F);
  return types && k == sizes.k && d.rows == sizes.m && d.columns == sizes.n && c.rows == d.rows &&
         c.columns == d.columns && a.batch == b.batch && b.batch == c.batch && c.batch == d.batch;
}

template <typename T>
cublasStatus_t take(T& field, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// In the order of the stream, by the driver that this process has open. What a captured graph runs again stays.
cublasStatus_t queue(const Job& job, CUstream stream) {
  using Function = CUresult (*)(CUstream, void (*)(void*), void*);
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  static const auto launch =
      reinterpret_cast<Function>(library != nullptr ? dlsym(library, "cuLaunchHostFunc") : nullptr);
  static std::mutex mutex;
  static std::deque<Job> jobs;
  if (launch == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::lock_guard lock(mutex);
  jobs.push_back(job);
  return launch(stream, compute, &jobs.back()) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

bool aligned(const void* at, std::uint32_t alignment) { return reinterpret_cast<std::uintptr_t>(at) % alignment == 0; }

}  // namespace

#define TERN_FAKE_DECLARE(member, parameters) \
  __attribute__((visibility("default"))) cublasStatus_t member parameters asm("cublasLt" #member);
TERN_CUDA_CUBLASLT(TERN_FAKE_DECLARE)
#undef TERN_FAKE_DECLARE

cublasStatus_t Create(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t MatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute_type, cudaDataType_t scale) {
  const bool known = compute_type == CUBLAS_COMPUTE_32F || compute_type == CUBLAS_COMPUTE_32F_PEDANTIC;
  if (desc == nullptr || !known || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = new cublasLtMatmulDescOpaque{.compute = compute_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                      const void* value, std::size_t bytes) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(desc->a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(desc->b, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t MatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                  std::uint64_t columns, std::int64_t stride) {
  const bool known = type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
  if (layout == nullptr || !known || rows == 0 || columns == 0 || stride < static_cast<std::int64_t>(rows)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *layout = new cublasLtMatrixLayoutOpaque{.type = type,
                                           .rows = static_cast<std::int64_t>(rows),
                                           .columns = static_cast<std::int64_t>(columns),
                                           .stride = stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                                        const void* value, std::size_t bytes) {
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(layout->batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t MatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t MatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                            cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                            std::size_t bytes) {
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(preference->reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t MatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                      cublasLtMatmulPreference_t preference, int wanted,
                                      cublasLtMatmulHeuristicResult_t* results, int* count) {
  if (handle == nullptr || desc == nullptr || preference == nullptr || wanted < 1 || results == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = 0;
  Algorithm algorithm{kMark, kWorkspace, {}, 0, 0, 0};
  if (!sizes_of(*desc, *a, *b, *c, *d, algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  if (preference->workspace < kWorkspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
  results[0] = {};
  static_assert(sizeof algorithm <= sizeof results[0].algo);
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = kWorkspace;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, CUstream stream) {
  if (handle == nullptr || desc == nullptr || alpha == nullptr || beta == nullptr || algo == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Algorithm chosen{}, sizes{};
  std::memcpy(&chosen, algo, sizeof chosen);
  const void* const places[] = {a, b, c, d};
  bool good = chosen.mark == kMark && sizes_of(*desc, *a_layout, *b_layout, *c_layout, *d_layout, sizes) &&
              sizes.m == chosen.m && sizes.n == chosen.n && sizes.k == chosen.k;
  for (int i = 0; i < 4; ++i) good = good && places[i] != nullptr && aligned(places[i], chosen.alignment[i]);
  good = good && workspace != nullptr && aligned(workspace, 256) && workspace_bytes >= chosen.workspace;
  if (!good) return CUBLAS_STATUS_INVALID_VALUE;
  Job job{*desc,
          *a_layout,
          *b_layout,
          *c_layout,
          *d_layout,
          static_cast<const std::byte*>(a),
          static_cast<const std::byte*>(b),
          static_cast<const std::byte*>(c),
          static_cast<std::byte*>(d),
          static_cast<std::byte*>(workspace),
          0.0F,
          0.0F,
          sizes.m,
          sizes.n,
          sizes.k};
  std::memcpy(&job.alpha, alpha, sizeof job.alpha);
  std::memcpy(&job.beta, beta, sizeof job.beta);
  return queue(job, stream);
}

}  // namespace fake_cublaslt
}  // namespace tern::cuda
