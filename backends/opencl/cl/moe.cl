// Mixtures of experts: the choice of each row, and the way to the experts and back. Matrices have strides `_row` and
// `_col` (`_sub`: of the choices of a row), in elements. -D GROUP: work-items of a sum; V: numbers of a vector.
#include "backends/opencl/cl/product_sides.clh"

// ---------------------------------------------------------------- the choice
// As struct Route of moe.cpp.
typedef struct {
  long logits_row, logits_col, bias_col;
  long weights_row, weights_col, chosen_row, chosen_col;
  long dlogits_row, dlogits_col;
  long step, row_step;  // of what a row keeps in the workspace: from expert to expert, and from row to row
  int rows, experts, top_k;
  int logits_type, dlogits_type;
  int sigmoid, normalise, has_bias;
  int groups, top_groups, group_top;
  float scale;
} Route;

#define KEPT(array, e) array[(e) * p.step]

// The scores of a row, which `score` keeps.
static inline void fill_scores(const global uchar* logits, const Route* route, long row, global float* score) {
  const Route p = *route;
  float most = -INFINITY, sum = 0.0f;
  for (int e = 0; e < p.experts; ++e) {
    const float x = load_float(p.logits_type, logits, row * p.logits_row + e * p.logits_col);
    KEPT(score, e) = p.sigmoid ? 1.0f / (1.0f + exp(-x)) : x;
    most = fmax(most, x);
  }
  if (p.sigmoid) return;
  for (int e = 0; e < p.experts; ++e) {
    const float x = exp(KEPT(score, e) - most);
    KEPT(score, e) = x;
    sum += x;
  }
  for (int e = 0; e < p.experts; ++e) KEPT(score, e) /= sum;
}

// The next of [begin, end) after `last` in falling order, equal ones by rising number; -1 as `last` gives the first. What is
// NaN has no place.
static inline int next_best(const global float* value, long step, int begin, int end, int last) {
  int best = -1;
  float most = 0.0f;
  const float before = last < 0 ? 0.0f : value[last * step];
  for (int e = begin; e < end; ++e) {
    const float x = value[e * step];
    const bool follows = !isnan(x) && (last < 0 || x < before || (x == before && e > last));
    if (follows && (best < 0 || x > most)) {
      best = e;
      most = x;
    }
  }
  return best;
}

// Takes the experts of all groups but the best out of `choice`.
static inline void keep_groups(const Route* route, global float* choice, global float* group) {
  const Route p = *route;
  const int size = p.experts / p.groups;
  int last = -1;
  for (int g = 0; g < p.groups; ++g) {
    float sum = 0.0f;
    last = -1;
    for (int i = 0; i < p.group_top; ++i) {
      last = next_best(choice, p.step, g * size, (g + 1) * size, last);
      sum += last < 0 ? -INFINITY : KEPT(choice, last);
    }
    KEPT(group, g) = isnan(sum) ? -INFINITY : sum;
  }
  last = -1;
  for (int i = 0; i < p.top_groups; ++i) last = next_best(group, p.step, 0, p.groups, last);
  const float least = KEPT(group, max(last, 0));
  for (int g = 0; g < p.groups; ++g) {
    const float x = KEPT(group, g);
    if (x > least || (x == least && g <= last)) continue;
    for (int e = g * size; e < (g + 1) * size; ++e) KEPT(choice, e) = NAN;
  }
}

kernel void moe_route(INPUT(logits), INPUT(bias), OUTPUT(weights), OUTPUT(chosen), OUTPUT(kept), const Route p) {
  const long row = get_global_id(0);
  if (row >= p.rows) return;
  global float* score = AS_OUT(float, kept) + row * p.row_step;
  global float* choice = score + (long)p.rows * p.experts;
  global float* group = choice + (long)p.rows * p.experts;
  fill_scores(AT(logits), &p, row, score);
  for (int e = 0; e < p.experts; ++e) {
    const float c = KEPT(score, e) + (p.has_bias ? AS(float, bias)[e * p.bias_col] : 0.0f);
    KEPT(choice, e) = isnan(c) ? -INFINITY : c;
  }
  if (p.groups > 1) keep_groups(&p, choice, group);
  float sum = 0.0f;
  int last = -1;
  for (int i = 0; i < p.top_k; ++i) {
    last = max(next_best(choice, p.step, 0, p.experts, last), 0);
    AS_OUT(int, chosen)[row * p.chosen_row + i * p.chosen_col] = last;
    sum += KEPT(score, last);
  }
  const float factor = p.normalise ? p.scale / sum : p.scale;
  for (int i = 0; i < p.top_k; ++i) {
    const int e = AS(int, chosen)[row * p.chosen_row + i * p.chosen_col];
    AS_OUT(float, weights)[row * p.weights_row + i * p.weights_col] = factor * KEPT(score, e);
  }
}

