// The next token of each row: a group for each. Nothing is sorted. Filters that rank tokens keep those whose key, which is
// ordered as their logits are, lies above a border, and of those at the border the ones with low ids; the border is found
// bit by bit, a pass over the row for each.
#if GROUP == 1
#define MEET
#else
#define MEET barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#endif
#define SEGMENTS 256  // of a row, whose sums are taken apart: so long sums stay exact

typedef struct {
  long vocab;
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
} Shape;

// The largest of an expression over i in this work-item's share of a row.
#define MAX_OVER(result, i, count, ...)                                                     \
  float result;                                                                             \
  {                                                                                         \
    float lane[LANES];                                                                      \
    for (int l = 0; l < LANES; ++l) lane[l] = -INFINITY;                                    \
    long max_at = get_local_id(0);                                                          \
    for (; max_at + (LANES - 1) * GROUP < (count); max_at += LANES * GROUP) {               \
      for (int l = 0; l < LANES; ++l) {                                                     \
        const long i = max_at + l * GROUP;                                                  \
        const float max_term = (__VA_ARGS__);                                               \
        lane[l] = max_term > lane[l] ? max_term : lane[l];                                  \
      }                                                                                     \
    }                                                                                       \
    for (; max_at < (count); max_at += GROUP) {                                             \
      const long i = max_at;                                                                \
      const float max_term = (__VA_ARGS__);                                                 \
      lane[0] = max_term > lane[0] ? max_term : lane[0];                                    \
    }                                                                                       \
    for (int l = 1; l < LANES; ++l) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];        \
    result = lane[0];                                                                       \
  }

// What a row's work-items share.
typedef struct {
  long vocab;
  local float* scratch;   // [GROUP]
  local float* segments;  // [SEGMENTS]
} Team;

static inline long segment_begin(const Team* team, long segment) { return team->vocab * segment / SEGMENTS; }

// The sum of an expression over i in a whole row, segment by segment; the segments' sums stay.
#define SUM_ROW(result, team, i, ...)                                                         \
  float result;                                                                               \
  {                                                                                           \
    for (int s = get_local_id(0); s < SEGMENTS; s += GROUP) {                                 \
      SUM_OVER(part, i, segment_begin(team, s), segment_begin(team, s + 1), 1, __VA_ARGS__)   \
      (team)->segments[s] = part;                                                             \
    }                                                                                         \
    MEET                                                                                      \
    SUM_OVER(all, s, 0, SEGMENTS, 1, (team)->segments[s])                                     \
    MEET                                                                                      \
    result = all;                                                                             \
  }

