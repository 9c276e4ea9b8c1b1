// Mixtures of experts: the choice of each row, and the way to the experts and back. Matrices have strides `_row` and
// `_col` (`_sub`: of the choices of a row), in elements. Integers are contiguous.
#include "backends/cuda/cu/vectors.cuh"

// ---------------------------------------------------------------- the choice, a warp for each row
// As struct Route of moe.cpp.
struct Route {
  long logits_row, logits_col, bias_col;
  long weights_row, weights_col;
  long dlogits_row, dlogits_col;
  int rows, experts, top_k;
  int sigmoid, normalise;
  int groups, top_groups, group_top;
  float scale;
};

DEVICE float minus_infinity() { return -__int_as_float(0x7f800000); }
DEVICE int lane_id() { return static_cast<int>(threadIdx.x) % 32; }

// The scores of a row, which `score` keeps.
DEVICE void fill_scores(const Tensor& logits, const Route& p, long row, float* score) {
  float most = minus_infinity();
  for (int e = lane_id(); e < p.experts; e += 32) {
    const float x = get(logits, row * p.logits_row + e * p.logits_col);
    score[e] = p.sigmoid != 0 ? 1.0f / (1.0f + expf(-x)) : x;
    most = fmaxf(most, x);
  }
  if (p.sigmoid == 0) {
    most = warp_max(most);
    float sum = 0.0f;
    for (int e = lane_id(); e < p.experts; e += 32) {
      const float x = expf(score[e] - most);
      score[e] = x;
      sum += x;
    }
    sum = warp_sum(sum);
    for (int e = lane_id(); e < p.experts; e += 32) score[e] /= sum;
  }
  __syncwarp();
}

// The next of [begin, end) after `last` in falling order, equal ones by rising number; -1 as `last` gives the first.
// What is NaN has no place.
DEVICE int next_best(const float* value, int begin, int end, int last) {
  int best = -1;
  float most = 0.0f;
  const float before = last < 0 ? 0.0f : value[last];
  for (int e = begin + lane_id(); e < end; e += 32) {
    const float x = value[e];
    const bool follows = !isnan(x) && (last < 0 || x < before || (x == before && e > last));
    if (follows && (best < 0 || x > most)) {
      best = e;
      most = x;
    }
  }
  UNROLL for (int step = 16; step > 0; step /= 2) {
    const int other = __shfl_xor_sync(0xffffffffu, best, step);
    const float value_of_other = __shfl_xor_sync(0xffffffffu, most, step);
    if (other >= 0 && (best < 0 || value_of_other > most || (value_of_other == most && other < best))) {
      best = other;
      most = value_of_other;
    }
  }
  return best;
}

// Takes the experts of all groups but the best out of `choice`.
DEVICE void keep_groups(const Route& p, float* choice, float* group) {
  const int size = p.experts / p.groups;
  for (int g = 0; g < p.groups; ++g) {
    float sum = 0.0f;
    int last = -1;
    for (int i = 0; i < p.group_top; ++i) {
      last = next_best(choice, g * size, (g + 1) * size, last);
      sum += last < 0 ? minus_infinity() : choice[last];
    }
    if (lane_id() == 0) group[g] = isnan(sum) ? minus_infinity() : sum;
  }
  __syncwarp();
  int last = -1;
  for (int i = 0; i < p.top_groups; ++i) last = next_best(group, 0, p.groups, last);
  const float least = group[last < 0 ? 0 : last];
  for (int e = lane_id(); e < p.experts; e += 32) {
    const int g = e / size;
    const bool stays = group[g] > least || (group[g] == least && g <= last);
    if (!stays) choice[e] = __int_as_float(0x7fc00000);
  }
  __syncwarp();
}

