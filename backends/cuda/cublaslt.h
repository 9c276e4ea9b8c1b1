// NVIDIA's products (libcublasLt.so.13 or .12), as far as this backend uses them: declared here, and opened at run time
// by the loader's own search. Numbers and layouts are those of cublasLt.h 12.0 and later;
// tests/unit/backend_cuda/cublaslt_header_test.cpp compares them with the real header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver.h"
#include "backends/cuda/product.h"

namespace tern::cuda {

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque*;

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasComputeType_t : int { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69 };
enum cudaDataType_t : int { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
};
enum cublasLtMatmulDescAttributes_t : int { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4 };
enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};
enum cublasLtReductionScheme_t : int { CUBLASLT_REDUCTION_SCHEME_NONE = 0, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

#define TERN_CUDA_CUBLASLT(X)                                                                                         \
  X(Create, (cublasLtHandle_t * handle))                                                                              \
  X(MatmulDescCreate, (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType_t scale))               \
  X(MatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                                                   \
  X(MatmulDescSetAttribute,                                                                                           \
    (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void* value, std::size_t bytes))      \
  X(MatrixLayoutCreate, (cublasLtMatrixLayout_t * layout, cudaDataType_t type, std::uint64_t rows,                    \
                         std::uint64_t columns, std::int64_t stride))                                                 \
  X(MatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                                             \
  X(MatrixLayoutSetAttribute,                                                                                         \
    (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value, std::size_t bytes)) \
  X(MatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                                                \
  X(MatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                                                 \
  X(MatmulPreferenceSetAttribute,                                                                                     \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,        \
     std::size_t bytes))                                                                                              \
  X(MatmulAlgoGetHeuristic,                                                                                           \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,          \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,           \
     cublasLtMatmulHeuristicResult_t* results, int* count))                                                           \
  X(Matmul, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,                    \
             cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,       \
             const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,                \
             const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, CUstream stream))

struct CublasLt {
#define TERN_CUDA_MEMBER(member, parameters) cublasStatus_t(*member) parameters = nullptr;
  TERN_CUDA_CUBLASLT(TERN_CUDA_MEMBER)
#undef TERN_CUDA_MEMBER
};

// The library's functions; null where it isn't there. Opened once.
[[nodiscard]] const CublasLt* cublaslt();

// Workspace that its algorithms may use: parts of sums, at most 32 MiB.
[[nodiscard]] std::uint64_t cublaslt_workspace(const ProductSpec& spec);

// What of a product's call plan knows.
struct LtCall {
  tern_dtype out_dtype = TERN_F32;
  std::int64_t out_row = 0, out_col = 0;
};
// Whether the library is there, and multiplies such sides as they lie.
[[nodiscard]] bool takes_cublaslt(const ProductSpec& spec, const LtCall& call);
// Queues the product on the launch's stream, without a bias: the library's own is added to what was rounded already.
// False: it has no algorithm for it, and nothing was queued.
[[nodiscard]] bool run_cublaslt(const Launch& launch, Place workspace, const ProductSpec& spec,
                                const ProductCall& call);

}  // namespace tern::cuda
