// The loss over a vocabulary, panel by panel: logits [rows, panel] come from a product (product.cl) into the workspace, and
// the logits' gradient takes their place there. -D GROUP: work-items of a row; V: numbers of a vector.
#define CAT2_(x, y) x##y
#define CAT2(x, y) CAT2_(x, y)
#define VECTOR CAT2(float, V)

// The soft cap (`cap` 0: none), and its slope where it gave x.
#define CAPPED(x) (cap > 0.0f ? cap * tanh((x) / cap) : (x))
#define SLOPE(x) (cap > 0.0f ? 1.0f - (x) / cap * ((x) / cap) : 1.0f)
static inline VECTOR capped_vector(VECTOR x, float cap) {
  if (cap > 0.0f) return cap * tanh(x / cap);
  return x;
}
#define CAPPED_VECTOR(x) capped_vector(x, cap)
static inline VECTOR slope_vector(VECTOR x, float cap) {
  if (cap > 0.0f) return 1.0f - x / cap * (x / cap);
  return (VECTOR)(1.0f);
}

// What is kept of each row.
typedef struct {
  float most, sum, hit, lse;
} RowState;

// Rows as fp32, zeros in place of those that are left out: nothing of theirs may count, NaN neither.
kernel void head_take(INPUT(h), const long h_row, const long h_col, const int h_type, INPUT(weights),
                      const long weights_step, OUTPUT(taken), const int width) {
  const long row = get_global_id(0);
  const bool out = AS(float, weights)[row * weights_step] == 0.0f;
  for (int c = get_global_id(1); c < width; c += get_global_size(1)) {
    AS_OUT(float, taken)[row * width + c] = out ? 0.0f : load_float(h_type, AT(h), row * h_row + c * h_col);
  }
}

// The largest logit of the panel and the sum of the exponentials, joined with those of earlier panels (`first` 0).
kernel void head_statistics(INPUT(logits), const int stride, INPUT(targets), INPUT(weights), const long weights_step,
                            OUTPUT(states), const float cap, const int first, const int count) {
#if GROUP > 1
  local float scratch[GROUP];
#else
  local float* scratch = 0;
#endif
  const long row = get_group_id(0);
  const int item = get_local_id(0);
  const global float* z = AS(float, logits) + row * stride;
  VECTOR most_lanes = (VECTOR)(-INFINITY);
  float most = -INFINITY;
  float bad = 0.0f;  // not 0: some are NaN
  const int whole = count / V * V;
  for (int c = item * V; c < whole; c += GROUP * V) {
    const VECTOR x = CAPPED_VECTOR(CAT2(vload, V)(0, z + c));
    most_lanes = select(most_lanes, x, x > most_lanes);
    if (any(x != x)) bad = 1.0f;
  }
  for (int c = whole + item; c < count; c += GROUP) {
    const float x = CAPPED(z[c]);
    most = x > most ? x : most;
    if (x != x) bad = 1.0f;
  }
  float lanes[V];
  CAT2(vstore, V)(most_lanes, 0, lanes);
  for (int l = 0; l < V; ++l) most = fmax(most, lanes[l]);
  most = group_max(most, scratch);
  bad = group_max(bad, scratch);
  global RowState* state = AS_OUT(RowState, states) + row;
  const RowState earlier = first == 0 ? (RowState){-INFINITY, 0.0f, 0.0f, 0.0f} : *state;
  const float all = bad != 0.0f || isnan(earlier.most) ? NAN : fmax(most, earlier.most);
  VECTOR sums = (VECTOR)(0.0f);
  float sum = 0.0f;
  for (int c = item * V; c < whole; c += GROUP * V) sums += exp(CAPPED_VECTOR(CAT2(vload, V)(0, z + c)) - all);
  for (int c = whole + item; c < count; c += GROUP) sum += exp(CAPPED(z[c]) - all);
  CAT2(vstore, V)(sums, 0, lanes);
  for (int l = 0; l < V; ++l) sum += lanes[l];
  sum = group_sum(sum, scratch);
  if (item != 0) return;
  RowState next = earlier;
  next.most = all;
  next.sum = sum + (first == 0 ? 0.0f : earlier.sum * exp(earlier.most - all));
  if (AS(float, weights)[row * weights_step] != 0.0f) {
    const int target = AS(int, targets)[row];
    if (target >= first && target < first + count) next.hit = CAPPED(z[target - first]);
  }
  *state = next;
}

