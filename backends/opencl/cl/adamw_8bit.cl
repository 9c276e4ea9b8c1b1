// A work-group takes a block of 256 elements, whose moments lie in fp32 only in between.
#define BLOCK 256

// The nearest of 256 rising codes, of two as near the smaller.
static uchar nearest(const global float* codes, const float x) {
  int low = 0, high = 255;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (x > 0.5f * (codes[middle] + codes[middle + 1])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return (uchar)low;
}

kernel void adamw_8bit(OUTPUT(param), OUTPUT(m), OUTPUT(v), OUTPUT(m_max), OUTPUT(v_max), INPUT(grad), INPUT(m_codes),
                       INPUT(v_codes), INPUT(hyper), const long elements) {
  local float scratch[GROUP];
  local float means[BLOCK], squares[BLOCK];
  const global float* const h = AS(float, hyper);
  const float lr = h[0], beta1 = h[1], beta2 = h[2], rest1 = h[3], rest2 = h[4], eps = h[5], keep = 1.0f - lr * h[6];
  const float correction1 = h[7], correction2 = h[8], factor = h[9];
  const global float* const mean_codes = AS(float, m_codes);
  const global float* const square_codes = AS(float, v_codes);
  global float* const params = AS_OUT(float, param);
  const long block = get_group_id(0), first = block * BLOCK;
  const int n = (int)min((long)BLOCK, elements - first);
  const float mean_was = AS_OUT(float, m_max)[block], square_was = AS_OUT(float, v_max)[block];
  float most_mean = 0.0f, most_square = 0.0f;
  for (int i = get_local_id(0); i < n; i += GROUP) {
    const float g = GET(grad, first + i) * factor;
    const float mean = beta1 * (mean_codes[AS_OUT(uchar, m)[first + i]] * mean_was) + rest1 * g;
    const float square = beta2 * (square_codes[AS_OUT(uchar, v)[first + i]] * square_was) + rest2 * g * g;
    const float root = sqrt(square / correction2) + eps;
    params[first + i] = params[first + i] * keep - lr * (mean / correction1) / root;
    means[i] = mean;
    squares[i] = square;
    most_mean = fmax(most_mean, fabs(mean));
    most_square = fmax(most_square, fabs(square));
  }
  most_mean = group_max(most_mean, scratch);
  most_square = group_max(most_square, scratch);
  for (int i = get_local_id(0); i < n; i += GROUP) {
    AS_OUT(uchar, m)[first + i] = nearest(mean_codes, most_mean > 0.0f ? means[i] / most_mean : 0.0f);
    AS_OUT(uchar, v)[first + i] = nearest(square_codes, most_square > 0.0f ? squares[i] / most_square : 0.0f);
  }
  if (get_local_id(0) == 0) {
    AS_OUT(float, m_max)[block] = most_mean;
    AS_OUT(float, v_max)[block] = most_square;
  }
}
