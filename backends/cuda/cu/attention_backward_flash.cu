// attention_backward on the matrix units (Dao, "FlashAttention-2", 2023): scores and weights are computed again, tile
// by tile, once for dq and once for dk and dv. No sum crosses blocks, so nothing depends on their order. Weights and
// their gradients are narrowed to the queries' dtype before their products.
#include "backends/cuda/cu/attention_mma.cuh"

namespace {

struct Arguments {
  const Tensor &dout, &q, &k, &v, &lse;
  const float* delta;
  const Tensor &bounds_q, &bounds_k, &mask;
  const AttentionSizes& s;
};

CONSTANT int kWarps = 4;
CONSTANT int kThreads = 32 * kWarps;
CONSTANT int kRows = 16 * kWarps;  // of a block

// Query rows and keys of one sequence and kv head.
struct Sequence {
  int first_row, rows, first_key, keys, kv_head, group;
  DEVICE_MEMBER int shift() const { return keys - rows; }
  DEVICE_MEMBER long row(int entry) const { return first_row + entry / group; }
  DEVICE_MEMBER int head(int entry) const { return kv_head * group + entry % group; }
  DEVICE_MEMBER int position(int entry) const { return entry / group + shift(); }
  DEVICE_MEMBER long at(const long (&strides)[3], int entry) const {
    return row(entry) * strides[0] + head(entry) * strides[1];
  }
  DEVICE_MEMBER long key_at(const long (&strides)[4], int key) const {
    return (static_cast<long>(first_key) + key) * strides[1] + kv_head * strides[2];
  }
};

// What is known of entries beside their rows of q and dout: their lse as exponents of 2, and which keys they see.
template <int N>
struct Entries {
  float lse[N], delta[N];
  Span shown[N];
  // Those from `begin` on, `count` of them.
  DEVICE_MEMBER void load(const Sequence& of, int begin, int count, const Arguments& a) {
    for (int e = threadIdx.x; e < N; e += kThreads) {
      const bool there = e < count;
      const long row = there ? of.row(begin + e) : 0;
      const int head = there ? of.head(begin + e) : 0;
      const int position = of.position(begin + e);
      const float own = there ? a.lse.as<float>()[row * a.s.lse[0] + head * a.s.lse[1]] : 0.0f;
      lse[e] = own == -infinity() ? 0.0f : own * kLog2E;  // it sees no key
      delta[e] = there ? a.delta[row * a.s.heads + head] : 0.0f;
      shown[e] = there ? keys_of(position, position, of.keys, a.s) : Span{0, 0};
    }
  }
};

// With a cap, products become capped scores, and `pulled` is multiplied by the cap's slope.
template <int N>
DEVICE void cap(float (&scores)[1][N][4], float (&pulled)[1][N][4], const AttentionSizes& s) {
  if (s.softcap <= 0.0f) return;
  const float factor = s.scale / s.softcap;
  UNROLL for (int n = 0; n < N; ++n) {
    UNROLL for (int i = 0; i < 4; ++i) {
      const float t = tanhf(scores[0][n][i] * factor);
      scores[0][n][i] = s.softcap * t;
      pulled[0][n][i] *= 1.0f - t * t;
    }
  }
}

template <int N>
DEVICE void clear(float (&sums)[1][N][4]) {
  UNROLL for (int n = 0; n < N; ++n) { UNROLL for (int i = 0; i < 4; ++i) sums[0][n][i] = 0.0f; }
}

// The warp's 16 rows times `factor`, the first `count` of them and `width` columns: row_at gives where one begins.
template <int N, typename RowAt>
DEVICE void write_rows(const Tensor& to, const float (&sums)[1][N][4], float factor, int count, int width, long stride,
                       RowAt&& row_at) {
  const int lane = threadIdx.x % 32;
  UNROLL for (int half = 0; half < 2; ++half) {
    const int i = half * 8 + lane / 4;
    if (i >= count) continue;
    const long begin = row_at(i);
    UNROLL for (int n = 0; n < N; ++n) {
      const int d = n * 8 + lane % 4 * 2;
      if (d >= width) continue;
      put_pair(to, begin + d * stride, stride, sums[0][n][2 * half] * factor, sums[0][n][2 * half + 1] * factor);
    }
  }
}

// dq: a block takes 64 entries and streams over N keys at a time, whose next tile comes beside the arithmetic.
template <typename F, int D, int DV, int N>
DEVICE void run_dq(ushort* memory, Entries<kRows>& numbers, const Tensor& dq, const Arguments& a) {
  constexpr int pitch = D + kRowPad, value_pitch = DV + kRowPad, stage = N * (pitch + value_pitch);
  const AttentionSizes& s = a.s;
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const int warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  // The last tiles of a sequence see most, and begin first.
  const Place place = place_of(gridDim.x - 1 - blockIdx.x, group, kRows, a.bounds_q.as<int>(),
                               static_cast<int>(s.q_rows), static_cast<int>(s.sequences));
  const int first = place.tile * kRows;
  const int left = place.rows * group - first;
  if (left <= 0) return;
  Sequence of = {place.first_row, place.rows, 0, 0, static_cast<int>(blockIdx.y), group};
  if (place.sequence >= 0) {
    of.first_key = a.bounds_k.as<int>()[place.sequence];
    of.keys = a.bounds_k.as<int>()[place.sequence + 1] - of.first_key;
  }
  const int entries = left < kRows ? left : kRows;
  const Span span = keys_of(of.position(first), of.position(first + entries - 1), of.keys, s);
  ushort* const queries = memory;
  ushort* const upstream = queries + kRows * pitch;
  ushort* const stages = upstream + kRows * value_pitch;
  const auto load = [&](int begin, ushort* to) {
    copy_rows<N, D, kThreads>(to, a.k, of.keys - begin, static_cast<int>(s.head_dim),
                              [&](int j) { return of.key_at(s.k, begin + j); });
    copy_rows<N, DV, kThreads>(to + N * pitch, a.v, of.keys - begin, static_cast<int>(s.value_dim),
                               [&](int j) { return of.key_at(s.v, begin + j); });
    copy_async_commit();
  };
  copy_rows<kRows, D, kThreads>(queries, a.q, entries, static_cast<int>(s.head_dim),
                                [&](int e) { return of.at(s.q, first + e); });
  copy_rows<kRows, DV, kThreads>(upstream, a.dout, entries, static_cast<int>(s.value_dim),
                                 [&](int e) { return of.at(s.dout, first + e); });
  const int begin_of_all = span.first / N * N;
  if (begin_of_all < span.last) load(begin_of_all, stages);
  numbers.load(of, first, entries, a);
  float sums[1][D / 8][4];
  clear(sums);
  const float of_two = units_of(s).of_two;
  const ushort* const own_query = of_rows(queries + warp_row * pitch, pitch, lane);
  const ushort* const own_upstream = of_rows(upstream + warp_row * value_pitch, value_pitch, lane);
  const int end = warp_row + 16 < entries ? warp_row + 16 : entries;  // of the warp's entries
  const int low = of.position(first + warp_row), high = of.position(first + end - 1);
  const int own_entry = warp_row + lane / 4;
  const Rows rows = {numbers.shown + warp_row, of.first_row, first + warp_row, group};
  int slot = 0;
  for (int begin = begin_of_all; begin < span.last; begin += N, slot ^= 1) {
    copy_async_wait<0>();
    __syncthreads();  // this tile is here, and that of before has been read
    if (begin + N < span.last) load(begin + N, stages + (slot ^ 1) * stage);
    const ushort* const keys = stages + slot * stage;
    float dots[1][N / 8][4] = {}, pulled[1][N / 8][4] = {};
    multiply_turned<F, D, 1, N>(dots, keys, lane,
                                [&](uint(&to)[4], int, int step) { ldmatrix_x4(to, own_query + step * 16); });
    multiply_turned<F, DV, 1, N>(pulled, keys + N * pitch, lane,
                                 [&](uint(&to)[4], int, int step) { ldmatrix_x4(to, own_upstream + step * 16); });
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) pulled[0][n][i] -= numbers.delta[own_entry + i / 2 * 8];
    }
    cap(dots, pulled, s);
    if (!all_see(low, high, begin, begin + N, of.keys, s)) hide(dots, begin, lane, rows, a.mask, s);
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) {
        pulled[0][n][i] *= fast_exp2(fmaf(dots[0][n][i], of_two, -numbers.lse[own_entry + i / 2 * 8]));
      }
    }
    add_weighted<F, D, 1, N>(sums, pulled, keys, lane);
  }
  copy_async_wait<0>();
  write_rows(dq, sums, s.scale, entries - warp_row, static_cast<int>(s.head_dim), s.dq[2],
             [&](int i) { return of.at(s.dq, first + warp_row + i); });
}

