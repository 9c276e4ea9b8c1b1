// gated_delta_rule, as cu/recurrent.cuh carries states.
#include "backends/cuda/cu/recurrent.cuh"

struct DeltaRuleSizes {
  long rows, k_heads, heads, sequences;
  int key_dim, value_dim;
  long q[3], k[3], v[3], decay[2], beta[2], state[4], out[3];
  float scale;
};

// A tile of rows: k and q [TILE, 4 R], v [TILE, columns of the block], exp(decay) and beta [TILE].
template <int R>
struct DeltaTile {
  float *k, *q, *v, *kept, *rate;
  DEVICE_MEMBER explicit DeltaTile(float* room)
      : k(room),
        q(k + TILE * 4 * R),
        v(q + TILE * 4 * R),
        kept(v + TILE * columns_of_block()),
        rate(kept + TILE) {}
};

template <int R>
DEVICE void carry_delta(const Tensor& q, const Tensor& k, const Tensor& v, const float* decay, const float* beta,
                        const int* bounds, const int* kv_lens, const int* seats, float* state, const Tensor& out,
                        float* room, const DeltaRuleSizes& s) {
  const Carried own = carried_of(bounds, s.rows, s.sequences, s.heads, s.value_dim);
  if (!own.inside) return clear_rows(own, out, s.out, own.head, s.value_dim);
  if (own.begin == own.end) return;
  const DeltaTile<R> tile(room);
  const long column = own.column + own_column(), k_head = own.head / (s.heads / s.k_heads);
  const bool present = column < s.value_dim;
  const bool goes_on = state != nullptr && present && kv_lens[own.sequence] > own.end - own.begin;
  const long seat = state != nullptr ? seats[own.sequence] : 0;
  float* const own_state = state + seat * s.state[0] + own.head * s.state[1] + column * s.state[3];
  float S[R];
  load_state(S, own_state, s.state, s.key_dim, goes_on);
  for (long first = own.begin; first < own.end; first += TILE) {
    const int count = own.end - first < TILE ? static_cast<int>(own.end - first) : TILE;
    __syncthreads();  // the tile of before has been read
    stage(tile.k, count, s.key_dim, 4 * R, [&](int t, int i) {
      return get(k, (first + t) * s.k[0] + k_head * s.k[1] + i * s.k[2]);
    });
    stage(tile.q, count, s.key_dim, 4 * R, [&](int t, int i) {
      return get(q, (first + t) * s.q[0] + k_head * s.q[1] + i * s.q[2]);
    });
    const int width = static_cast<int>(s.value_dim - own.column);
    stage(tile.v, count, width, columns_of_block(), [&](int t, int i) {
      return get(v, (first + t) * s.v[0] + own.head * s.v[1] + (own.column + i) * s.v[2]);
    });
    stage(tile.kept, count, 1, 1, [&](int t, int) {
      return expf(decay[(first + t) * s.decay[0] + own.head * s.decay[1]]);
    });
    stage(tile.rate, count, 1, 1, [&](int t, int) { return beta[(first + t) * s.beta[0] + own.head * s.beta[1]]; });
    __syncthreads();
    for (int t = 0; t < count; ++t) {
      float key[R], query[R];
      take_rows(key, tile.k + t * 4 * R);
      UNROLL for (int i = 0; i < R; ++i) S[i] *= tile.kept[t];
      const float predicted = over_rows(dot(S, key));
      const float delta = tile.rate[t] * (tile.v[t * columns_of_block() + own_column()] - predicted);
      UNROLL for (int i = 0; i < R; ++i) S[i] += key[i] * delta;
      take_rows(query, tile.q + t * 4 * R);
      const float sum = over_rows(dot(S, query));
      const long to = (first + t) * s.out[0] + own.head * s.out[1] + column * s.out[2];
      if (row_lane() == 0 && present) put(out, to, sum * s.scale);
    }
  }
  if (state != nullptr && present) store_state(S, own_state, s.state, s.key_dim);
}

#define GATED_DELTA_RULE(name, R)                                                                          \
  KERNEL_BOUNDED(name, 128, 2)                                                                             \
  (Tensor q, Tensor k, Tensor v, const float* decay, const float* beta, const int* bounds,                 \
   const int* kv_lens, const int* seats, float* state, Tensor out, DeltaRuleSizes s) {                     \
    DYNAMIC_SHARED(float, room);                                                                           \
    carry_delta<R>(q, k, v, decay, beta, bounds, kv_lens, seats, state, out, room, s);                     \
  }
GATED_DELTA_RULE(gated_delta_rule_32, 8)
GATED_DELTA_RULE(gated_delta_rule_128, 32)
GATED_DELTA_RULE(gated_delta_rule_256, 64)
