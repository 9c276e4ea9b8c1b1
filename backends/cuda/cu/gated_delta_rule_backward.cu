// gated_delta_rule_backward: the gradients of q, k, decay and beta are sums over columns, which
// cu/recurrent_backward.cuh leaves in `partial`, with two numbers: ddecay and dbeta.
#include "backends/cuda/cu/recurrent_backward.cuh"

struct DeltaRuleBackwardSizes {
  long rows, k_heads, heads, sequences;
  int key_dim, value_dim;
  long q[3], k[3], v[3], decay[2], beta[2], dout[3];
  long dq[3], dk[3], dv[3], ddecay[2], dbeta[2];
  BackwardLaunch launch;
  long chunks;
  float scale;
};

template <int R>
struct DeltaBack {
  const Tensor &dout, &q, &k, &v, &dv;
  const float *decay, *beta;
  const DeltaRuleBackwardSizes& s;
  const long head, k_head, first_column;
  // k and q [TILE, 4 R]; v, dout and u = v - S^T k [TILE, columns of the block]; exp(decay) and beta [TILE]
  float *keys, *queries, *values, *upstream, *errors, *kept, *rate;

  DEVICE_MEMBER void place(float* room) {
    keys = room;
    queries = keys + TILE * 4 * R;
    values = queries + TILE * 4 * R;
    upstream = values + TILE * columns_of_block();
    errors = upstream + TILE * columns_of_block();
    kept = errors + TILE * columns_of_block();
    rate = kept + TILE;
  }
  DEVICE_MEMBER void stage_tile(long first, int count) {
    stage(keys, count, s.key_dim, 4 * R, [&](int t, int i) {
      return get(k, (first + t) * s.k[0] + k_head * s.k[1] + i * s.k[2]);
    });
    stage(queries, count, s.key_dim, 4 * R, [&](int t, int i) {
      return get(q, (first + t) * s.q[0] + k_head * s.q[1] + i * s.q[2]);
    });
    const int width = static_cast<int>(s.value_dim - first_column);
    stage(values, count, width, columns_of_block(), [&](int t, int i) {
      return get(v, (first + t) * s.v[0] + head * s.v[1] + (first_column + i) * s.v[2]);
    });
    stage(upstream, count, width, columns_of_block(), [&](int t, int i) {
      return get(dout, (first + t) * s.dout[0] + head * s.dout[1] + (first_column + i) * s.dout[2]);
    });
    stage(kept, count, 1, 1, [&](int t, int) { return expf(decay[(first + t) * s.decay[0] + head * s.decay[1]]); });
    stage(rate, count, 1, 1, [&](int t, int) { return beta[(first + t) * s.beta[0] + head * s.beta[1]]; });
  }
  DEVICE_MEMBER int own(int t) const { return t * columns_of_block() + own_column(); }
  DEVICE_MEMBER void advance(float (&state)[R], int t) {
    float key[R];
    take_rows(key, keys + t * 4 * R);
    UNROLL for (int i = 0; i < R; ++i) state[i] *= kept[t];
    const float u = values[own(t)] - over_rows(dot(state, key));
    if (row_lane() == 0) errors[own(t)] = u;
    UNROLL for (int i = 0; i < R; ++i) state[i] += key[i] * (rate[t] * u);
  }
  DEVICE_MEMBER void advance_again(float (&state)[R], int t) const {
    float key[R];
    take_rows(key, keys + t * 4 * R);
    const float delta = rate[t] * errors[own(t)];
    UNROLL for (int i = 0; i < R; ++i) state[i] = state[i] * kept[t] + key[i] * delta;
  }
  DEVICE_MEMBER void back(float (&state)[R], float (&gradient)[R], int t, long row, float* sums) const {
    const float u = errors[own(t)], delta = rate[t] * u, up = upstream[own(t)];
    float key[R];
    take_rows(key, keys + t * 4 * R);
    {
      float query[R];
      take_rows(query, queries + t * 4 * R);
      UNROLL for (int i = 0; i < R; ++i) {
        state[i] *= kept[t];
        gradient[i] += s.scale * query[i] * up;
      }
    }
    const float pulled = over_rows(dot(gradient, key)), e = rate[t] * pulled;
    const long column = first_column + own_column();
    if (row_lane() == 0 && column < s.value_dim) put(dv, row * s.dv[0] + head * s.dv[1] + column * s.dv[2], e);
    rows_over_columns<R>(sums, [&](int i) { return s.scale * (state[i] + key[i] * delta) * up; });
    rows_over_columns<R>(sums + 4 * R, [&](int i) { return gradient[i] * delta - state[i] * e; });
    UNROLL for (int i = 0; i < R; ++i) gradient[i] -= key[i] * e;
    const float of_decay = warp_sum(dot(gradient, state)), of_beta = over_columns(u * pulled);
    UNROLL for (int i = 0; i < R; ++i) gradient[i] *= kept[t];
    if (threadIdx.x % 32 != 0) return;
    sums[8 * R] = of_decay;
    sums[8 * R + 1] = of_beta;
  }
};

