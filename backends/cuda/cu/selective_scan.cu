// selective_scan, as cu/recurrent.cuh carries states.
#include "backends/cuda/cu/recurrent.cuh"

struct ScanSizes {
  long rows, heads, groups, sequences;
  int state_size, head_dim;
  long x[3], dt[2], a, b[3], c[3], d, state[4], out[3];
};

// A tile of rows: b and c [TILE, 4 R], x [TILE, columns of the block], dt and exp(dt a) [TILE].
template <int R>
struct ScanTile {
  float *b, *c, *x, *step, *kept;
  DEVICE_MEMBER explicit ScanTile(float* room)
      : b(room),
        c(b + TILE * 4 * R),
        x(c + TILE * 4 * R),
        step(x + TILE * columns_of_block()),
        kept(step + TILE) {}
};

template <int R>
DEVICE void carry_scan(const Tensor& x, const float* dt, const float* a, const Tensor& b, const Tensor& c,
                       const Tensor& d, const int* bounds, const int* kv_lens, const int* seats, float* state, const Tensor& out,
                       float* room, const ScanSizes& s) {
  const Carried own = carried_of(bounds, s.rows, s.sequences, s.heads, s.head_dim);
  if (!own.inside) return clear_rows(own, out, s.out, own.head, s.head_dim);
  if (own.begin == own.end) return;
  const ScanTile<R> tile(room);
  const long column = own.column + own_column(), group = own.head / (s.heads / s.groups);
  const bool present = column < s.head_dim;
  const bool goes_on = state != nullptr && present && kv_lens[own.sequence] > own.end - own.begin;
  const long seat = state != nullptr ? seats[own.sequence] : 0;
  float* const own_state = state + seat * s.state[0] + own.head * s.state[1] + column * s.state[3];
  const float rate = a[own.head * s.a];
  const float skip = d.here() ? get(d, own.head * s.d) : 0.0f;
  float S[R];
  load_state(S, own_state, s.state, s.state_size, goes_on);
  for (long first = own.begin; first < own.end; first += TILE) {
    const int count = own.end - first < TILE ? static_cast<int>(own.end - first) : TILE;
    __syncthreads();  // the tile of before has been read
    stage(tile.b, count, s.state_size, 4 * R, [&](int t, int i) {
      return get(b, (first + t) * s.b[0] + group * s.b[1] + i * s.b[2]);
    });
    stage(tile.c, count, s.state_size, 4 * R, [&](int t, int i) {
      return get(c, (first + t) * s.c[0] + group * s.c[1] + i * s.c[2]);
    });
    const int width = static_cast<int>(s.head_dim - own.column);
    stage(tile.x, count, width, columns_of_block(), [&](int t, int i) {
      return get(x, (first + t) * s.x[0] + own.head * s.x[1] + (own.column + i) * s.x[2]);
    });
    stage(tile.step, count, 1, 1, [&](int t, int) { return dt[(first + t) * s.dt[0] + own.head * s.dt[1]]; });
    stage(tile.kept, count, 1, 1, [&](int t, int) {
      return expf(dt[(first + t) * s.dt[0] + own.head * s.dt[1]] * rate);
    });
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      const float value = tile.x[t * columns_of_block() + own_column()];
      const float added = tile.step[t] * value;
      float of_b[R], of_c[R];
      take_rows(of_b, tile.b + t * 4 * R);
      UNROLL for (int i = 0; i < R; ++i) S[i] = S[i] * tile.kept[t] + of_b[i] * added;
      take_rows(of_c, tile.c + t * 4 * R);
      const float sum = over_rows(dot(S, of_c));
      const long to = (first + t) * s.out[0] + own.head * s.out[1] + column * s.out[2];
      if (row_lane() == 0 && present) put(out, to, sum + skip * value);
    }
  }
  if (state != nullptr && present) store_state(S, own_state, s.state, s.state_size);
}

#define SELECTIVE_SCAN(name, R)                                                                          \
  KERNEL_BOUNDED(name, 128, 2)                                                                           \
  (Tensor x, const float* dt, const float* a, Tensor b, Tensor c, Tensor d, const int* bounds,           \
   const int* kv_lens, const int* seats, float* state, Tensor out, ScanSizes s) {                        \
    DYNAMIC_SHARED(float, room);                                                                         \
    carry_scan<R>(x, dt, a, b, c, d, bounds, kv_lens, seats, state, out, room, s);                       \
  }
SELECTIVE_SCAN(selective_scan_32, 8)
SELECTIVE_SCAN(selective_scan_128, 32)
SELECTIVE_SCAN(selective_scan_256, 64)