KERNEL(moe_route)(Tensor logits, Tensor bias, Tensor weights, Tensor chosen, Route p) {
  begin_overlapped();
  DYNAMIC_SHARED(float, kept);  // of each warp [2 experts + groups]
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const long row = static_cast<long>(blockIdx.x) * warps + warp;
  if (row >= p.rows) return;
  float* score = kept + warp * (2 * p.experts + p.groups);
  float* choice = score + p.experts;
  fill_scores(logits, p, row, score);
  for (int e = lane_id(); e < p.experts; e += 32) {
    const float c = score[e] + (bias.here() ? bias.as<float>()[e * p.bias_col] : 0.0f);
    choice[e] = isnan(c) ? minus_infinity() : c;
  }
  __syncwarp();
  if (p.groups > 1) keep_groups(p, choice, choice + p.experts);
  float sum = 0.0f;
  int last = -1;
  for (int i = 0; i < p.top_k; ++i) {
    last = next_best(choice, 0, p.experts, last);
    last = last < 0 ? 0 : last;
    sum += score[last];
    if (lane_id() == 0) chosen.as<int>()[row * p.top_k + i] = last;
  }
  __syncwarp();
  const float factor = p.normalise != 0 ? p.scale / sum : p.scale;
  for (int i = lane_id(); i < p.top_k; i += 32) {
    const int e = chosen.as<int>()[row * p.top_k + i];
    weights.as<float>()[row * p.weights_row + i * p.weights_col] = factor * score[e];
  }
}

KERNEL(moe_route_backward)(Tensor dweights, Tensor logits, Tensor chosen, Tensor dlogits, Route p) {
  DYNAMIC_SHARED(float, kept);  // of each warp [experts]
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const long row = static_cast<long>(blockIdx.x) * warps + warp;
  if (row >= p.rows) return;
  float* score = kept + warp * p.experts;
  fill_scores(logits, p, row, score);
  const auto expert = [&](int i) {
    const int e = chosen.as<int>()[row * p.top_k + i];
    return e < 0 ? 0 : (e < p.experts ? e : p.experts - 1);
  };
  const auto upstream = [&](int i) { return p.scale * dweights.as<float>()[row * p.weights_row + i * p.weights_col]; };
  float sum = p.normalise != 0 ? 0.0f : 1.0f, mean = 0.0f, dot_all = 0.0f;
  if (p.normalise != 0) {
    for (int i = 0; i < p.top_k; ++i) sum += score[expert(i)];
    for (int i = 0; i < p.top_k; ++i) mean += upstream(i) * score[expert(i)] / sum;
  } else if (p.sigmoid == 0) {
    // Normalised over a softmax, what the others would get cancels.
    for (int i = 0; i < p.top_k; ++i) dot_all += upstream(i) * score[expert(i)];
  }
  for (int e = lane_id(); e < p.experts; e += 32) {
    const float s = score[e];
    float slope = 0.0f;  // with respect to the score
    for (int i = 0; i < p.top_k; ++i) {
      if (expert(i) == e) slope += (upstream(i) - mean) / sum;
    }
    put(dlogits, row * p.dlogits_row + e * p.dlogits_col,
        p.sigmoid != 0 ? s * (1.0f - s) * slope : s * (slope - dot_all));
  }
}

// ---------------------------------------------------------------- in order of experts
// As struct Permute of moe.cpp.
struct Permute {
  long x_row, x_col, y_row, y_sub, y_col;
  int rows, top_k, experts, width;
  int length, parts;  // choices are counted in parts of so many, a warp for each
};

// Goes through a part's choices in order. `own` [experts], shared, counts those of each expert that came before; `step`
// is told each choice and its place among its expert's.
template <typename Step>
DEVICE void count_part(const int* chosen, const Permute& p, int* own, Step&& step) {
  const int lane = lane_id();
  const int begin = static_cast<int>(blockIdx.x) * p.length;
  const int end = begin + p.length < p.rows * p.top_k ? begin + p.length : p.rows * p.top_k;
  for (int first = begin; first < end; first += 32) {
    const int i = first + lane;
    int e = i < end ? chosen[i] : -1;
    if (i < end) e = e < 0 ? 0 : (e < p.experts ? e : p.experts - 1);
    int before = 0, all = 0;  // lanes with the same expert
    for (int other = 0; other < 32; ++other) {
      const bool same = __shfl_sync(0xffffffffu, e, other) == e;
      all += same ? 1 : 0;
      before += same && other < lane ? 1 : 0;
    }
    const int counted = e >= 0 ? own[e] : 0;
    __syncwarp();
    if (e >= 0) {
      step(i, counted + before);
      if (before == all - 1) own[e] = counted + all;
    }
    __syncwarp();
  }
}