// As hide, where rows are keys, from `key` on, and columns entries from `begin` on.
template <int N>
DEVICE void hide_turned(float (&scores)[1][N][4], const Span* shown, int key, int begin, int lane, const Sequence& of,
                        const Arguments& a) {
  UNROLL for (int n = 0; n < N; ++n) {
    UNROLL for (int i = 0; i < 2; ++i) {
      const int e = n * 8 + lane % 4 * 2 + i;
      UNROLL for (int half = 0; half < 2; ++half) {
        float& score = scores[0][n][2 * half + i];
        score = sees(shown[e], key + half * 8 + lane / 4, of.row(begin + e), a.mask, a.s) ? score : -infinity();
      }
    }
  }
}

// dk and dv: a block takes 64 keys of one kv head, and of them the columns of its z: a share of D and of DV. It streams
// over the entries that see one of the keys, N at a time.
template <typename F, int D, int DV, int N, int SHARES>
DEVICE void run_dkv(ushort* memory, Entries<N>* numbers, const Tensor& dk, const Tensor& dv, const Arguments& a) {
  constexpr int pitch = D + kRowPad, value_pitch = DV + kRowPad, stage = N * (pitch + value_pitch);
  constexpr int columns = D / SHARES, value_columns = DV / SHARES;
  const AttentionSizes& s = a.s;
  const int group = static_cast<int>(s.heads / s.kv_heads);
  const int warp_row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
  const Place place =
      place_of(blockIdx.x, 1, kRows, a.bounds_k.as<int>(), static_cast<int>(s.k_rows), static_cast<int>(s.sequences));
  const int first = place.tile * kRows;
  if (first >= place.rows) return;
  const int count = place.rows - first < kRows ? place.rows - first : kRows;
  Sequence of = {0, 0, place.first_row, place.rows, static_cast<int>(blockIdx.y), group};
  if (place.sequence >= 0) {
    of.first_row = a.bounds_q.as<int>()[place.sequence];
    of.rows = a.bounds_q.as<int>()[place.sequence + 1] - of.first_row;
  }
  const Span span = positions_of(first, first + count, of.rows, of.keys, s);
  const int from = (span.first > of.shift() ? span.first - of.shift() : 0) * group;
  const int last = (span.last - of.shift() < of.rows ? span.last - of.shift() : of.rows) * group;
  ushort* const keys = memory;
  ushort* const values = keys + kRows * pitch;
  ushort* const stages = values + kRows * value_pitch;
  const auto load = [&](int begin, int slot) {
    ushort* const room = stages + slot * stage;
    const int there = of.rows * group - begin;
    copy_rows<N, D, kThreads>(room, a.q, there, static_cast<int>(s.head_dim),
                              [&](int e) { return of.at(s.q, begin + e); });
    copy_rows<N, DV, kThreads>(room + N * pitch, a.dout, there, static_cast<int>(s.value_dim),
                               [&](int e) { return of.at(s.dout, begin + e); });
    copy_async_commit();
    numbers[slot].load(of, begin, there, a);
  };
  const int read = of.rows > 0 ? count : 0;
  copy_rows<kRows, D, kThreads>(keys, a.k, read, static_cast<int>(s.head_dim),
                                [&](int j) { return of.key_at(s.k, first + j); });
  copy_rows<kRows, DV, kThreads>(values, a.v, read, static_cast<int>(s.value_dim),
                                 [&](int j) { return of.key_at(s.v, first + j); });
  if (from < last) load(from, 0);
  float key_sums[1][columns / 8][4], value_sums[1][value_columns / 8][4];
  clear(key_sums);
  clear(value_sums);
  const float of_two = units_of(s).of_two;
  const ushort* const own_key = of_rows(keys + warp_row * pitch, pitch, lane);
  const ushort* const own_value = of_rows(values + warp_row * value_pitch, value_pitch, lane);
  const int share = blockIdx.z;
  int slot = 0;
  for (int begin = from; begin < last; begin += N, slot ^= 1) {
    copy_async_wait<0>();
    __syncthreads();  // this tile is here, and that of before has been read
    if (begin + N < last) load(begin + N, slot ^ 1);
    const ushort* const queries = stages + slot * stage;
    const ushort* const upstream = queries + N * pitch;
    float dots[1][N / 8][4] = {}, pulled[1][N / 8][4] = {};
    multiply_turned<F, D, 1, N>(dots, queries, lane,
                                [&](uint(&to)[4], int, int step) { ldmatrix_x4(to, own_key + step * 16); });
    multiply_turned<F, DV, 1, N>(pulled, upstream, lane,
                                 [&](uint(&to)[4], int, int step) { ldmatrix_x4(to, own_value + step * 16); });
    const bool whole =
        warp_row + 16 <= count && begin + N <= of.rows * group &&
        all_see(of.position(begin), of.position(begin + N - 1), first + warp_row, first + warp_row + 16, of.keys, s);
    const Entries<N>& own = numbers[slot];
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) pulled[0][n][i] -= own.delta[n * 8 + lane % 4 * 2 + i % 2];
    }
    cap(dots, pulled, s);
    if (!whole) hide_turned(dots, own.shown, first + warp_row, begin, lane, of, a);
    UNROLL for (int n = 0; n < N / 8; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) {
        dots[0][n][i] = fast_exp2(fmaf(dots[0][n][i], of_two, -own.lse[n * 8 + lane % 4 * 2 + i % 2]));
        pulled[0][n][i] *= dots[0][n][i];
      }
    }
    add_weighted<F, value_columns, 1, N, value_pitch>(value_sums, dots, upstream + share * value_columns, lane);
    add_weighted<F, columns, 1, N, pitch>(key_sums, pulled, queries + share * columns, lane);
  }
  copy_async_wait<0>();
  write_rows(dk, key_sums, s.scale, count - warp_row, static_cast<int>(s.head_dim) - share * columns, s.dk[2],
             [&](int i) {
               return (static_cast<long>(of.first_key) + first + warp_row + i) * s.dk[0] + of.kv_head * s.dk[1] +
                      share * columns * s.dk[2];
             });
  write_rows(dv, value_sums, 1.0f, count - warp_row, static_cast<int>(s.value_dim) - share * value_columns, s.dv[2],
             [&](int i) {
               return (static_cast<long>(of.first_key) + first + warp_row + i) * s.dv[0] + of.kv_head * s.dv[1] +
                      share * value_columns * s.dv[2];
             });
}

}  // namespace

