#include "ops/ref/recurrent.h"

namespace tern::ops::ref {
namespace {

double& element(Tensor& tensor, std::int64_t at) { return tensor.real[static_cast<std::size_t>(at)]; }
double element(const Tensor& tensor, std::int64_t at) { return tensor.real[static_cast<std::size_t>(at)]; }

// The taps rows before a sequence and its own, one after the other: [taps + rows, channels].
std::vector<double> with_history(const Sequence& sequence, const Tensor& x, const Tensor& state, std::int64_t taps) {
  const std::int64_t channels = x.size(1);
  std::vector<double> rows(static_cast<std::size_t>(taps * channels), 0.0);
  if (sequence.goes_on) {
    const auto from = state.real.begin() + static_cast<std::ptrdiff_t>(sequence.seat * taps * channels);
    std::copy_n(from, taps * channels, rows.begin());
  }
  const auto own = x.real.begin();
  rows.insert(rows.end(), own + static_cast<std::ptrdiff_t>(sequence.begin * channels),
              own + static_cast<std::ptrdiff_t>(sequence.end * channels));
  return rows;
}

}  // namespace

void causal_conv1d(Call& call) {
  const Tensor& x = input(call, TERN_CAUSAL_CONV1D_X);
  const Tensor& weight = input(call, TERN_CAUSAL_CONV1D_WEIGHT);
  const Tensor& bias = input(call, TERN_CAUSAL_CONV1D_BIAS);
  Tensor& state = call.args[TERN_CAUSAL_CONV1D_STATE];
  state.slack.assign(state.real.size(), 0.0);
  Output y(call, TERN_CAUSAL_CONV1D_Y);
  const std::int64_t channels = x.size(1);
  const std::int64_t width = weight.size(1);
  const std::int64_t taps = width - 1;
  for_each_sequence(input(call, TERN_CAUSAL_CONV1D_CU_SEQLENS), input(call, TERN_CAUSAL_CONV1D_KV_LENS),
                    input(call, TERN_CAUSAL_CONV1D_SEATS), [&](const Sequence& sequence) {
                      const std::vector<double> rows = with_history(sequence, x, state, taps);
                      const std::int64_t count = sequence.end - sequence.begin;
                      for (std::int64_t t = 0; t < count; ++t) {
                        for (std::int64_t c = 0; c < channels; ++c) {
                          const std::int64_t at = (sequence.begin + t) * channels + c;
                          for (std::int64_t j = 0; j < width; ++j) {
                            const double value = rows[static_cast<std::size_t>((t + j) * channels + c)];
                            y.add(at, element(weight, c * width + j) * value);
                          }
                          if (bias.present()) y.add(at, element(bias, c));
                        }
                      }
                      if (sequence.seat < 0) return;
                      for (std::int64_t i = 0; i < taps * channels; ++i) {
                        element(state, sequence.seat * taps * channels + i) =
                            rows[static_cast<std::size_t>(count * channels + i)];
                      }
                    });
  open_seat_of_padding(state);
}

void causal_conv1d_backward(Call& call) {
  const Tensor& dy = input(call, TERN_CAUSAL_CONV1D_BACKWARD_DY);
  const Tensor& x = input(call, TERN_CAUSAL_CONV1D_BACKWARD_X);
  const Tensor& weight = input(call, TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT);
  Output dx(call, TERN_CAUSAL_CONV1D_BACKWARD_DX);
  Output dweight(call, TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT);
  Output dbias(call, TERN_CAUSAL_CONV1D_BACKWARD_DBIAS);
  const std::int64_t channels = x.size(1);
  const std::int64_t width = weight.size(1);
  const auto visit = [&](const Sequence& sequence) {
    for (std::int64_t t = sequence.begin; t < sequence.end; ++t) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const double upstream = element(dy, t * channels + c);
        dbias.add(c, upstream);
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t from = t - (width - 1) + j;
          if (from < sequence.begin) continue;
          dx.add(from * channels + c, element(weight, c * width + j) * upstream);
          dweight.add(c * width + j, element(x, from * channels + c) * upstream);
        }
      }
    }
  };
  for_each_sequence(input(call, TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS), Tensor{}, Tensor{}, visit);
}

}  // namespace tern::ops::ref
