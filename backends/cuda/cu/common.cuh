// What stands in front of every kernel. nvcc compiles these files; a C++ compiler compiles them too, over
// tests/fakes/cuda/emulated.h, so that the fake of the driver runs the same kernels on the host. So a kernel keeps to
// what is here: KERNEL, SHARED, DYNAMIC_SHARED, block_sum and the like, __syncthreads, __syncwarp, __shfl_*_sync over a
// full warp, and what cu/tensor_cores.cuh has of the matrix units.
#pragma once

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define CONSTANT static __device__ constexpr
#define KERNEL(name) extern "C" __global__ void name
// A kernel of at most so many threads, whose registers are held to `blocks` blocks a multiprocessor.
#define KERNEL_BOUNDED(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define SHARED __shared__
// `name` is a pointer to what the host's Call::shared asked for, aligned to 128 bytes.
#define DYNAMIC_SHARED(type, name)                             \
  extern __shared__ __align__(128) unsigned char shared_of_call[]; \
  type* const name = reinterpret_cast<type*>(shared_of_call)
#define UNROLL _Pragma("unroll")
#elif !defined(KERNEL)
#error "a C++ compiler takes this file behind tests/fakes/cuda/emulated.h alone"
#endif

// ---------------------------------------------------------------- launches that overlap (Call::overlapped)
#ifdef __CUDACC__
// Until what was queued before this kernel is over and its memory can be seen. Every thread of a kernel that is
// launched overlapped calls it, before it reads or writes what others may: weights may be brought to the cache before.
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// What is queued after this kernel may be started from here on; it waits for this kernel's end all the same. Only after
// wait_for_previous(): on an H200, where kernels let the next one start before they had waited, a chain of them read
// what the kernel before the one before them had not written yet.
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Both, where there is nothing to bring before.
DEVICE void begin_overlapped() {
  wait_for_previous();
  let_next_start();
}
// Brings 128 bytes nearer. The memory may be written meanwhile: nothing is read from it.
DEVICE void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
#endif

// ---------------------------------------------------------------- dtypes, as tern_dtype counts them
enum { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, BOOL, F8_E4M3, F8_E5M2 };

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

// ---------------------------------------------------------------- arguments
// DeviceTensor of kernel.h. The dtype is known at launch, the same for all threads: a branch by it costs little where
// memory is waited for. Kernels that compute are templates of their dtypes instead, with a KERNEL for each that is
// used.
struct Tensor {
  uchar* at;
  int dtype;
  int adds;
  DEVICE_MEMBER bool here() const { return at != nullptr; }
  template <typename T>
  DEVICE_MEMBER T* as() const {
    return reinterpret_cast<T*>(at);
  }
};

// ---------------------------------------------------------------- floats of 16 bits, as bits
DEVICE float bf16_to_float(ushort bits) { return __uint_as_float(static_cast<uint>(bits) << 16); }
// To the nearest, ties to even; a NaN stays one.
DEVICE ushort float_to_bf16(float value) {
  const uint bits = __float_as_uint(value);
  const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<ushort>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
#ifdef __CUDACC__
DEVICE float f16_to_float(ushort bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
DEVICE ushort float_to_f16(float value) {
  ushort bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif

// ---------------------------------------------------------------- elements as fp32
DEVICE float load_float(int dtype, const uchar* at, long element) {
  if (dtype == F32) return reinterpret_cast<const float*>(at)[element];
  const ushort bits = reinterpret_cast<const ushort*>(at)[element];
  return dtype == BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}
DEVICE void store_float(int dtype, uchar* at, long element, float value) {
  if (dtype == F32) {
    reinterpret_cast<float*>(at)[element] = value;
  } else {
    reinterpret_cast<ushort*>(at)[element] = dtype == BF16 ? float_to_bf16(value) : float_to_f16(value);
  }
}
// What a value becomes when it is kept in the dtype.
DEVICE float round_float(int dtype, float value) {
  if (dtype == BF16) return bf16_to_float(float_to_bf16(value));
  if (dtype == F16) return f16_to_float(float_to_f16(value));
  return value;
}
DEVICE float get(const Tensor& tensor, long element) { return load_float(tensor.dtype, tensor.at, element); }
DEVICE void put(const Tensor& tensor, long element, float value) {
  store_float(tensor.dtype, tensor.at, element, value);
}
// Replaces, or adds in fp32 and rounds once, as the op asked.
DEVICE void put_or_add(const Tensor& tensor, long element, float value) {
  put(tensor, element, tensor.adds != 0 ? get(tensor, element) + value : value);
}

// ---------------------------------------------------------------- walks (walk.h of the host)
struct Walk {
  long units;
  long inner;
  long chunk;
  long chunks;
  int rank;
  int dense;
  long shape[5];
  long inner_stride[6];
  long stride[6][5];
};

// Where a tensor's row begins, in elements.
DEVICE long walk_row(const Walk& walk, int tensor, long row) {
  long at = 0;
  for (int d = walk.rank - 1; d >= 0; --d) {
    at += row % walk.shape[d] * walk.stride[tensor][d];
    row /= walk.shape[d];
  }
  return at;
}

// Calls step(at) for each element that this thread has: at[t] is where it lies in the t-th tensor that the host named.
template <int tensors, typename Step>
DEVICE void walk_over(const Walk& walk, Step&& step) {
  const long unit = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= walk.units) return;
  const long row = unit / walk.chunks;
  const long first = unit % walk.chunks * walk.chunk;
  const long last = first + walk.chunk < walk.inner ? first + walk.chunk : walk.inner;
  long begin[tensors];
  UNROLL for (int t = 0; t < tensors; ++t) begin[t] = walk_row(walk, t, row);
  for (long i = first; i < last; ++i) {
    long at[tensors];
    UNROLL for (int t = 0; t < tensors; ++t) at[t] = begin[t] + i * walk.inner_stride[t];
    step(at);
  }
}

// ---------------------------------------------------------------- reductions
// Sums of a warp and of a block, in a fixed order, so they have the same bits each time. Every thread calls it and gets
// the result; blocks are one-dimensional, of whole warps. `scratch` is shared, float[32].
DEVICE float warp_sum(float value) {
  UNROLL for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}
// NaN is passed over: kernels look for it themselves.
DEVICE float warp_max(float value) {
  UNROLL for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  return value;
}
DEVICE float block_sum(float value, float* scratch) {
  value = warp_sum(value);
  if (blockDim.x == 32) return value;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  __syncthreads();  // an earlier reduction's scratch has been read
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return warp_sum(lane < warps ? scratch[lane] : 0.0f);
}
DEVICE float block_max(float value, float* scratch) {
  value = warp_max(value);
  if (blockDim.x == 32) return value;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  __syncthreads();
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  return warp_max(lane < warps ? scratch[lane] : -__int_as_float(0x7f800000));
}

// ---------------------------------------------------------------- random bits: Philox 4x32 with 10 rounds
struct Bits4 {
  uint x, y, z, w;
};
DEVICE Bits4 philox(Bits4 counter, uint key0, uint key1) {
  for (int round = 0; round < 10; ++round) {
    const uint high0 = __umulhi(0xD2511F53u, counter.x);
    const uint low0 = 0xD2511F53u * counter.x;
    const uint high1 = __umulhi(0xCD9E8D57u, counter.z);
    const uint low1 = 0xCD9E8D57u * counter.z;
    counter = {high1 ^ counter.y ^ key0, low1, high0 ^ counter.w ^ key1, low0};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}
