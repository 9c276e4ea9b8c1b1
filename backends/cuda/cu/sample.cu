// The next token of each row: a block of threads for each. Nothing is sorted: filters that rank tokens look for the
// border of what they keep by halving, over the whole row until few tokens are in doubt, then over a list of those in
// shared memory. How a row's sums are split depends on the size of the vocabulary alone.
#include "backends/cuda/cu/common.cuh"

// As struct Shape of sample.cpp.
struct Shape {
  long vocab;
  long row_floats;  // of the workspace: vocab up to a multiple of 4
  long logits[2];
  long per_row[8];  // strides: temperature, top_k, top_p, min_p, repetition, presence, frequency, uniform
  long history[2];
  long block_size;
  long blocks;
  long table[2];
  long max_blocks;
  long history_len;
  long output_begin;
  long bias_ids[2];
  long bias[2];
  long biases;
  long mask[2];
  long ids;
  long logprob;
  long top_ids[2];
  long top_logprobs[2];
  long tops;
};

// As struct Arguments of sample.cpp.
struct Arguments {
  const float* logits;
  const float* temperature;
  const int* top_k;
  const float* top_p;
  const float* min_p;
  const float* repetition;
  const float* presence;
  const float* frequency;
  const int* history;
  const int* history_len;
  const int* output_begin;
  const int* bias_ids;
  const float* bias;
  const uint* mask;
  const float* uniform;
  int* ids;
  float* logprob;
  int* top_ids;
  float* top_logprobs;
  const int* history_table;
  float* workspace;
};

enum { LISTED = 4096 };
CONSTANT float lightest = -104.0f;  // exp of less is 0

// What a row's threads share.
struct Team {
  const Shape& shape;
  long row;
  float* scaled;   // [row_floats], -infinity beyond the vocabulary
  float* scratch;  // shared, [32]
  ulong* best;     // shared, [32]
  ulong* list;     // shared, [LISTED]
};

DEVICE float minus_infinity() { return -__int_as_float(0x7f800000); }

// ---------------------------------------------------------------- ranks: numbers in the order of tokens
// Floats as they rise, then ids as they fall, which have 24 bits. Zeros are alike.
DEVICE uint key_of(float value) {
  const uint bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
DEVICE float value_of(uint key) { return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }
DEVICE ulong rank_of(float value, long id) {
  return static_cast<ulong>(key_of(value)) << 24 | static_cast<ulong>(0xffffff - id);
}
DEVICE float value_of_rank(ulong rank) { return value_of(static_cast<uint>(rank >> 24)); }
DEVICE long id_of_rank(ulong rank) { return 0xffffff - static_cast<long>(rank & 0xffffff); }

DEVICE ulong block_best(ulong rank, ulong* scratch) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  UNROLL for (int step = 16; step > 0; step /= 2) {
    const ulong other = __shfl_xor_sync(0xffffffffu, rank, step);
    rank = other > rank ? other : rank;
  }
  __syncthreads();
  if (lane == 0) scratch[warp] = rank;
  __syncthreads();
  rank = lane < warps ? scratch[lane] : 0;
  UNROLL for (int step = 16; step > 0; step /= 2) {
    const ulong other = __shfl_xor_sync(0xffffffffu, rank, step);
    rank = other > rank ? other : rank;
  }
  return rank;
}

// Calls step(value, id) for this thread's part of the row; beyond the vocabulary the values are -infinity.
template <typename Step>
DEVICE void each_scaled(const Team& team, Step&& step) {
  for (long i = threadIdx.x * 4; i < team.shape.vocab; i += blockDim.x * 4) {
    const float4 four = *reinterpret_cast<const float4*>(team.scaled + i);
    step(four.x, i);
    step(four.y, i + 1);
    step(four.z, i + 2);
    step(four.w, i + 3);
  }
}

// ---------------------------------------------------------------- filters
// Tokens count by their weights exp(value), or each as one.
struct Goal {
  float sum;
  bool weighs;
  DEVICE_MEMBER float part(float value) const { return weighs ? expf(value) : 1.0f; }
};

// Of the tokens that rank above a border: what they count, and how many they are.
struct Above {
  float sum, number;
};
DEVICE Above above_in_row(const Team& team, const Goal& goal, ulong border) {
  float sum = 0.0f, number = 0.0f;
  each_scaled(team, [&](float value, long id) {
    if (rank_of(value, id) > border) {
      sum += goal.part(value);
      number += 1.0f;
    }
  });
  return {block_sum(sum, team.scratch), block_sum(number, team.scratch)};
}