// How many choices of each part go to each expert: `counts` [experts, parts].
KERNEL(moe_count)(Tensor chosen, int* counts, Permute p) {
  begin_overlapped();
  DYNAMIC_SHARED(int, own);
  for (int e = lane_id(); e < p.experts; e += 32) own[e] = 0;
  __syncwarp();
  count_part(chosen.as<const int>(), p, own, [](int, int) {});
  for (int e = lane_id(); e < p.experts; e += 32) counts[static_cast<long>(e) * p.parts + blockIdx.x] = own[e];
}

DEVICE int sum_of_lanes_before(int value, int* all) {
  int sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane_id() >= step) sum += other;
  }
  *all = __shfl_sync(0xffffffffu, sum, 31);
  return sum - value;
}

// One block. Counts become how many of the expert's come before the part; `totals` [experts].
KERNEL(moe_offsets)(int* counts, int* totals, Tensor offsets, Permute p) {
  begin_overlapped();
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = lane_id();
  for (int e = warp; e < p.experts; e += warps) {
    int before = 0, all = 0;
    for (int first = 0; first < p.parts; first += 32) {
      const bool here = first + lane < p.parts;
      int* const count = counts + static_cast<long>(e) * p.parts + first + lane;
      const int others = sum_of_lanes_before(here ? *count : 0, &all);
      if (here) *count = before + others;
      before += all;
    }
    if (lane == 0) totals[e] = before;
  }
  __syncthreads();
  if (warp != 0) return;
  int before = 0, all = 0;
  for (int first = 0; first < p.experts; first += 32) {
    const bool here = first + lane < p.experts;
    const int others = sum_of_lanes_before(here ? totals[first + lane] : 0, &all);
    if (here) offsets.as<int>()[first + lane] = before + others;
    before += all;
  }
  if (lane == 0) offsets.as<int>()[p.experts] = before;
}

KERNEL(moe_places)(Tensor chosen, const int* counts, Tensor offsets, Tensor places, Permute p) {
  begin_overlapped();
  DYNAMIC_SHARED(int, own);
  for (int e = lane_id(); e < p.experts; e += 32) {
    own[e] = offsets.as<int>()[e] + counts[static_cast<long>(e) * p.parts + blockIdx.x];
  }
  __syncwarp();
  count_part(chosen.as<const int>(), p, own, [&](int i, int place) { places.as<int>()[i] = place; });
}

DEVICE long row_at(int place, long row, long sub, int top_k) { return place / top_k * row + place % top_k * sub; }

// Copies a row to its places, bit by bit: blocks are [rows, parts of the columns].
template <typename T>
DEVICE void move_row(const Tensor& x, const Tensor& places, const Tensor& y, const Permute& p) {
  begin_overlapped();
  const int column = blockIdx.y * blockDim.x + threadIdx.x;
  const long row = blockIdx.x;
  if (column >= p.width) return;
  const T value = x.as<const T>()[row * p.x_row + column * p.x_col];
  for (int i = 0; i < p.top_k; ++i) {
    const int place = places.as<int>()[row * p.top_k + i];
    y.as<T>()[row_at(place, p.y_row, p.y_sub, p.top_k) + column * p.y_col] = value;
  }
}
// Elements of 16 bytes are several numbers: widths and strides are told in them.
KERNEL(moe_move_16)(Tensor x, Tensor places, Tensor y, Permute p) { move_row<Quad>(x, places, y, p); }
KERNEL(moe_move_4)(Tensor x, Tensor places, Tensor y, Permute p) { move_row<uint>(x, places, y, p); }
KERNEL(moe_move_2)(Tensor x, Tensor places, Tensor y, Permute p) { move_row<ushort>(x, places, y, p); }

