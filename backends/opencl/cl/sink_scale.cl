typedef struct {
  long rows;
  long heads;
  long width;
  long chunk;
  long chunks;
  long x[3];
  long out[3];
  long lse[2];
  long lse_out[2];
  long sinks;
} Shape;

#ifdef FORWARD
kernel void sink_scale(INPUT(x), INPUT(lse), INPUT(sinks), OUTPUT(out), OUTPUT(lse_out), const Shape shape) {
  const long unit = get_global_id(0) / shape.chunks;
  if (unit >= shape.rows * shape.heads) return;
  const long part = get_global_id(0) % shape.chunks;
  const long row = unit / shape.heads;
  const long head = unit % shape.heads;
  const float own = AS(float, lse)[row * shape.lse[0] + head * shape.lse[1]];
  const float sink = AS(float, sinks)[head * shape.sinks];
  const int nothing = own == -INFINITY;  // whatever x holds
  const float share = 1.0f / (1.0f + exp(sink - own));
  if (HAS_lse_out && part == 0) {
    const float both = fmax(own, sink) + log1p(exp(-fabs(own - sink)));
    AS_OUT(float, lse_out)[row * shape.lse_out[0] + head * shape.lse_out[1]] = nothing ? -INFINITY : both;
  }
  const long from = row * shape.x[0] + head * shape.x[1];
  const long to = row * shape.out[0] + head * shape.out[1];
  const long last = min((part + 1) * shape.chunk, shape.width);
  for (long c = part * shape.chunk; c < last; ++c) {
    PUT(out, to + c * shape.out[2], nothing ? 0.0f : GET(x, from + c * shape.x[2]) * share);
  }
}
#else
// A group for each head. `x` is dout, `lse_out` is dsinks' strides.
kernel void sink_scale_backward(INPUT(dout), INPUT(out), INPUT(lse), INPUT(sinks), OUTPUT(dsinks), const Shape shape) {
  local float scratch[GROUP];
  const long head = get_group_id(0);
  const float sink = AS(float, sinks)[head * shape.sinks];
  float total = 0.0f;
  for (long block = 0; block < shape.rows; block += 32 * GROUP) {
    float sum = 0.0f;
    const long end = min(block + 32 * GROUP, shape.rows);
    for (long row = block + get_local_id(0); row < end; row += GROUP) {
      const float own = AS(float, lse)[row * shape.lse[0] + head * shape.lse[1]];
      if (own == -INFINITY) continue;
      const long at = row * shape.x[0] + head * shape.x[1];
      const long beside = row * shape.out[0] + head * shape.out[1];
      SUM_OVER(dot_product, c, 0, shape.width, 1, GET(dout, at + c * shape.x[2]) * GET(out, beside + c * shape.out[2]))
      sum -= exp(sink - own) * dot_product;
    }
    total += sum;
  }
  total = group_sum(total, scratch);
  if (get_local_id(0) == 0) PUT_OR_ADD(dsinks, head * shape.lse_out[0], total);
}
#endif
