// selective_scan_backward: the gradients of b, c, dt, a and d are sums over columns, which cu/recurrent_backward.cuh
// leaves in `partial`, with three numbers: ddt without what is through the decay, that without its factor a, and dout .
// x.
#include "backends/cuda/cu/recurrent_backward.cuh"

struct ScanBackwardSizes {
  long rows, heads, groups, sequences;
  int state_size, head_dim;
  long x[3], dt[2], a, b[3], c[3], d, dout[3];
  long dx[3], ddt[2], da, db[3], dc[3], dd;
  BackwardLaunch launch;
  long chunks;
};

template <int R>
struct ScanBack {
  const Tensor &dout, &x, &b, &c, &dx;
  const float* dt;
  const ScanBackwardSizes& s;
  const long head, group, first_column;
  const float decay, skip;  // a and d of the head
  // b and c [TILE, 4 R]; x and dout [TILE, columns of the block]; dt and exp(dt a) [TILE]
  float *of_b, *of_c, *values, *upstream, *step, *kept;

  DEVICE_MEMBER void place(float* room) {
    of_b = room;
    of_c = of_b + TILE * 4 * R;
    values = of_c + TILE * 4 * R;
    upstream = values + TILE * columns_of_block();
    step = upstream + TILE * columns_of_block();
    kept = step + TILE;
  }
  DEVICE_MEMBER void stage_tile(long first, int count) {
    stage(of_b, count, s.state_size, 4 * R, [&](int t, int i) {
      return get(b, (first + t) * s.b[0] + group * s.b[1] + i * s.b[2]);
    });
    stage(of_c, count, s.state_size, 4 * R, [&](int t, int i) {
      return get(c, (first + t) * s.c[0] + group * s.c[1] + i * s.c[2]);
    });
    const int width = static_cast<int>(s.head_dim - first_column);
    stage(values, count, width, columns_of_block(), [&](int t, int i) {
      return get(x, (first + t) * s.x[0] + head * s.x[1] + (first_column + i) * s.x[2]);
    });
    stage(upstream, count, width, columns_of_block(), [&](int t, int i) {
      return get(dout, (first + t) * s.dout[0] + head * s.dout[1] + (first_column + i) * s.dout[2]);
    });
    stage(step, count, 1, 1, [&](int t, int) { return dt[(first + t) * s.dt[0] + head * s.dt[1]]; });
    stage(kept, count, 1, 1, [&](int t, int) { return expf(dt[(first + t) * s.dt[0] + head * s.dt[1]] * decay); });
  }
  DEVICE_MEMBER int own(int t) const { return t * columns_of_block() + own_column(); }
  DEVICE_MEMBER void advance(float (&state)[R], int t) const {
    float row_b[R];
    take_rows(row_b, of_b + t * 4 * R);
    const float added = step[t] * values[own(t)];
    UNROLL for (int i = 0; i < R; ++i) state[i] = state[i] * kept[t] + row_b[i] * added;
  }
  DEVICE_MEMBER void advance_again(float (&state)[R], int t) const { advance(state, t); }
  DEVICE_MEMBER void back(float (&state)[R], float (&gradient)[R], int t, long row, float* sums) const {
    const float value = values[own(t)], added = step[t] * value, up = upstream[own(t)];
    float row_b[R];
    take_rows(row_b, of_b + t * 4 * R);
    {
      float row_c[R];
      take_rows(row_c, of_c + t * 4 * R);
      UNROLL for (int i = 0; i < R; ++i) {
        state[i] *= kept[t];
        gradient[i] += row_c[i] * up;
      }
    }
    rows_over_columns<R>(sums, [&](int i) { return gradient[i] * added; });
    rows_over_columns<R>(sums + 4 * R, [&](int i) { return (state[i] + row_b[i] * added) * up; });
    const float pulled = over_rows(dot(gradient, row_b)), faded = warp_sum(dot(gradient, state));
    const float of_value = over_columns(pulled * value), of_skip = over_columns(up * value);
    UNROLL for (int i = 0; i < R; ++i) gradient[i] *= kept[t];
    const long column = first_column + own_column(), to = row * s.dx[0] + head * s.dx[1] + column * s.dx[2];
    if (row_lane() == 0 && column < s.head_dim) put(dx, to, step[t] * pulled + skip * up);
    if (threadIdx.x % 32 != 0) return;
    sums[8 * R] = of_value;
    sums[8 * R + 1] = faded;
    sums[8 * R + 2] = of_skip;
  }
};

