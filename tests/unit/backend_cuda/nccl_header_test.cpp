// NCCL's interface as backends/cuda/nccl.h declares it, against the real header where that is installed. If this fails,
// a collective is told another dtype, reduction or rank than was asked.
#include "backends/cuda/nccl.h"

#include <gtest/gtest.h>

#ifdef TERN_HAS_NCCL_H
#include <nccl.h>

namespace tern::test {
namespace {

#define TERN_SAME(name) static_assert(static_cast<int>(tern::cuda::name) == static_cast<int>(::name));
TERN_SAME(ncclSuccess)
TERN_SAME(ncclUnhandledCudaError)
TERN_SAME(ncclSystemError)
TERN_SAME(ncclInternalError)
TERN_SAME(ncclInvalidArgument)
TERN_SAME(ncclInvalidUsage)
TERN_SAME(ncclRemoteError)
TERN_SAME(ncclInProgress)
TERN_SAME(ncclSum)
TERN_SAME(ncclMax)
TERN_SAME(ncclMin)
TERN_SAME(ncclAvg)
TERN_SAME(ncclInt8)
TERN_SAME(ncclUint8)
TERN_SAME(ncclInt32)
TERN_SAME(ncclUint32)
TERN_SAME(ncclInt64)
TERN_SAME(ncclUint64)
TERN_SAME(ncclFloat16)
TERN_SAME(ncclFloat32)
TERN_SAME(ncclFloat64)
TERN_SAME(ncclBfloat16)
static_assert(sizeof(tern::cuda::ncclUniqueId) == sizeof(::ncclUniqueId));
static_assert(offsetof(tern::cuda::ncclConfig_t, magic) == offsetof(::ncclConfig_t, magic));
static_assert(offsetof(tern::cuda::ncclConfig_t, version) == offsetof(::ncclConfig_t, version));
static_assert(offsetof(tern::cuda::ncclConfig_t, blocking) == offsetof(::ncclConfig_t, blocking));

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
  static_assert(alike(decltype(tern::cuda::Nccl::member){}, static_cast<decltype(&::nccl##member)>(nullptr)));
TERN_CUDA_NCCL(TERN_SAME_FUNCTION)

TEST(NcclHeader, ConfigBeginsAsTheHeadersOwn) {
  const ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(tern::cuda::ncclConfig_t().magic, theirs.magic);
}

}  // namespace
}  // namespace tern::test
#else
TEST(NcclHeader, ConfigBeginsAsTheHeadersOwn) { GTEST_SKIP() << "nccl.h, of NCCL, is not installed"; }
#endif