// ---------------------------------------------------------------- back together
// As struct Combine of moe.cpp. `many`: what lies in order of experts, [rows, top_k, width]; `one`: [rows, width].
struct Combine {
  long many_row, many_sub, many_col, one_row, one_col;
  long x_row, x_sub, x_col;
  long weights_row, weights_col, dweights_row, dweights_col;
  int rows, top_k, width;
};

DEVICE int place_of(const Tensor& places, const Combine& p, long i) {
  const int place = places.as<int>()[i], most = p.rows * p.top_k - 1;
  return place < 0 ? 0 : (place < most ? place : most);
}
DEVICE float weight_of(const Tensor& weights, const Combine& p, long row, int i) {
  return weights.here() ? weights.as<float>()[row * p.weights_row + i * p.weights_col] : 1.0f;
}

// Blocks of both are [rows, parts of the columns], eight columns for each thread.
KERNEL(moe_combine)(Tensor x, Tensor places, Tensor weights, Tensor y, Combine p) {
  begin_overlapped();
  const long row = blockIdx.x;
  const int column = (blockIdx.y * blockDim.x + threadIdx.x) * W;
  if (column >= p.width) return;
  const int count = p.width - column;
  Floats sum = floats_of(0.0f);
  for (int i = 0; i < p.top_k; ++i) {
    const long at = row_at(place_of(places, p, row * p.top_k + i), p.many_row, p.many_sub, p.top_k);
    const float weight = weight_of(weights, p, row, i);
    const Floats value = fetch(x, at + column * p.many_col, p.many_col, count);
    UNROLL for (int l = 0; l < W; ++l) sum[l] = fmaf(weight, value[l], sum[l]);
  }
  const long at = row * p.one_row + column * p.one_col;
  if (y.adds != 0) sum = fetch(y, at, p.one_col, count) + sum;
  spread(y, at, p.one_col, count, sum);
}

KERNEL(moe_spread)(Tensor dy, Tensor places, Tensor weights, Tensor dx, Combine p) {
  const long row = blockIdx.x;
  const int column = (blockIdx.y * blockDim.x + threadIdx.x) * W;
  if (column >= p.width) return;
  const Floats value = fetch(dy, row * p.one_row + column * p.one_col, p.one_col, p.width - column);
  for (int i = 0; i < p.top_k; ++i) {
    const long at = row_at(place_of(places, p, row * p.top_k + i), p.many_row, p.many_sub, p.top_k);
    const float weight = weight_of(weights, p, row, i);
    spread(dx, at + column * p.many_col, p.many_col, p.width - column, value * weight);
  }
}

// A warp for each choice.
KERNEL(moe_weight_gradient)(Tensor dy, Tensor x, Tensor places, Tensor dweights, Combine p) {
  const long i = static_cast<long>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (i >= static_cast<long>(p.rows) * p.top_k) return;
  const long row = i / p.top_k, at = row_at(place_of(places, p, i), p.x_row, p.x_sub, p.top_k);
  float sum = 0.0f;
  for (int c = lane_id() * W; c < p.width; c += 32 * W) {
    const Floats a = fetch(dy, row * p.one_row + c * p.one_col, p.one_col, p.width - c);
    const Floats b = fetch(x, at + c * p.x_col, p.x_col, p.width - c);
    UNROLL for (int l = 0; l < W; ++l) sum = fmaf(a[l], b[l], sum);
  }
  sum = warp_sum(sum);
  if (lane_id() == 0) dweights.as<float>()[row * p.dweights_row + i % p.top_k * p.dweights_col] = sum;
}
