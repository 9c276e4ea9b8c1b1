// A work-group takes a row of a matrix, or 1,024 elements of a parameter that is none. HAS_row: it is one.
typedef struct {
  long elements, matrices, rows, columns;
} Sizes;

enum { LR, BETA2, REST2, EPS1, EPS2, CLIP, BETA1, REST1, WEIGHT_DECAY, SCALE_PARAMETER, GRAD_SCALE };

// The gradient, and its square as the second moments take it.
#define GRADIENT(i) (GET(grad, i) * h[GRAD_SCALE])
#define SQUARE(i) (GRADIENT(i) * GRADIENT(i) + h[EPS1])
// The step of element i before it is clipped and scaled.
#if HAS_row
#define STEP(i)                                   \
  (GRADIENT(i) * AS(float, row_factor)[(i) / sizes.columns] * \
   AS(float, col_factor)[(i) / (sizes.columns * sizes.rows) * sizes.columns + (i) % sizes.columns])
#else
#define STEP(i) (GRADIENT(i) / sqrt(AS(float, v)[i]))
#endif
#define OF_ROW(row)                                           \
  const long first_of_row = (row) * sizes.columns;               \
  const long end_of_row = min(first_of_row + sizes.columns, sizes.elements);

kernel void gather_rows(INPUT(param), INPUT(grad), INPUT(hyper), OUTPUT(row), OUTPUT(v), OUTPUT(param_squares),
                        const Sizes sizes) {
  local float scratch[GROUP];
  const global float* const h = AS(float, hyper);
  const global float* const params = AS(float, param);
  const long at = get_group_id(0);
  OF_ROW(at)
  const long begin = first_of_row + get_local_id(0);
  SUM_OVER(squares, i, begin, end_of_row, GROUP, params[i] * params[i])
  squares = group_sum(squares, scratch);
  if (get_local_id(0) == 0) AS_OUT(float, param_squares)[at] = squares;
#if HAS_row
  SUM_OVER(sum, i, begin, end_of_row, GROUP, SQUARE(i))
  sum = group_sum(sum, scratch);
  if (get_local_id(0) != 0) return;
  global float* const state = AS_OUT(float, row) + at;
  *state = h[BETA2] * *state + h[REST2] * (sum / (float)sizes.columns);
#else
  global float* const state = AS_OUT(float, v);
  for (long i = begin; i < end_of_row; i += GROUP) state[i] = h[BETA2] * state[i] + h[REST2] * SQUARE(i);
#endif
}

kernel void scale_rows(INPUT(row), OUTPUT(row_factor), const Sizes sizes) {
  local float scratch[GROUP];
  const long first = get_group_id(0) * sizes.rows;
  const global float* const rows = AS(float, row) + first;
  SUM_OVER(sum, i, (long)get_local_id(0), sizes.rows, GROUP, rows[i])
  const float mean = group_sum(sum, scratch) / (float)sizes.rows;
  for (long i = get_local_id(0); i < sizes.rows; i += GROUP) {
    AS_OUT(float, row_factor)[first + i] = 1.0f / sqrt(rows[i] / mean);
  }
}

// A work-item takes a column.
kernel void gather_columns(INPUT(grad), INPUT(hyper), OUTPUT(col), OUTPUT(col_factor), const Sizes sizes) {
  const long at = get_global_id(0);
  if (at >= sizes.matrices * sizes.columns) return;
  const global float* const h = AS(float, hyper);
  const long begin = at / sizes.columns * sizes.rows * sizes.columns + at % sizes.columns;
  SUM_OVER(sum, r, 0, sizes.rows, 1, SQUARE(begin + r * sizes.columns))
  global float* const state = AS_OUT(float, col) + at;
  *state = h[BETA2] * *state + h[REST2] * (sum / (float)sizes.rows);
  AS_OUT(float, col_factor)[at] = 1.0f / sqrt(*state);
}

kernel void measure_rows(INPUT(grad), INPUT(hyper), INPUT(v), INPUT(row_factor), INPUT(col_factor),
                         OUTPUT(step_squares), const Sizes sizes) {
  local float scratch[GROUP];
  const global float* const h = AS(float, hyper);
  const long at = get_group_id(0);
  OF_ROW(at)
  SUM_OVER(sum, i, first_of_row + (long)get_local_id(0), end_of_row, GROUP, STEP(i) * STEP(i))
  sum = group_sum(sum, scratch);
  if (get_local_id(0) == 0) AS_OUT(float, step_squares)[at] = sum;
}

// The factor of the step, and that of the decay.
kernel void scale_step(INPUT(hyper), INPUT(param_squares), INPUT(step_squares), OUTPUT(factors), const Sizes sizes) {
  local float scratch[GROUP];
  const global float* const h = AS(float, hyper);
  const long rows = sizes.matrices * sizes.rows, first = get_local_id(0);
  SUM_OVER(of_param, i, first, rows, GROUP, AS(float, param_squares)[i])
  SUM_OVER(of_step, i, first, rows, GROUP, AS(float, step_squares)[i])
  of_param = sqrt(group_sum(of_param, scratch) / (float)sizes.elements);
  of_step = sqrt(group_sum(of_step, scratch) / (float)sizes.elements);
  const float scale = h[LR] * (h[SCALE_PARAMETER] != 0.0f ? fmax(h[EPS2], of_param) : 1.0f);
  if (first != 0) return;
  AS_OUT(float, factors)[0] = scale / fmax(1.0f, of_step / h[CLIP]);
  AS_OUT(float, factors)[1] = h[WEIGHT_DECAY] * scale;
}

kernel void change(OUTPUT(param), INPUT(grad), INPUT(hyper), INPUT(v), OUTPUT(m), INPUT(row_factor), INPUT(col_factor),
                   INPUT(factors), const Sizes sizes) {
  const global float* const h = AS(float, hyper);
  const float factor = AS(float, factors)[0], keep = 1.0f - AS(float, factors)[1];
  global float* const params = AS_OUT(float, param);
  OF_ROW((long)get_group_id(0))
  for (long i = first_of_row + get_local_id(0); i < end_of_row; i += GROUP) {
    float step = factor * STEP(i);
#if HAS_m
    global float* const mean = AS_OUT(float, m) + i;
    step = *mean = h[BETA1] * *mean + h[REST1] * step;
#endif
    params[i] = keep * params[i] - step;
  }
}