kernel void moe_route_backward(INPUT(dweights), INPUT(logits), INPUT(chosen), OUTPUT(dlogits), OUTPUT(kept),
                               const Route p) {
  const long row = get_global_id(0);
  if (row >= p.rows) return;
  global float* score = AS_OUT(float, kept) + row * p.row_step;
  global float* slope = score + (long)p.rows * p.experts;  // with respect to the scores
  fill_scores(AT(logits), &p, row, score);
  for (int e = 0; e < p.experts; ++e) KEPT(slope, e) = 0.0f;
#define CHOSEN(i) clamp(AS(int, chosen)[row * p.chosen_row + (i) * p.chosen_col], 0, p.experts - 1)
#define UPSTREAM(i) (p.scale * AS(float, dweights)[row * p.weights_row + (i) * p.weights_col])
  float sum = p.normalise ? 0.0f : 1.0f, mean = 0.0f, dot_all = 0.0f;
  if (p.normalise) {
    for (int i = 0; i < p.top_k; ++i) sum += KEPT(score, CHOSEN(i));
    for (int i = 0; i < p.top_k; ++i) mean += UPSTREAM(i) * KEPT(score, CHOSEN(i)) / sum;
  }
  for (int i = 0; i < p.top_k; ++i) {
    const int e = CHOSEN(i);
    KEPT(slope, e) += (UPSTREAM(i) - mean) / sum;
    // Normalised over a softmax, what the others would get cancels.
    if (!p.sigmoid && !p.normalise) dot_all += UPSTREAM(i) * KEPT(score, e);
  }
  for (int e = 0; e < p.experts; ++e) {
    const float s = KEPT(score, e);
    const float value = p.sigmoid ? s * (1.0f - s) * KEPT(slope, e) : s * (KEPT(slope, e) - dot_all);
    store_float(p.dlogits_type, AT(dlogits), row * p.dlogits_row + e * p.dlogits_col, value);
  }
}

// ---------------------------------------------------------------- in order of experts
// As struct Permute of moe.cpp.
typedef struct {
  long x_row, x_col, y_row, y_sub, y_col;
  int rows, top_k, experts, width;
  int length, parts;  // choices are counted in parts of so many
} Permute;

// How many choices of each part go to each expert: `counts` [parts, experts].
kernel void moe_count(INPUT(chosen), OUTPUT(counts), const Permute p) {
  const int part = get_global_id(0);
  if (part >= p.parts) return;
  global int* own = AS_OUT(int, counts) + part * p.experts;
  for (int e = 0; e < p.experts; ++e) own[e] = 0;
  const int end = min((part + 1) * p.length, p.rows * p.top_k);
  for (int i = part * p.length; i < end; ++i) ++own[clamp(AS(int, chosen)[i], 0, p.experts - 1)];
}

// Counts become how many of the expert's come before the part; `totals` [experts].
kernel void moe_before(OUTPUT(counts), OUTPUT(totals), const Permute p) {
  const int e = get_global_id(0);
  if (e >= p.experts) return;
  int sum = 0;
  for (int part = 0; part < p.parts; ++part) {
    const int here = AS(int, counts)[part * p.experts + e];
    AS_OUT(int, counts)[part * p.experts + e] = sum;
    sum += here;
  }
  AS_OUT(int, totals)[e] = sum;
}

kernel void moe_offsets(INPUT(totals), OUTPUT(offsets), const Permute p) {
  int sum = 0;
  if (get_global_id(0) > 0) return;
  for (int e = 0; e < p.experts; ++e) {
    AS_OUT(int, offsets)[e] = sum;
    sum += AS(int, totals)[e];
  }
  AS_OUT(int, offsets)[p.experts] = sum;
}

kernel void moe_places(INPUT(chosen), OUTPUT(counts), INPUT(offsets), OUTPUT(places), const Permute p) {
  const int part = get_global_id(0);
  if (part >= p.parts) return;
  global int* own = AS_OUT(int, counts) + part * p.experts;
  const int end = min((part + 1) * p.length, p.rows * p.top_k);
  for (int i = part * p.length; i < end; ++i) {
    const int e = clamp(AS(int, chosen)[i], 0, p.experts - 1);
    AS_OUT(int, places)[i] = AS(int, offsets)[e] + own[e]++;
  }
}

