// A sum of shifted products, a sequence and some thousand rows at a time.
#include "backends/npu/kernel.h"
#include "backends/npu/recurrent.h"

namespace tern::npu {
namespace {

constexpr std::int64_t kPanel = std::int64_t{1} << 22;  // elements

std::int64_t panel_rows(std::int64_t channels, std::int64_t taps) {
  return std::max({std::int64_t{1}, taps, kPanel / std::max<std::int64_t>(1, channels)});
}

// The weight of tap j, [1, channels].
View tap(const View& weight, std::int64_t j) { return weight.slice(1, j, 1).transposed(0, 1); }

void compose(Composer& c) {
  const auto& attrs = c.attrs<tern_causal_conv1d_attrs>();
  Algebra algebra(c);
  const View x = c.arg(TERN_CAUSAL_CONV1D_X), y = c.arg(TERN_CAUSAL_CONV1D_Y);
  const View weight = c.f32(c.arg(TERN_CAUSAL_CONV1D_WEIGHT)), bias = c.f32(c.arg(TERN_CAUSAL_CONV1D_BIAS));
  const States all = states(c, TERN_CAUSAL_CONV1D_KV_LENS, TERN_CAUSAL_CONV1D_SEATS, TERN_CAUSAL_CONV1D_STATE);
  const std::int64_t channels = x.dim(1), taps = weight.dim(1) - 1, most = panel_rows(channels, taps);
  c.zero(y);
  for (const Rows& rows : row_sequences(c, TERN_CAUSAL_CONV1D_CU_SEQLENS, x.dim(0), attrs.max_seqlen)) {
    for (std::int64_t row = 0; row < rows.count; row += most) {
      const std::int64_t mark = c.mark(), count = std::min(most, rows.count - row);
      const View padded = c.temp(ACL_FLOAT, {taps + count, channels});
      if (row == 0) {
        if (taps > 0) load_state(algebra, all, rows, padded.slice(0, 0, taps));
        c.copy(padded.slice(0, taps, count), x.slice(0, rows.first, count));
      } else {
        c.copy(padded, x.slice(0, rows.first + row - taps, taps + count));
      }
      const View sum = algebra.mul(padded.slice(0, 0, count), tap(weight, 0));
      const View term = c.temp(ACL_FLOAT, sum.shape);
      for (std::int64_t j = 1; j <= taps; ++j) {
        algebra.mul(padded.slice(0, j, count), tap(weight, j), term);
        algebra.add(sum, term, sum);
      }
      if (bias.present()) algebra.add(sum, bias.unsqueezed(0), sum);
      c.copy(y.slice(0, rows.first + row, count), sum);
      if (row + count == rows.count && taps > 0) store_state(algebra, all, rows, padded.slice(0, count, taps));
      c.rewind(mark);
    }
  }
}

struct Gradients {
  View dweight;  // sums so far, [taps + 1, channels]; may be absent
  View dbias;    // [1, channels]; may be absent
};

void run_rows(Algebra& algebra, const Gradients& sums, const View& weight, const Rows& rows, std::int64_t row,
              std::int64_t count) {
  Composer& c = algebra.composer();
  const View dy = c.arg(TERN_CAUSAL_CONV1D_BACKWARD_DY), x = c.arg(TERN_CAUSAL_CONV1D_BACKWARD_X);
  const View dx = c.arg(TERN_CAUSAL_CONV1D_BACKWARD_DX);
  const std::int64_t channels = x.dim(1), taps = weight.dim(1) - 1;
  // The rows and the `taps` behind them, zeros beyond the sequence.
  const View padded = c.temp(ACL_FLOAT, {count + taps, channels});
  const std::int64_t there = std::min(count + taps, rows.count - row);
  c.copy(padded.slice(0, 0, there), dy.slice(0, rows.first + row, there));
  c.zero(padded.slice(0, there, count + taps - there));
  const View sum = algebra.mul(padded.slice(0, taps, count), tap(weight, 0));
  const View term = c.temp(ACL_FLOAT, sum.shape);
  for (std::int64_t j = 1; j <= taps; ++j) {
    algebra.mul(padded.slice(0, taps - j, count), tap(weight, j), term);
    algebra.add(sum, term, sum);
  }
  c.copy(dx.slice(0, rows.first + row, count), sum);
  const View own = padded.slice(0, 0, count);
  if (sums.dbias.present()) algebra.add(sums.dbias, algebra.sum(own, 0), sums.dbias);
  if (!sums.dweight.present()) return;
  for (std::int64_t j = 0; j <= taps; ++j) {
    const std::int64_t back = taps - j, first = std::max(row, back);  // rows before have no x so far back
    if (first >= row + count) continue;
    const std::int64_t mark = c.mark(), pairs = row + count - first;
    const View earlier = c.f32(x.slice(0, rows.first + first - back, pairs));
    const View product = algebra.mul(own.slice(0, first - row, pairs), earlier, term.slice(0, 0, pairs));
    const View into = sums.dweight.slice(0, j, 1);
    algebra.add(into, algebra.sum(product, 0), into);
    c.rewind(mark);
  }
}

void compose_backward(Composer& c) {
  const auto& attrs = c.attrs<tern_causal_conv1d_backward_attrs>();
  Algebra algebra(c);
  const View x = c.arg(TERN_CAUSAL_CONV1D_BACKWARD_X);
  const View weight = c.f32(c.arg(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT));
  const std::int64_t channels = x.dim(1), taps = weight.dim(1) - 1, most = panel_rows(channels, taps);
  c.zero(c.arg(TERN_CAUSAL_CONV1D_BACKWARD_DX));
  Gradients sums;
  const auto room = [&](int arg, std::int64_t rows) {
    View out;
    if (!c.present(arg)) return out;
    out = c.temp(ACL_FLOAT, {rows, channels});
    c.zero(out);
    return out;
  };
  sums.dweight = room(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, taps + 1);
  sums.dbias = room(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, 1);
  for (const Rows& rows : row_sequences(c, TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, x.dim(0), attrs.max_seqlen)) {
    for (std::int64_t row = 0; row < rows.count; row += most) {
      const std::int64_t mark = c.mark();
      run_rows(algebra, sums, weight, rows, row, std::min(most, rows.count - row));
      c.rewind(mark);
    }
  }
  if (sums.dweight.present()) c.finish(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, sums.dweight.transposed(0, 1));
  if (sums.dbias.present()) c.finish(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, sums.dbias.reshaped({channels}));
}

constexpr KernelEntry kEntries[] = {{TERN_OP_CAUSAL_CONV1D, "shifts", compose, true},
                                    {TERN_OP_CAUSAL_CONV1D_BACKWARD, "shifts", compose_backward, false}};

}  // namespace

KernelList causal_conv1d_kernels() { return kEntries; }

}  // namespace tern::npu