// The least border between two above which the listed tokens and `above` more count less than the goal.
DEVICE ulong border_in_list(const Team& team, int listed, const Goal& goal, float above, ulong low, ulong high) {
  while (low < high) {
    const ulong middle = low + (high - low) / 2;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < listed; i += blockDim.x) {
      if (team.list[i] > middle) sum += goal.part(value_of_rank(team.list[i]));
    }
    if (above + block_sum(sum, team.scratch) < goal.sum) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Lists the tokens of ranks from `low` to `high`, LISTED at most, always in the same order. Gives how many.
DEVICE int list_ranks(const Team& team, ulong low, ulong high) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  int own = 0;
  each_scaled(team, [&](float value, long id) {
    const ulong rank = rank_of(value, id);
    own += rank >= low && rank <= high ? 1 : 0;
  });
  int at = own;  // becomes how many threads before list
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, at, step);
    if (lane >= step) at += other;
  }
  __syncthreads();
  if (lane == 31) team.best[warp] = static_cast<ulong>(at);
  __syncthreads();
  at -= own;
  int all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) at += all;
    all += static_cast<int>(team.best[w]);
  }
  if (own > 0) {
    each_scaled(team, [&](float value, long id) {
      const ulong rank = rank_of(value, id);
      if (rank >= low && rank <= high && at < LISTED) team.list[at++] = rank;
    });
  }
  __syncthreads();
  return all < LISTED ? all : LISTED;
}

// The least border above which tokens count less than the goal: what ranks there or higher is kept, the first token,
// of rank `first`, always. The border is `least` or higher.
DEVICE ulong border_of(const Team& team, const Goal& goal, ulong least, ulong first) {
  constexpr int by_values = 12;  // rounds that halve values rather than ranks, which crowd near 0
  ulong low = least, high = first;
  const Above all = above_in_row(team, goal, low - 1);
  if (all.sum < goal.sum || low >= high) return low < high ? low : high;
  float from_low = all.number;
  Above over = {0.0f, 0.0f};  // above `high`
  for (int round = 0; from_low - over.number > LISTED && low < high; ++round) {
    ulong middle = low + (high - low) / 2;
    if (round < by_values) {
      middle = rank_of(0.5f * (value_of_rank(low) + value_of_rank(high)), 0);
      middle = middle < low ? low : (middle < high ? middle : high - 1);
    }
    const Above tried = above_in_row(team, goal, middle);
    if (tried.sum < goal.sum) {
      high = middle;
      over = tried;
    } else {
      low = middle + 1;
      from_low = tried.number;
    }
  }
  if (low >= high) return low;
  const int listed = list_ranks(team, low, high);
  return border_in_list(team, listed, goal, over.sum, low, high);
}

// Of the best tokens of all threads the k-th: at least k tokens rank there or higher. 0 where there are fewer threads.
DEVICE ulong kth_of_threads(const Team& team, ulong own, int k) {
  if (k > static_cast<int>(blockDim.x)) return 0;
  __syncthreads();
  team.list[threadIdx.x] = own;
  __syncthreads();
  const Goal goal = {static_cast<float>(k), false};
  return border_in_list(team, blockDim.x, goal, 0.0f, 0, block_best(own, team.best));
}

DEVICE void drop_below(const Team& team, ulong border) {
  for (long i = threadIdx.x; i < team.shape.vocab; i += blockDim.x) {
    if (rank_of(team.scaled[i], i) < border) team.scaled[i] = minus_infinity();
  }
  __syncthreads();
}

// ---------------------------------------------------------------- the draw
// The first token, by ids, whose sum of weights with those before exceeds the share of all of them: the row is cut
// among the warps, then the warp's part that has it, and so on.
DEVICE long draw(const Team& team, float share) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  long begin = 0, end = team.shape.vocab;
  float before = 0.0f, point = -1.0f;
  do {
    const long length = (end - begin + warps - 1) / warps;
    const long first = begin + warp * length;
    const long last = first + length < end ? first + length : end;
    float sum = 0.0f;
    for (long i = first + lane; i < last; i += 32) sum += expf(team.scaled[i]);
    sum = warp_sum(sum);
    __syncthreads();
    if (lane == 0) team.scratch[warp] = sum;
    __syncthreads();
    if (point < 0.0f) {
      float mass = 0.0f;
      for (int w = 0; w < warps; ++w) mass += team.scratch[w];
      point = share * mass;
    }
    int chosen = 0;
    float reached = before;
    for (int w = 0; w < warps; ++w) {  // the last part with any weight, where rounding leaves the point beyond it
      const float part = team.scratch[w];
      if (!(part > 0.0f)) continue;
      chosen = w;
      before = reached;
      reached += part;
      if (reached > point) break;
    }
    begin += chosen * length;
    end = begin + length < end ? begin + length : end;
  } while (end - begin > 32);
  long token = -1;
  for (long i = begin; i < end; ++i) {
    const float weight = expf(team.scaled[i]);
    if (!(weight > 0.0f)) continue;
    token = i;
    before += weight;
    if (before > point) break;
  }
  return token;
}

