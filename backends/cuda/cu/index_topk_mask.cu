// index_topk_mask and index_topk_mask_paged. A block takes one query row: scores into its part of the workspace, then
// the topk-th largest by the bits of its score, highest first, then the mask.
#include "backends/cuda/cu/tensor_cores.cuh"
#include "backends/cuda/cu/vectors.cuh"

// As struct Sizes of index_topk_mask.cpp.
struct Sizes {
  long rows, heads, dim, sequences, topk, mask_keys;
  long q[3], weights[2], k[3], mask[2], block_size, max_blocks;
};

struct Arguments {
  Tensor q, weights, k, table, bounds_q, bounds_k, mask;
  uint* scores;
};

DEVICE float minus_infinity() { return -__int_as_float(0x7f800000); }

// A score's place in the order of scores, as a number; NaN is -infinity.
DEVICE uint order_of(float score) {
  const uint bits = __float_as_uint(isnan(score) ? minus_infinity() : score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The row at hand, and the keys of its sequence.
struct Row {
  long row;
  long sequence;   // -1: outside of every sequence
  long first_key;  // of keys that lie end to end
  long sees;       // how many keys
};

DEVICE Row row_of(const Arguments& args, const Sizes& s, long row) {
  Row out = {row, -1, 0, 0};
  const int* bounds = args.bounds_q.as<const int>();
  if (s.sequences <= 0 || row >= bounds[s.sequences]) return out;
  long low = 0, high = s.sequences;  // the first whose begin lies behind the row is in (low, high]
  while (high - low > 1) {
    const long middle = (low + high) / 2;
    if (bounds[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  out.sequence = low;
  const int* bounds_k = args.bounds_k.as<const int>();
  long keys = bounds_k[low];
  if (!args.table.here()) {
    out.first_key = keys;
    keys = bounds_k[low + 1] - keys;
  }
  const long most = keys < s.mask_keys ? keys : s.mask_keys;
  const long sees = row - bounds[low] + keys - (bounds[low + 1] - bounds[low]) + 1;
  out.sees = sees < 0 ? 0 : (sees < most ? sees : most);
  return out;
}

// Where a key begins, in elements.
DEVICE long key_at(const Arguments& args, const Sizes& s, const Row& own, long key) {
  if (!args.table.here()) return (own.first_key + key) * s.k[0];
  const long block = args.table.as<const int>()[own.sequence * s.max_blocks + key / s.block_size];
  return block * s.k[0] + key % s.block_size * s.k[1];
}

// ---------------------------------------------------------------- scores
// A thread for each key, whatever dtypes and strides are.
DEVICE void plain_scores(const Arguments& args, const Sizes& s, const Row& own, uint* orders) {
  for (long j = threadIdx.x; j < own.sees; j += blockDim.x) {
    const long at = key_at(args, s, own, j);
    float score = 0.0f;
    for (long head = 0; head < s.heads; ++head) {
      const long q_at = own.row * s.q[0] + head * s.q[1];
      float product = 0.0f;
      for (long d = 0; d < s.dim; d += W) {
        const Floats a = fetch(args.k, at + d * s.k[2], s.k[2], s.dim - d);
        const Floats b = fetch(args.q, q_at + d * s.q[2], s.q[2], s.dim - d);
        UNROLL for (int i = 0; i < W; ++i) product = fmaf(a[i], b[i], product);
      }
      const float weight = get(args.weights, own.row * s.weights[0] + head * s.weights[1]);
      score = fmaf(weight, product > 0.0f ? product : 0.0f, score);
    }
    orders[j] = order_of(score);
  }
}

// Matrix units: a warp multiplies 16 heads at a time with 32 keys, which it keeps in registers. q and k are of one
// dtype of 16 bits, their inner strides are 1, the other ones even; dim is a multiple of 16, at most 128.
enum { STEPS = 8, TILES = 4, TILE_KEYS = 8 };

// The row's q in shared memory [heads up to 16, dim + 8], so that ldmatrix has no conflicts, its weights behind it.
struct SharedQuery {
  ushort* q;
  float* weights;
  long heads;  // up to a multiple of 16, zeros beyond
  long stride;
};

DEVICE SharedQuery share_query(const Arguments& args, const Sizes& s, const Row& own, ushort* memory) {
  SharedQuery out;
  out.heads = (s.heads + 15) / 16 * 16;
  out.stride = s.dim + 8;
  out.q = memory;
  out.weights = reinterpret_cast<float*>(memory + out.heads * out.stride);
  const uint* q = args.q.as<const uint>();
  for (long i = threadIdx.x; i < out.heads * s.dim / 2; i += blockDim.x) {
    const long head = i / (s.dim / 2), pair = i % (s.dim / 2);
    const uint two = head < s.heads ? q[(own.row * s.q[0] + head * s.q[1]) / 2 + pair] : 0;
    *reinterpret_cast<uint*>(out.q + head * out.stride + 2 * pair) = two;
  }
  for (long head = threadIdx.x; head < out.heads; head += blockDim.x) {
    out.weights[head] = head < s.heads ? get(args.weights, own.row * s.weights[0] + head * s.weights[1]) : 0.0f;
  }
  __syncthreads();
  return out;
}

template <int dtype>
DEVICE void matrix_scores(const Arguments& args, const Sizes& s, const Row& own, const SharedQuery& query,
                          uint* orders) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int steps = static_cast<int>(s.dim / 16);
  const uint* k = args.k.as<const uint>();
  for (long first = warp * TILES * TILE_KEYS; first < own.sees; first += warps * TILES * TILE_KEYS) {
    uint keys[TILES][STEPS][2] = {};
    UNROLL for (int tile = 0; tile < TILES; ++tile) {
      const long key = first + tile * TILE_KEYS + lane / 4;
      const long at = key < own.sees ? key_at(args, s, own, key) / 2 + lane % 4 : -1;
      UNROLL for (int step = 0; step < STEPS; ++step) {
        if (at >= 0 && step < steps) {
          keys[tile][step][0] = k[at + step * 8];
          keys[tile][step][1] = k[at + step * 8 + 4];
        }
      }
    }
    float scores[TILES][2] = {};
    for (long head = 0; head < query.heads; head += 16) {
      float products[TILES][4] = {};
      UNROLL for (int step = 0; step < STEPS; ++step) {
        if (step >= steps) continue;
        uint heads[4];
        ldmatrix_x4(heads, query.q + (head + lane % 16) * query.stride + step * 16 + lane / 16 * 8);
        UNROLL for (int tile = 0; tile < TILES; ++tile) {
          if (dtype == BF16) {
            mma_bf16(products[tile], heads, keys[tile][step]);
          } else {
            mma_f16(products[tile], heads, keys[tile][step]);
          }
        }
      }
      const float low = query.weights[head + lane / 4], high = query.weights[head + lane / 4 + 8];
      UNROLL for (int tile = 0; tile < TILES; ++tile) {
        UNROLL for (int i = 0; i < 2; ++i) {
          const float above = products[tile][i], below = products[tile][i + 2];
          scores[tile][i] = fmaf(low, above > 0.0f ? above : 0.0f, scores[tile][i]);
          scores[tile][i] = fmaf(high, below > 0.0f ? below : 0.0f, scores[tile][i]);
        }
      }
    }
    UNROLL for (int tile = 0; tile < TILES; ++tile) {
      UNROLL for (int i = 0; i < 2; ++i) {
        float score = scores[tile][i];
        UNROLL for (int step = 4; step < 32; step *= 2) score += __shfl_xor_sync(0xffffffffu, score, step);
        const long key = first + tile * TILE_KEYS + lane * 2 + i;
        if (lane < 4 && key < own.sees) orders[key] = order_of(score);
      }
    }
  }
}

// ---------------------------------------------------------------- the choice
// How many of the row's keys a condition holds for.
template <typename Condition>
DEVICE float count_keys(const Row& own, const uint* orders, float* scratch, Condition&& condition) {
  float count = 0.0f;
  for (long j = threadIdx.x; j < own.sees; j += blockDim.x) count += condition(orders[j], j) ? 1.0f : 0.0f;
  return block_sum(count, scratch);
}

DEVICE void choose(const Arguments& args, const Sizes& s, const Row& own, const uint* orders, float* scratch) {
  const bool all = own.sees <= s.topk;
  const float wanted = static_cast<float>(s.topk);
  uint least = 0;  // the topk-th largest
  long last = own.sees;  // the last key that is shown of those that are equal to it
  if (!all) {
    for (int bit = 31; bit >= 0; --bit) {
      const uint tried = least | 1u << bit;
      const float count = count_keys(own, orders, scratch, [&](uint order, long) { return order >= tried; });
      if (count >= wanted) least = tried;
    }
    const float larger = count_keys(own, orders, scratch, [&](uint order, long) { return order > least; });
    const float equal = count_keys(own, orders, scratch, [&](uint order, long) { return order == least; });
    long low = larger + equal > wanted ? 0 : last;
    while (low < last) {
      const long middle = (low + last) / 2;
      const float until =
          count_keys(own, orders, scratch, [&](uint order, long j) { return order == least && j <= middle; });
      if (larger + until >= wanted) {
        last = middle;
      } else {
        low = middle + 1;
      }
    }
  }
  uchar* mask = args.mask.at + own.row * s.mask[0];
  for (long j = threadIdx.x; j < s.mask_keys; j += blockDim.x) {
    const bool shown = j < own.sees && (all || orders[j] > least || (orders[j] == least && j <= last));
    mask[j * s.mask[1]] = shown ? 1 : 0;
  }
}

// `dtype` of q and k: F32: any.
template <int dtype>
DEVICE void index_rows(const Arguments& args, const Sizes& s, ushort* memory) {
  SHARED float scratch[32];
  uint* orders = args.scores + blockIdx.x * s.mask_keys;
  for (long row = blockIdx.x; row < s.rows; row += gridDim.x) {
    const Row own = row_of(args, s, row);
    if (own.sees > s.topk) {
      if (dtype == F32) {
        plain_scores(args, s, own, orders);
      } else {
        const SharedQuery query = share_query(args, s, own, memory);
        matrix_scores<dtype>(args, s, own, query, orders);
      }
      __syncthreads();
    }
    choose(args, s, own, orders, scratch);
    __syncthreads();
  }
}

KERNEL_BOUNDED(index_topk_mask_plain, 256, 2)(Arguments args, Sizes s) { index_rows<F32>(args, s, nullptr); }
KERNEL_BOUNDED(index_topk_mask_bf16, 256, 2)(Arguments args, Sizes s) {
  DYNAMIC_SHARED(ushort, memory);
  index_rows<BF16>(args, s, memory);
}
KERNEL_BOUNDED(index_topk_mask_f16, 256, 2)(Arguments args, Sizes s) {
  DYNAMIC_SHARED(ushort, memory);
  index_rows<F16>(args, s, memory);
}