// The loss of each row and what was asked for of it. Steps are strides of elements; `has`: 1 lse is given, 2 row_max,
// 4 row_sum, 8 row_target.
kernel void head_rows(OUTPUT(states), INPUT(targets), INPUT(weights), const long weights_step,
                      INPUT(lse), const long lse_step, OUTPUT(row_max), const long max_step, OUTPUT(row_sum),
                      const long sum_step, OUTPUT(row_target), const long target_step, OUTPUT(losses), const int has,
                      const int rows) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  RowState state = AS(RowState, states)[row];
  const float weight = AS(float, weights)[row * weights_step];
  float loss = 0.0f;
  if (weight == 0.0f) {
    state = (RowState){0.0f, 0.0f, 0.0f, 0.0f};
  } else {
    const bool shard = (has & 1) != 0;
    state.lse = shard ? AS(float, lse)[row * lse_step] : state.most + log(state.sum);
    if (!shard || AS(int, targets)[row] >= 0) loss = weight * (state.lse - state.hit);
  }
  AS_OUT(RowState, states)[row] = state;
  AS_OUT(float, losses)[row] = loss;
  if (has & 2) AS_OUT(float, row_max)[row * max_step] = state.most;
  if (has & 4) AS_OUT(float, row_sum)[row * sum_step] = state.sum;
  if (has & 8) AS_OUT(float, row_target)[row * target_step] = state.hit;
}

// The logits' gradient in their place.
kernel void head_gradient(OUTPUT(logits), const int stride, INPUT(weights), const long weights_step,
                          INPUT(states), const float cap, const int count) {
  const long row = get_group_id(0);
  const int item = get_local_id(0);
  global float* z = AS_OUT(float, logits) + row * stride;
  const float weight = AS(float, weights)[row * weights_step];
  const float lse = AS(RowState, states)[row].lse;
  const int whole = weight == 0.0f ? 0 : count / V * V;
  for (int c = item * V; c < whole; c += GROUP * V) {
    const VECTOR x = CAPPED_VECTOR(CAT2(vload, V)(0, z + c));
    CAT2(vstore, V)(weight * slope_vector(x, cap) * exp(x - lse), 0, z + c);
  }
  for (int c = whole + item; c < count; c += GROUP) {
    const float x = weight == 0.0f ? 0.0f : CAPPED(z[c]);
    z[c] = weight == 0.0f ? 0.0f : weight * SLOPE(x) * exp(x - lse);
  }
}

// The targets' own gradient, in place of what head_gradient left there, of the rows that have theirs in this panel.
kernel void head_hits(INPUT(states), OUTPUT(logits), const int stride, INPUT(targets), INPUT(weights),
                      const long weights_step, const float cap, const int first, const int count, const int rows) {
  const int row = get_global_id(0);
  if (row >= rows) return;
  const float weight = AS(float, weights)[row * weights_step];
  if (weight == 0.0f) return;
  const int target = AS(int, targets)[row];
  if (target < first || target >= first + count) return;
  const RowState state = AS(RowState, states)[row];
  AS_OUT(float, logits)[(long)row * stride + target - first] = weight * SLOPE(state.hit) * (exp(state.hit - state.lse) - 1.0f);
}

// The gradient of the rows, summed in fp32 over all panels.
kernel void head_give(INPUT(sums), INPUT(weights), const long weights_step, OUTPUT(dh), const long dh_row,
                      const long dh_col, const int dh_type, const int width) {
  const long row = get_global_id(0);
  const bool out = AS(float, weights)[row * weights_step] == 0.0f;
  for (int c = get_global_id(1); c < width; c += get_global_size(1)) {
    store_float(dh_type, AT(dh), row * dh_row + c * dh_col, out ? 0.0f : AS(float, sums)[row * width + c]);
  }
}

kernel void head_loss(INPUT(losses), OUTPUT(loss), const int adds, const int rows) {
#if GROUP > 1
  local float scratch[GROUP];
#else
  local float* scratch = 0;
#endif
  const int item = get_local_id(0);
  SUM_OVER(sum, i, item, rows, GROUP, AS(float, losses)[i])
  sum = group_sum(sum, scratch);
  if (item == 0) AS_OUT(float, loss)[0] = adds ? AS(float, loss)[0] + sum : sum;
}