// Copies a row to a place, bit by bit.
kernel void moe_move(INPUT(x), INPUT(places), OUTPUT(y), const Permute p, const int bytes) {
  const int i = get_global_id(0);
  const int place = AS(int, places)[i];
  const long from = i / p.top_k * p.x_row;
  const long to = place / p.top_k * p.y_row + place % p.top_k * p.y_sub;
  for (int c = get_global_id(1); c < p.width; c += get_global_size(1)) {
    if (bytes == 4) {
      AS_OUT(uint, y)[to + c * p.y_col] = AS(uint, x)[from + c * p.x_col];
    } else {
      AS_OUT(ushort, y)[to + c * p.y_col] = AS(ushort, x)[from + c * p.x_col];
    }
  }
}

// ---------------------------------------------------------------- back together
// As struct Combine of moe.cpp. `many`: what lies in order of experts, [rows, top_k, width]; `one`: [rows, width].
typedef struct {
  long many_row, many_sub, many_col, one_row, one_col;
  long x_row, x_sub, x_col;
  long weights_row, weights_col, dweights_row, dweights_col;
  int rows, top_k, width;
  int many_type, one_type, x_type;
  int has_weights, adds;
} Combine;

#define PLACE(i) clamp(AS(int, places)[i], 0, p.rows * p.top_k - 1)
#define WEIGHT(row, i) (p.has_weights ? AS(float, weights)[(row) * p.weights_row + (i) * p.weights_col] : 1.0f)

static inline void give_vector(int type, global uchar* out, long at, long step, int column, int width, int adds,
                               VECTOR value) {
  float lanes[V];
  CAT2(vstore, V)(value, 0, lanes);
  for (int l = 0; l < V && column + l < width; ++l) {
    const long place = at + (column + l) * step;
    store_float(type, out, place, adds ? load_float(type, out, place) + lanes[l] : lanes[l]);
  }
}

kernel void moe_combine(INPUT(x), INPUT(places), INPUT(weights), OUTPUT(y), const Combine p) {
  const long row = get_global_id(1);
  const int column = get_global_id(0) * V;
  if (column >= p.width) return;
  VECTOR sum = (VECTOR)(0.0f);
  for (int i = 0; i < p.top_k; ++i) {
    const long at = row_at(PLACE(row * p.top_k + i), p.many_row, p.many_sub, p.top_k);
    sum = fma((VECTOR)(WEIGHT(row, i)), neighbours(p.many_type, AT(x), at, p.many_col, column, p.width), sum);
  }
  give_vector(p.one_type, AT(y), row * p.one_row, p.one_col, column, p.width, p.adds, sum);
}

kernel void moe_spread(INPUT(dy), INPUT(places), INPUT(weights), OUTPUT(dx), const Combine p) {
  const int i = get_global_id(1);
  const long row = i / p.top_k;
  const int column = get_global_id(0) * V;
  if (column >= p.width) return;
  const VECTOR value = neighbours(p.one_type, AT(dy), row * p.one_row, p.one_col, column, p.width);
  const long at = row_at(PLACE(i), p.many_row, p.many_sub, p.top_k);
  give_vector(p.many_type, AT(dx), at, p.many_col, column, p.width, 0, value * WEIGHT(row, i % p.top_k));
}

kernel void moe_weight_gradient(INPUT(dy), INPUT(x), INPUT(places), OUTPUT(dweights), const Combine p) {
#if GROUP > 1
  local float scratch[GROUP];
#else
  local float* scratch = 0;
#endif
  const int i = get_group_id(0);
  const long row = i / p.top_k, at = row_at(PLACE(i), p.x_row, p.x_sub, p.top_k);
  VECTOR lanes = (VECTOR)(0.0f);
  for (int c = get_local_id(0) * V; c < p.width; c += GROUP * V) {
    lanes = fma(neighbours(p.one_type, AT(dy), row * p.one_row, p.one_col, c, p.width),
                neighbours(p.x_type, AT(x), at, p.x_col, c, p.width), lanes);
  }
  const float sum = group_sum(sum_of(lanes), scratch);
  if (get_local_id(0) == 0) {
    AS_OUT(float, dweights)[row * p.dweights_row + i % p.top_k * p.dweights_col] = sum;
  }
}
