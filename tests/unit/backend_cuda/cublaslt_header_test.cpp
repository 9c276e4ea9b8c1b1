// cuBLASLt's interface as backends/cuda/cublaslt.h declares it, against the real header where that is installed. If
// this fails, the library is told another product than was asked.
#include "backends/cuda/cublaslt.h"

#include <gtest/gtest.h>

#ifdef TERN_HAS_CUBLASLT_H
#include <cublasLt.h>

namespace tern::test {
namespace {

#define TERN_SAME(name) static_assert(static_cast<int>(tern::cuda::name) == static_cast<int>(::name));
TERN_SAME(CUBLAS_STATUS_SUCCESS)
TERN_SAME(CUBLAS_STATUS_INVALID_VALUE)
TERN_SAME(CUBLAS_STATUS_NOT_SUPPORTED)
TERN_SAME(CUBLAS_COMPUTE_32F)
TERN_SAME(CUBLAS_COMPUTE_32F_PEDANTIC)
TERN_SAME(CUDA_R_32F)
TERN_SAME(CUDA_R_16F)
TERN_SAME(CUDA_R_16BF)
TERN_SAME(CUBLAS_OP_N)
TERN_SAME(CUBLAS_OP_T)
TERN_SAME(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
TERN_SAME(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
TERN_SAME(CUBLASLT_MATMUL_DESC_TRANSA)
TERN_SAME(CUBLASLT_MATMUL_DESC_TRANSB)
TERN_SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
TERN_SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
TERN_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
TERN_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
TERN_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
TERN_SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
TERN_SAME(CUBLASLT_REDUCTION_SCHEME_NONE)
TERN_SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
static_assert(sizeof(tern::cuda::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(tern::cuda::cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(tern::cuda::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(tern::cuda::cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));

// How many arguments two functions have, and how large each is.
template <typename R, typename... As, typename S, typename... Bs>
constexpr bool alike(R (*)(As...), S (*)(Bs...)) {
  if constexpr (sizeof...(As) != sizeof...(Bs)) {
    return false;
  } else {
    return sizeof(R) == sizeof(S) && ((sizeof(As) == sizeof(Bs)) && ...);
  }
}
#define TERN_SAME_FUNCTION(member, parameters) \
  static_assert(alike(decltype(tern::cuda::CublasLt::member){}, static_cast<decltype(&::cublasLt##member)>(nullptr)));
TERN_CUDA_CUBLASLT(TERN_SAME_FUNCTION)

TEST(CublasLtHeader, IsDeclaredAsItIs) {}  // what is above is checked by the compiler

}  // namespace
}  // namespace tern::test
#endif