#define BACKWARD(name, F, D, DV, N, SHARES, blocks)                                                                  \
  KERNEL_BOUNDED(attention_flash_dq_##name, 128, blocks)                                                             \
  (Tensor dout, Tensor q, Tensor k, Tensor v, Tensor lse, const float* delta, Tensor bounds_q, Tensor bounds_k,      \
   Tensor mask, Tensor dq, AttentionSizes s) {                                                                       \
    DYNAMIC_SHARED(ushort, memory);                                                                                  \
    SHARED Entries<kRows> numbers;                                                                                   \
    run_dq<F, D, DV, N>(memory, numbers, dq, {dout, q, k, v, lse, delta, bounds_q, bounds_k, mask, s});              \
  }                                                                                                                  \
  KERNEL_BOUNDED(attention_flash_dkv_##name, 128, blocks)                                                            \
  (Tensor dout, Tensor q, Tensor k, Tensor v, Tensor lse, const float* delta, Tensor bounds_q, Tensor bounds_k,      \
   Tensor mask, Tensor dk, Tensor dv, AttentionSizes s) {                                                            \
    DYNAMIC_SHARED(ushort, memory);                                                                                  \
    SHARED Entries<N> numbers[2];                                                                                    \
    run_dkv<F, D, DV, N, SHARES>(memory, numbers, dk, dv, {dout, q, k, v, lse, delta, bounds_q, bounds_k, mask, s}); \
  }

BACKWARD(bf16_64, Bf16, 64, 64, 64, 1, 2)
BACKWARD(bf16_96, Bf16, 96, 96, 64, 1, 2)
BACKWARD(bf16_128, Bf16, 128, 128, 64, 1, 2)
BACKWARD(bf16_192, Bf16, 192, 128, 32, 1, 2)
BACKWARD(bf16_256, Bf16, 256, 256, 32, 2, 1)
BACKWARD(f16_64, F16x2, 64, 64, 64, 1, 2)
BACKWARD(f16_96, F16x2, 96, 96, 64, 1, 2)
BACKWARD(f16_128, F16x2, 128, 128, 64, 1, 2)
BACKWARD(f16_192, F16x2, 192, 128, 32, 1, 2)
BACKWARD(f16_256, F16x2, 256, 256, 32, 2, 1)