template <int R>
DEVICE void carry_delta_back(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const float* decay,
                             const float* beta, const int* bounds, const Tensor& dv, float* partial, float* states,
                             float* shared, const DeltaRuleBackwardSizes& s) {
  const Carried own = carried_of(bounds, s.rows, s.sequences, s.launch.heads, s.value_dim);
  const long head = s.launch.first_head + own.head;
  if (!own.inside) return clear_rows(own, dv, s.dv, head, s.value_dim);
  if (own.begin == own.end) return;
  DeltaBack<R> rule = {dout, q, k, v, dv, decay, beta, s, head, head / (s.heads / s.k_heads), own.column};
  rule.place(shared + shared_of_backward<R>());
  const BackwardRoom<R> room(states, shared, own, s.rows, s.sequences, s.launch.heads, s.value_dim);
  carry_back<R>(rule, own, room, partial, s.rows, s.launch);
}

#define GATED_DELTA_RULE_BACKWARD(name, R)                                                                     \
  KERNEL_BOUNDED(name, 128, 1)                                                                                 \
  (Tensor dout, Tensor q, Tensor k, Tensor v, const float* decay, const float* beta, const int* bounds,        \
   Tensor dv, float* partial, float* states, DeltaRuleBackwardSizes s) {                                       \
    DYNAMIC_SHARED(float, shared);                                                                             \
    carry_delta_back<R>(dout, q, k, v, decay, beta, bounds, dv, partial, states, shared, s);                   \
  }
GATED_DELTA_RULE_BACKWARD(gated_delta_rule_back_32, 8)
GATED_DELTA_RULE_BACKWARD(gated_delta_rule_back_128, 32)
GATED_DELTA_RULE_BACKWARD(gated_delta_rule_back_256, 64)

// A warp has a row's head of keys, of those of the launch.
KERNEL_BOUNDED(gated_delta_rule_sums, 128, 8)
(const float* partial, const int* bounds, Tensor dq, Tensor dk, float* ddecay, float* dbeta, DeltaRuleBackwardSizes s) {
  const long unit = static_cast<long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const long group = s.heads / s.k_heads, k_heads = s.launch.heads / group;
  if (unit >= s.rows * k_heads) return;
  const long row = unit / k_heads, first = unit % k_heads * group;
  const long k_head = (s.launch.first_head + first) / group;
  const PartialSums sums = {partial, s.rows, s.launch.heads, s.chunks, 2 * static_cast<long>(s.key_dim) + 2,
                            sequence_of(row, bounds, s.sequences).number >= 0};
  for (long i = lane; i < s.key_dim; i += 32) {
    put(dq, row * s.dq[0] + k_head * s.dq[1] + i * s.dq[2], sums(row, first, group, i));
    put(dk, row * s.dk[0] + k_head * s.dk[1] + i * s.dk[2], sums(row, first, group, s.key_dim + i));
  }
  for (long h = lane; h < group; h += 32) {
    const long head = s.launch.first_head + first + h;
    ddecay[row * s.ddecay[0] + head * s.ddecay[1]] = sums(row, first + h, 1, 2 * s.key_dim);
    dbeta[row * s.dbeta[0] + head * s.dbeta[1]] = sums(row, first + h, 1, 2 * s.key_dim + 1);
  }
}