// ---------------------------------------------------------------- logits and what changes them
// How often each token of the row's history was generated, times 2, and 1 more where it is there at all.
DEVICE void count_history(const Team& team, const Arguments& args, int* counts) {
  const Shape& shape = team.shape;
  const int length = args.history_len[team.row * shape.history_len];
  const int begin = args.output_begin[team.row * shape.output_begin];
  for (long i = threadIdx.x; i < shape.vocab; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const long room = shape.max_blocks * shape.block_size;
  const long most = length < room ? length : room;
  for (long i = threadIdx.x; i < most; i += blockDim.x) {
    const long block = args.history_table[team.row * shape.table[0] + i / shape.block_size * shape.table[1]];
    if (block < 0 || block >= shape.blocks) continue;
    const int token = args.history[block * shape.history[0] + i % shape.block_size * shape.history[1]];
    if (token < 0 || token >= shape.vocab) continue;
    atomicOr(&counts[token], 1);
    if (i >= begin) atomicAdd(&counts[token], 2);
  }
  __syncthreads();
}

// Copies the logits, changed by what the row's history costs.
DEVICE void penalise(const Team& team, const Arguments& args, const float* raw, const int* counts) {
  const Shape& shape = team.shape;
  float r = 1.0f, p = 0.0f, f = 0.0f;
  if (counts != nullptr) {
    r = args.repetition[team.row * shape.per_row[4]];
    p = args.presence[team.row * shape.per_row[5]];
    f = args.frequency[team.row * shape.per_row[6]];
  }
  for (long i = threadIdx.x; i < shape.vocab; i += blockDim.x) {
    float z = raw[i * shape.logits[1]];
    const int count = counts != nullptr ? counts[i] : 0;
    if (count != 0) {
      z = z > 0.0f ? z / r : z * r;
      z -= f * static_cast<float>(count >> 1) + (count > 1 ? p : 0.0f);
    }
    team.scaled[i] = z;
  }
  for (long i = shape.vocab + threadIdx.x; i < shape.row_floats; i += blockDim.x) team.scaled[i] = minus_infinity();
  __syncthreads();
}

// Adds the biases: the first thread that has a token adds all of its.
DEVICE void add_biases(const Team& team, const Arguments& args) {
  const Shape& shape = team.shape;
  const int* ids = args.bias_ids + team.row * shape.bias_ids[0];
  const float* bias = args.bias + team.row * shape.bias[0];
  for (long b = threadIdx.x; b < shape.biases; b += blockDim.x) {
    const int token = ids[b * shape.bias_ids[1]];
    bool first = token >= 0 && token < shape.vocab;
    for (long other = 0; first && other < b; ++other) first = ids[other * shape.bias_ids[1]] != token;
    if (!first) continue;
    float z = team.scaled[token];
    for (long other = b; other < shape.biases; ++other) {
      if (ids[other * shape.bias_ids[1]] == token) z += bias[other * shape.bias[1]];
    }
    team.scaled[token] = z;
  }
  __syncthreads();
}

// Takes out what the mask forbids. Gives the rank of the largest that is left.
DEVICE ulong mask_and_best(const Team& team, const Arguments& args) {
  const Shape& shape = team.shape;
  ulong best = 0;
  for (long i = threadIdx.x; i < shape.vocab; i += blockDim.x) {
    float z = team.scaled[i];
    if (args.mask != nullptr) {
      const uint word = args.mask[team.row * shape.mask[0] + i / 32 * shape.mask[1]];
      if ((word >> (i % 32) & 1u) == 0) team.scaled[i] = z = minus_infinity();
    }
    const ulong rank = rank_of(z, i);
    best = rank > best ? rank : best;
  }
  return block_best(best, team.best);
}

// The log of the sum of the logits' exponentials, and the largest of them.
struct Normaliser {
  float largest, log_sum;
};
DEVICE Normaliser normaliser_of(const Team& team, const float* raw) {
  float largest = minus_infinity(), sum = 0.0f;
  for (long i = threadIdx.x; i < team.shape.vocab; i += blockDim.x) {
    const float z = raw[i * team.shape.logits[1]];
    if (z > largest) {
      sum *= expf(largest - z);
      largest = z;
    }
    if (z > minus_infinity()) sum += expf(z - largest);
  }
  const float of_all = block_max(largest, team.scratch);
  sum = block_sum(largest > minus_infinity() ? sum * expf(largest - of_all) : 0.0f, team.scratch);
  return {of_all, logf(sum)};
}

// The most likely tokens of the untouched logits: each is the best behind the last.
DEVICE void tell_tops(const Team& team, const Arguments& args, const float* raw, const Normaliser& all) {
  const Shape& shape = team.shape;
  ulong last = ~0ul;
  for (long t = 0; t < shape.tops; ++t) {
    ulong best = 0;
    for (long i = threadIdx.x; i < shape.vocab; i += blockDim.x) {
      const ulong rank = rank_of(raw[i * shape.logits[1]], i);
      if (rank < last && rank > best) best = rank;
    }
    last = block_best(best, team.best);
    if (threadIdx.x == 0) {
      const float value = value_of_rank(last);
      args.top_ids[team.row * shape.top_ids[0] + t * shape.top_ids[1]] = static_cast<int>(id_of_rank(last));
      args.top_logprobs[team.row * shape.top_logprobs[0] + t * shape.top_logprobs[1]] =
          value == minus_infinity() ? value : value - all.largest - all.log_sum;
    }
  }
}

// The token that is drawn at a temperature above 0.
DEVICE long filter_and_draw(const Team& team, const Arguments& args, float best, float temperature) {
  const Shape& shape = team.shape;
  const float least = fminf(1.0f, args.min_p[team.row * shape.per_row[3]]);  // of a weight: the largest is 1
  ulong own = 0;
  for (long i = threadIdx.x; i < shape.vocab; i += blockDim.x) {
    float value = (team.scaled[i] - best) / temperature;
    if (!(value >= lightest) || (least > 0.0f && expf(value) < least)) value = minus_infinity();
    team.scaled[i] = value;
    const ulong rank = rank_of(value, i);
    own = rank > own ? rank : own;
  }
  const ulong first = block_best(own, team.best);
  const ulong lowest = rank_of(lightest, 0xffffff);
  const int k = args.top_k[team.row * shape.per_row[1]];
  if (k > 0 && k < shape.vocab) {
    const ulong at_least = kth_of_threads(team, own, k);
    const Goal goal = {static_cast<float>(k), false};
    drop_below(team, border_of(team, goal, at_least > lowest ? at_least : lowest, first));
  }
  const float share = args.top_p[team.row * shape.per_row[2]];
  if (share < 1.0f) {
    Goal goal = {0.0f, true};
    goal.sum = share * above_in_row(team, goal, lowest - 1).sum;
    drop_below(team, border_of(team, goal, lowest, first));
  }
  return draw(team, args.uniform[team.row * shape.per_row[7]]);
}

KERNEL_BOUNDED(sample, 1024, 1)(Arguments args, Shape shape) {
  begin_overlapped();
  SHARED float scratch[32];
  SHARED ulong best_of_warps[32];
  SHARED ulong list[LISTED];
  const long row = blockIdx.x;
  const float* const raw = args.logits + row * shape.logits[0];
  // With a history, counts of its tokens lie behind the row's logits.
  float* const scaled = args.workspace + row * shape.row_floats * (args.history != nullptr ? 2 : 1);
  const Team team = {shape, row, scaled, scratch, best_of_warps, list};
  const Normaliser all = normaliser_of(team, raw);
  if (args.top_ids != nullptr) tell_tops(team, args, raw, all);
  int* counts = nullptr;
  if (args.history != nullptr) {
    counts = reinterpret_cast<int*>(scaled + shape.row_floats);
    count_history(team, args, counts);
  }
  penalise(team, args, raw, counts);
  if (args.bias != nullptr) add_biases(team, args);
  const ulong best = mask_and_best(team, args);
  const float temperature = args.temperature[row * shape.per_row[0]];
  long id = id_of_rank(best);
  if (value_of_rank(best) == minus_infinity()) {  // nothing is allowed
    id = -1;
  } else if (temperature > 0.0f) {
    id = filter_and_draw(team, args, value_of_rank(best), temperature);
  }
  if (threadIdx.x != 0) return;
  args.ids[row * shape.ids] = static_cast<int>(id);
  args.logprob[row * shape.logprob] =
      id < 0 ? minus_infinity() : raw[id * shape.logits[1]] - all.largest - all.log_sum;
}
