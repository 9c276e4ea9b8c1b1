#include "backends/cuda/cu/divide.cuh"
#include "backends/cuda/cu/vectors.cuh"

struct SinkSizes {
  long rows, heads, width, chunks;
  long x[3], out[3], lse[2], lse_out[2], sinks;
};

// A thread has W features of a head of a row.
KERNEL(sink_scale)(Tensor x, const float* lse, const float* sinks, Tensor out, float* lse_out, SinkSizes s) {
  long unit, chunk, row, head;
  if (!find_part(s.rows * s.heads, s.chunks, unit, chunk)) return;
  divide(unit, s.heads, s.rows * s.heads <= 0x7fffffffL, row, head);
  const long feature = chunk * W;
  const float infinity = __int_as_float(0x7f800000);
  const float own = lse[row * s.lse[0] + head * s.lse[1]], sink = sinks[head * s.sinks];
  const bool nothing = own == -infinity;  // whatever x holds
  if (lse_out != nullptr && feature == 0) {
    const float both = fmaxf(own, sink) + log1pf(expf(-fabsf(own - sink)));
    lse_out[row * s.lse_out[0] + head * s.lse_out[1]] = nothing ? -infinity : both;
  }
  const long left = s.width - feature;
  if (left <= 0) return;
  const float share = 1.0f / (1.0f + expf(sink - own));
  const Floats from = fetch(x, row * s.x[0] + head * s.x[1] + feature * s.x[2], s.x[2], left);
  spread(out, row * s.out[0] + head * s.out[1] + feature * s.out[2], s.out[2], left,
         nothing ? floats_of(0.0f) : from * share);
}

// partial[part, head] = the gradient of some rows. A warp has a head of a part; neighbours have neighbouring heads. s.x
// is of dout.
KERNEL_BOUNDED(sink_scale_backward, 128, 8)(Tensor dout, Tensor out, const float* lse, const float* sinks,
                                            float* partial, SinkSizes s, long rows_of_part) {
  const long unit = (static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const long head = unit % s.heads, first = unit / s.heads * rows_of_part;
  if (first >= s.rows) return;
  const long end = first + rows_of_part < s.rows ? first + rows_of_part : s.rows;
  const float sink = sinks[head * s.sinks];
  float total = 0.0f;
  for (long row = first; row < end; ++row) {
    const float own = lse[row * s.lse[0] + head * s.lse[1]];
    if (own == -__int_as_float(0x7f800000)) continue;
    float product = 0.0f;
    for (long c = lane * W; c < s.width; c += 32 * W) {
      product += sum_of(fetch(dout, row * s.x[0] + head * s.x[1] + c * s.x[2], s.x[2], s.width - c) *
                        fetch(out, row * s.out[0] + head * s.out[1] + c * s.out[2], s.out[2], s.width - c));
    }
    total -= expf(sink - own) * warp_sum(product);
  }
  if (lane == 0) partial[unit] = total;
}