// Numbers in the order of floats.
static inline uint key_of(float value) {
  const uint bits = as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Tokens above the border, and those at it with ids up to `last`.
typedef struct {
  uint key;
  long last;
} Border;

static inline int is_kept(const Border border, float value, long id) {
  const uint key = key_of(value);
  return key > border.key || (key == border.key && id <= border.last);
}

// The id up to which `wanted` tokens have this key.
static long last_of_ties(const Team* team, const global float* scaled, uint key, float wanted) {
  long low = 0;
  long high = team->vocab - 1;
  while (low < high) {
    const long middle = (low + high) / 2;
    SUM_ROW(count, team, i, i <= middle && key_of(scaled[i]) == key ? 1.0f : 0.0f)
    if (count >= wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The first k tokens of the ranking.
static Border first_k(const Team* team, const global float* scaled, float k) {
  uint key = 0;  // the largest that at least k tokens reach
  for (uint bit = 0x80000000u; bit != 0; bit >>= 1) {
    const uint higher = key | bit;
    SUM_ROW(count, team, i, key_of(scaled[i]) >= higher ? 1.0f : 0.0f)
    if (count >= k) key = higher;
  }
  SUM_ROW(above, team, i, key_of(scaled[i]) > key ? 1.0f : 0.0f)
  SUM_ROW(ties, team, i, key_of(scaled[i]) == key ? 1.0f : 0.0f)
  const Border border = {key, ties == k - above ? team->vocab : last_of_ties(team, scaled, key, k - above)};
  return border;
}

// Tokens before which less than `goal` of the weights lies.
static Border first_share(const Team* team, const global float* scaled, const global float* weights, float goal) {
  uint key = 0;  // the smallest above which there is less than the goal
  for (uint bit = 0x80000000u; bit != 0; bit >>= 1) {
    const uint lower = key | (bit - 1u);
    SUM_ROW(above, team, i, key_of(scaled[i]) > lower ? weights[i] : 0.0f)
    if (above >= goal) key |= bit;
  }
  SUM_ROW(above, team, i, key_of(scaled[i]) > key ? weights[i] : 0.0f)
  SUM_ROW(at, team, i, key_of(scaled[i]) == key && weights[i] > 0.0f ? 1.0f : 0.0f)
  MAX_OVER(own, i, team->vocab, key_of(scaled[i]) == key ? weights[i] : 0.0f)
  const float weight = group_max(own, team->scratch);
  const float wanted = weight > 0.0f ? ceil((goal - above) / weight) : at;
  const Border border = {key, wanted >= at ? team->vocab : last_of_ties(team, scaled, key, fmax(1.0f, wanted))};
  return border;
}

// The first token, by ids, whose sum of weights with those before exceeds the share of all of them.
static long draw(const Team* team, const global float* weights, float share) {
  SUM_ROW(mass, team, i, weights[i])
  const float point = share * mass;
  float before = 0.0f;
  long segment = 0;
  for (; segment < SEGMENTS && !(before + team->segments[segment] > point); ++segment) {
    before += team->segments[segment];
  }
  const long end = segment < SEGMENTS ? segment_begin(team, segment + 1) : team->vocab;
  long token = -1;
  for (long i = segment < SEGMENTS ? segment_begin(team, segment) : 0; i < end; ++i) {
    if (!(weights[i] > 0.0f)) continue;
    token = i;
    before += weights[i];
    if (segment < SEGMENTS && before > point) break;
  }
  MEET
  return token;
}

// How often each token of the row's history was generated, times 2, and 1 more where it stands there at all.
static void count_history(const global uchar* history, const global uchar* table, const Shape* shape, long row,
                          int length, int begin, global int* counts) {
  for (long i = get_local_id(0); i < shape->vocab; i += GROUP) counts[i] = 0;
  MEET
  const long most = min((long)length, shape->max_blocks * shape->block_size);
  for (long i = get_local_id(0); i < most; i += GROUP) {
    const long block = ((const global int*)table)[row * shape->table[0] + i / shape->block_size * shape->table[1]];
    if (block < 0 || block >= shape->blocks) continue;
    const long at = block * shape->history[0] + i % shape->block_size * shape->history[1];
    const int token = ((const global int*)history)[at];
    if (token < 0 || token >= shape->vocab) continue;
    atomic_or(&counts[token], 1);
    if (i >= begin) atomic_add(&counts[token], 2);
  }
  MEET
}

// The most likely tokens of the untouched logits: each is the largest behind the last.
static void tell_tops(const Team* team, const global float* raw, const Shape* shape, global int* ids,
                      global float* logprobs, float largest, float log_sum) {
  float value = INFINITY;
  long id = -1;
  for (long t = 0; t < shape->tops; ++t) {
    const float last_value = value;
    const long last_id = id;
#define IS_BEHIND(i) (raw[(i) * shape->logits[1]] < last_value || (raw[(i) * shape->logits[1]] == last_value && (i) > last_id))
    MAX_OVER(best, i, team->vocab, IS_BEHIND(i) ? raw[i * shape->logits[1]] : -INFINITY)
    value = group_max(best, team->scratch);
    MAX_OVER(first, i, team->vocab, IS_BEHIND(i) && raw[i * shape->logits[1]] == value ? -(float)i : -INFINITY)
    id = (long)-group_max(first, team->scratch);
    if (get_local_id(0) == 0) {
      ids[t * shape->top_ids[1]] = (int)id;
      logprobs[t * shape->top_logprobs[1]] = value == -INFINITY ? -INFINITY : value - largest - log_sum;
    }
  }
}

#define ROW_VALUE(type, name, place) AS(type, name)[row * shape.per_row[place]]

kernel void sample(INPUT(logits), INPUT(temperature), INPUT(top_k), INPUT(top_p), INPUT(min_p), INPUT(repetition),
                   INPUT(presence), INPUT(frequency), INPUT(history), INPUT(history_len), INPUT(output_begin),
                   INPUT(bias_ids), INPUT(bias), INPUT(mask), INPUT(uniform), OUTPUT(ids), OUTPUT(logprob),
                   OUTPUT(top_ids), OUTPUT(top_logprobs), INPUT(history_table), OUTPUT(workspace), const Shape shape) {
  local float scratch[GROUP];
  local float segments[SEGMENTS];
  const Team team = {shape.vocab, scratch, segments};
  const long row = get_group_id(0);
  const global float* const raw = AS(float, logits) + row * shape.logits[0];
  global float* const scaled = AS_OUT(float, workspace) + row * 2 * shape.vocab;
  global float* const weights = scaled + shape.vocab;
  global int* const counts = (global int*)weights;  // before there are weights
  const long step = shape.logits[1];

  MAX_OVER(own_largest, i, shape.vocab, raw[i * step])
  const float largest = group_max(own_largest, scratch);
  SUM_ROW(sum, &team, i, exp(raw[i * step] - largest))
  const float log_sum = log(sum);
  if (HAS_top_ids) {
    tell_tops(&team, raw, &shape, AS_OUT(int, top_ids) + row * shape.top_ids[0],
              AS_OUT(float, top_logprobs) + row * shape.top_logprobs[0], largest, log_sum);
  }

  if (HAS_history) {
    const float r = ROW_VALUE(float, repetition, 4);
    const float p = ROW_VALUE(float, presence, 5);
    const float f = ROW_VALUE(float, frequency, 6);
    count_history(AT(history), AT(history_table), &shape, row, AS(int, history_len)[row * shape.history_len],
                  AS(int, output_begin)[row * shape.output_begin], counts);
    for (long i = get_local_id(0); i < shape.vocab; i += GROUP) {
      float z = raw[i * step];
      const int count = counts[i];
      if (count != 0) {
        z = z > 0.0f ? z / r : z * r;
        z -= f * (float)(count >> 1) + (count > 1 ? p : 0.0f);
      }
      scaled[i] = z;
    }
  } else {
    for (long i = get_local_id(0); i < shape.vocab; i += GROUP) scaled[i] = raw[i * step];
  }
  MEET
  if (HAS_bias && get_local_id(0) == 0) {  // what stands twice is added twice
    for (long b = 0; b < shape.biases; ++b) {
      const int token = AS(int, bias_ids)[row * shape.bias_ids[0] + b * shape.bias_ids[1]];
      if (token < 0 || token >= shape.vocab) continue;
      scaled[token] += AS(float, bias)[row * shape.bias[0] + b * shape.bias[1]];
    }
  }
  MEET
  if (HAS_mask) {
    for (long i = get_local_id(0); i < shape.vocab; i += GROUP) {
      const uint word = AS(uint, mask)[row * shape.mask[0] + i / 32 * shape.mask[1]];
      if ((word >> (i % 32) & 1u) == 0) scaled[i] = -INFINITY;
    }
    MEET
  }

  MAX_OVER(own_best, i, shape.vocab, scaled[i])
  const float best = group_max(own_best, scratch);
  const float heat = ROW_VALUE(float, temperature, 0);
  long id = -1;
  if (best == -INFINITY) {  // nothing is allowed
  } else if (heat <= 0.0f) {
    MAX_OVER(first, i, shape.vocab, scaled[i] == best ? -(float)i : -INFINITY)
    id = (long)-group_max(first, scratch);
  } else {
    const float least = fmin(1.0f, ROW_VALUE(float, min_p, 3));  // of a weight: the largest is 1
    for (long i = get_local_id(0); i < shape.vocab; i += GROUP) {
      const float value = (scaled[i] - best) / heat;
      const float weight = exp(value);
      scaled[i] = value;
      weights[i] = weight >= least ? weight : 0.0f;
    }
    MEET
    const int k = ROW_VALUE(int, top_k, 1);
    if (k > 0 && k < shape.vocab) {
      const Border border = first_k(&team, scaled, (float)k);
      for (long i = get_local_id(0); i < shape.vocab; i += GROUP) {
        if (!is_kept(border, scaled[i], i)) weights[i] = 0.0f;
      }
      MEET
    }
    const float share = ROW_VALUE(float, top_p, 2);
    if (share < 1.0f) {
      SUM_ROW(left, &team, i, weights[i])
      const Border border = first_share(&team, scaled, weights, share * left);
      MAX_OVER(own_first, i, shape.vocab, scaled[i] == 0.0f ? -(float)i : -INFINITY)
      const long first = (long)-group_max(own_first, scratch);  // the likeliest is always kept
      for (long i = get_local_id(0); i < shape.vocab; i += GROUP) {
        if (i != first && !is_kept(border, scaled[i], i)) weights[i] = 0.0f;
      }
      MEET
    }
    id = draw(&team, weights, ROW_VALUE(float, uniform, 7));
  }
  if (get_local_id(0) != 0) return;
  AS_OUT(int, ids)[row * shape.ids] = (int)id;
  AS_OUT(float, logprob)[row * shape.logprob] = id < 0 ? -INFINITY : raw[id * step] - largest - log_sum;
}