template <int R>
DEVICE void carry_scan_back(const Tensor& dout, const Tensor& x, const float* dt, const float* a, const Tensor& b,
                            const Tensor& c, const Tensor& d, const int* bounds, const Tensor& dx, float* partial,
                            float* states, float* shared, const ScanBackwardSizes& s) {
  const Carried own = carried_of(bounds, s.rows, s.sequences, s.launch.heads, s.head_dim);
  const long head = s.launch.first_head + own.head;
  if (!own.inside) return clear_rows(own, dx, s.dx, head, s.head_dim);
  if (own.begin == own.end) return;
  ScanBack<R> rule = {dout, x, b, c, dx, dt, s, head, head / (s.heads / s.groups), own.column, a[head * s.a],
                      d.here() ? get(d, head * s.d) : 0.0f};
  rule.place(shared + shared_of_backward<R>());
  const BackwardRoom<R> room(states, shared, own, s.rows, s.sequences, s.launch.heads, s.head_dim);
  carry_back<R>(rule, own, room, partial, s.rows, s.launch);
}

#define SELECTIVE_SCAN_BACKWARD(name, R)                                                                      \
  KERNEL_BOUNDED(name, 128, 1)                                                                                \
  (Tensor dout, Tensor x, const float* dt, const float* a, Tensor b, Tensor c, Tensor d, const int* bounds,   \
   Tensor dx, float* partial, float* states, ScanBackwardSizes s) {                                           \
    DYNAMIC_SHARED(float, shared);                                                                            \
    carry_scan_back<R>(dout, x, dt, a, b, c, d, bounds, dx, partial, states, shared, s);                      \
  }
SELECTIVE_SCAN_BACKWARD(selective_scan_back_32, 8)
SELECTIVE_SCAN_BACKWARD(selective_scan_back_128, 32)
SELECTIVE_SCAN_BACKWARD(selective_scan_back_256, 64)

// A warp has a row's group, of those of the launch.
KERNEL_BOUNDED(selective_scan_sums, 128, 8)
(const float* partial, const int* bounds, const float* a, float* ddt, Tensor db, Tensor dc, ScanBackwardSizes s) {
  const long unit = static_cast<long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const long heads = s.heads / s.groups, groups = s.launch.heads / heads;
  if (unit >= s.rows * groups) return;
  const long row = unit / groups, first = unit % groups * heads, group = s.launch.first_head / heads + unit % groups;
  const PartialSums sums = {partial, s.rows, s.launch.heads, s.chunks, 2 * static_cast<long>(s.state_size) + 3,
                            sequence_of(row, bounds, s.sequences).number >= 0};
  for (long i = lane; i < s.state_size; i += 32) {
    put(db, row * s.db[0] + group * s.db[1] + i * s.db[2], sums(row, first, heads, i));
    put(dc, row * s.dc[0] + group * s.dc[1] + i * s.dc[2], sums(row, first, heads, s.state_size + i));
  }
  for (long h = lane; h < heads; h += 32) {
    const long head = s.launch.first_head + first + h;
    const float of_values = sums(row, first + h, 1, 2 * s.state_size);
    const float of_decay = sums(row, first + h, 1, 2 * s.state_size + 1);
    ddt[row * s.ddt[0] + head * s.ddt[1]] = of_values + a[head * s.a] * of_decay;
  }
}

// da and dd of a head, a block each: sums over the rows of sequences.
KERNEL(selective_scan_heads)
(const float* partial, const int* bounds, const float* dt, Tensor da, Tensor dd, ScanBackwardSizes s) {
  SHARED float room[32];
  const long own = blockIdx.x, head = s.launch.first_head + own;
  const PartialSums sums = {partial, s.rows, s.launch.heads, s.chunks, 2 * static_cast<long>(s.state_size) + 3, true};
  const long bound = s.sequences > 0 ? bounds[s.sequences] : 0, rows = bound < s.rows ? bound : s.rows;
  float rates = 0.0f, skips = 0.0f;
  for (long row = threadIdx.x; row < rows; row += blockDim.x) {
    rates += dt[row * s.dt[0] + head * s.dt[1]] * sums(row, own, 1, 2 * s.state_size + 1);
    skips += sums(row, own, 1, 2 * s.state_size + 2);
  }
  rates = block_sum(rates, room);
  skips = block_sum(skips, room);
  if (threadIdx.x != 0) return;
  if (da.here()) put_or_add(da, head * s.da, rates);
  if (dd.here()) put_or_add(dd, head * s.dd, skips);
}
