// The matrix units (mma.sync, since sm_80), the loads that feed them, and copies that go on beside the arithmetic.
// Layouts of fragments are those of the PTX ISA, "Warp-level matrix instructions". tests/fakes/cuda/emulated.h has the
// same functions for the host.
#pragma once

#include "backends/cuda/cu/common.cuh"

struct alignas(16) Words4 {
  uint x, y, z, w;
};
#ifndef __CUDACC__
DEVICE void copy_async_part(void* shared, const void* global, int bytes) {
  uchar* const to = static_cast<uchar*>(shared);
  for (int i = 0; i < 16; ++i) to[i] = i < bytes ? static_cast<const uchar*>(global)[i] : 0;
}
DEVICE Words4 load_once(const void* global) { return *static_cast<const Words4*>(global); }
#endif

#ifdef __CUDACC__
// d [16, 8] += a [16, 16] b [16, 8]. A lane holds of a the rows lane / 4 and + 8, of the columns 2 (lane % 4) and + 8
// two neighbours each: a[0] (row, low), a[1] (row + 8, low), a[2] (row, high), a[3] (row + 8, high); of b the column
// lane / 4, of the rows 2 (lane % 4) and + 8 two each; of d rows lane / 4 (d[0], d[1]) and + 8 (d[2], d[3]), columns 2
// (lane % 4) and + 1.
DEVICE void mma_bf16(float (&d)[4], const uint (&a)[4], const uint (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_f16(float (&d)[4], const uint (&a)[4], const uint (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Four 8 x 8 matrices of 16-bit elements from shared memory: lanes 8 i to 8 i + 7 give the addresses of the i-th's
// rows, of 16 bytes each; r[i] gets of its row lane / 4 the columns 2 (lane % 4) and + 1. Transposed: of its column.
DEVICE void ldmatrix_x4(uint (&r)[4], const void* row) {
  const uint at = static_cast<uint>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix_x4_trans(uint (&r)[4], const void* row) {
  const uint at = static_cast<uint>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
// 16 bytes from global to shared memory, beside the arithmetic, or zeros where `valid` is false (nothing is read then).
DEVICE void copy_async(void* shared, const void* global, bool valid) {
  const uint at = static_cast<uint>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "r"(valid ? 16 : 0) : "memory");
}
// The first `bytes` of 16 bytes, zeros behind them; nothing is read where they are 0.
DEVICE void copy_async_part(void* shared, const void* global, int bytes) {
  const uint at = static_cast<uint>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "r"(bytes) : "memory");
}
// 16 bytes that are read once: past the cache of the multiprocessor.
DEVICE Words4 load_once(const void* global) {
  Words4 words;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(global));
  return words;
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `groups` of the latest commits are still going on.
template <int groups>
DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
// Two floats to two neighbours of 16 bits, the first in the low half.
DEVICE uint pack_bf16(float low, float high) {
  uint bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
DEVICE uint pack_f16(float low, float high) {
  uint bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#endif
