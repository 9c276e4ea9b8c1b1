// Kernels that tell what the emulation does, and kernels that misuse it.
#include "backends/cuda/cu/tensor_cores.cuh"

// Where each thread is: of a grid of several dimensions.
KERNEL(where_am_i)(int* out) {
  const uint block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const uint thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1);
}

// One product of fragments: a [16, 16], b [16, 8], d [16, 8], loaded as the PTX ISA says.
#define PRODUCT(name, multiply)                                                                  \
  KERNEL(name)(const ushort* a, const ushort* b, float* d) {                                     \
    const int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;                           \
    const auto two = [](const ushort* at, int step) { return at[0] | uint(at[step]) << 16; };    \
    const uint fa[4] = {two(a + row * 16 + pair, 1), two(a + (row + 8) * 16 + pair, 1),          \
                        two(a + row * 16 + pair + 8, 1), two(a + (row + 8) * 16 + pair + 8, 1)}; \
    const uint fb[2] = {two(b + pair * 8 + row, 8), two(b + (pair + 8) * 8 + row, 8)};           \
    float fd[4] = {d[row * 8 + pair], d[row * 8 + pair + 1], d[(row + 8) * 8 + pair],            \
                   d[(row + 8) * 8 + pair + 1]};                                                 \
    multiply(fd, fa, fb);                                                                        \
    d[row * 8 + pair] = fd[0];                                                                   \
    d[row * 8 + pair + 1] = fd[1];                                                               \
    d[(row + 8) * 8 + pair] = fd[2];                                                             \
    d[(row + 8) * 8 + pair + 1] = fd[3];                                                         \
  }
PRODUCT(product_bf16, mma_bf16)
PRODUCT(product_f16, mma_f16)

// As kernels do it: tiles by copy_async, fragments by ldmatrix; b transposed from rows. Leading dimensions of 24 and 8.
KERNEL_BOUNDED(product_by_tiles, 32, 1)(const ushort* a, const ushort* b, float* d) {
  SHARED __align__(16) ushort tile_a[16 * 24];
  SHARED __align__(16) ushort tile_b[16 * 8];
  const int lane = threadIdx.x;
  copy_async(tile_a + lane / 2 * 24 + lane % 2 * 8, a + lane / 2 * 16 + lane % 2 * 8, true);
  if (lane < 16) copy_async(tile_b + lane * 8, b + lane * 8, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncwarp();
  uint fa[4], fb[4];
  ldmatrix_x4(fa, tile_a + (lane % 8 + lane / 8 % 2 * 8) * 24 + lane / 16 * 8);
  ldmatrix_x4_trans(fb, tile_b + lane % 16 * 8);
  const uint two[2] = {fb[0], fb[1]};
  float fd[4] = {};
  mma_bf16(fd, fa, two);
  const int row = lane / 4, pair = lane % 4 * 2;
  d[row * 8 + pair] = fd[0];
  d[row * 8 + pair + 1] = fd[1];
  d[(row + 8) * 8 + pair] = fd[2];
  d[(row + 8) * 8 + pair + 1] = fd[3];
}

KERNEL(matrices)(const ushort* in, uint* out, int transposed) {
  SHARED __align__(16) ushort tile[4][8][8];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i / 64][i / 8 % 8][i % 8] = in[i];
  __syncwarp();
  uint r[4];
  const int lane = threadIdx.x;
  if (transposed != 0) {
    ldmatrix_x4_trans(r, tile[lane / 8][lane % 8]);
  } else {
    ldmatrix_x4(r, tile[lane / 8][lane % 8]);
  }
  for (int i = 0; i < 4; ++i) out[32 * i + lane] = r[i];
}

KERNEL(shuffles)(int* out) {
  const int lane = threadIdx.x % 32;
  int* const at = out + threadIdx.x * 8;
  at[0] = __shfl_sync(0xffffffffu, lane, 5);
  at[1] = __shfl_xor_sync(0xffffffffu, lane, 3);
  at[2] = __shfl_up_sync(0xffffffffu, lane, 2);
  at[3] = __shfl_down_sync(0xffffffffu, lane, 2, 8);
  at[4] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 3 == 0));
  at[5] = __any_sync(0xffffffffu, lane == 31) + 2 * __all_sync(0xffffffffu, lane < 31);
  at[6] = static_cast<int>(__shfl_xor_sync(0xffffffffu, 1l << 40 | lane, 1) & 0xff);
  if (lane < 16) at[7] = __shfl_sync(0xffffu, lane, lane + 1, 16);
}

KERNEL(sums)(const float* in, float* out, int n) {
  SHARED float room[32];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[static_cast<long>(blockIdx.x) * n + i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Reads a copy before it waits: `out` gets what was there, then the copy.
KERNEL(late_copy)(const uint* in, uint* out) {
  SHARED __align__(16) uint room[12];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 12; ++i) room[i] = 7;
    copy_async(room, in, true);
    copy_async_commit();
    copy_async(room + 4, in, true);
    copy_async_commit();
    copy_async(room + 8, in, false);  // no group has it yet
    copy_async_wait<1>();
    for (int i = 0; i < 3; ++i) out[i] = room[4 * i];
    copy_async_wait<0>();
    for (int i = 0; i < 3; ++i) out[3 + i] = room[4 * i];
    copy_async_commit();
    copy_async_wait<0>();
    for (int i = 0; i < 3; ++i) out[6 + i] = room[4 * i];
  }
}

KERNEL(poison)(uint* out) {
  DYNAMIC_SHARED(uint, room);
  out[blockIdx.x] = room[5];
  room[5] = 1;
}

KERNEL(early_return)(int* out) {  // lanes that have returned count as arrived
  if (threadIdx.x % 3 == 0) return;
  __syncwarp();
  __syncthreads();
  atomicAdd(out, 1);
}

KERNEL(nothing)() {}

KERNEL_BOUNDED(at_most_64, 32 * 2, 1)(int* out) { out[0] = 1; }

// ---------------------------------------------------------------- misuse
KERNEL(missing_lane)(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
}
KERNEL(divergent_barrier)(int* out) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = static_cast<int>(__ballot_sync(0xffffffffu, 1));
  if (threadIdx.x >= 32) {
    while (out[0] == -5) __syncwarp();
  }
}
KERNEL(barrier_in_a_lane)(int* out) {
  if (threadIdx.x % 32 == 7) __syncthreads();
  else __syncwarp();
  out[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 40) __syncthreads();
}
KERNEL(mixed_meetings)(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
  else out[threadIdx.x] = __any_sync(0xffffffffu, 1);
}
KERNEL(half_a_product)(float* out) {
  if (threadIdx.x >= 16) return;
  float d[4] = {};
  const uint a[4] = {}, b[2] = {};
  mma_bf16(d, a, b);
  out[threadIdx.x] = d[0];
}
KERNEL(trap)(int* out) {
  if (threadIdx.x == 1) __trap();
  out[threadIdx.x] = 1;
}
KERNEL(misaligned)(const float* in, float* out) {
  const float4 v = *reinterpret_cast<const float4*>(in + 1);
  out[0] = v.x + v.w;
}
KERNEL(beyond_array)(int* out, int i) {
  SHARED int room[8];
  room[i] = 1;
  out[0] = room[i];
}
KERNEL(misaligned_copy)(const ushort* in) {
  SHARED __align__(16) ushort room[16];
  copy_async(room, in + 1, true);
}
