// Ops that carry a state through each sequence.
#include <algorithm>
#include <array>
#include <cmath>

#include "conformance/attention_cases.h"
#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

// Sequences of a case and the states they go on from.
struct Sequences {
  std::int64_t rows;  // valid
  std::int64_t count;
  std::vector<std::int64_t> bounds;
  std::int32_t longest;
};

Sequences make_sequences(CaseBuilder& b, std::int64_t capacity, std::int64_t count) {
  const std::int64_t rows = b.count_for(capacity);
  const bool decodes = capacity == count && capacity > 0;  // a row each
  return {rows, count, cumulative(b, count, rows), static_cast<std::int32_t>(decodes ? 1 : capacity)};
}

// Seat 0 is padding's: one that has no rows may sit there. Every other sequence has a seat of its own.
struct SeatArgs {
  int kv_lens;
  int seats;
  int state;
};
// `state`: its type and what a seat holds.
void fill_seats(CaseBuilder& b, const Sequences& sequences, const SeatArgs& at, tern_dtype dtype, Shape state) {
  const std::int64_t num_seats = sequences.count + 2;
  const std::vector<std::int64_t> order = shuffled_blocks(b, num_seats);
  std::vector<std::int64_t> kv_lens;
  std::vector<std::int64_t> seats;
  std::vector<std::int64_t> anew;
  for (std::size_t s = 0; s + 1 < sequences.bounds.size(); ++s) {
    const std::int64_t own = sequences.bounds[s + 1] - sequences.bounds[s];
    const bool begins = b.random().below(3) == 0;
    kv_lens.push_back(begins ? own : own + 1 + b.random().below(45));
    seats.push_back(own == 0 && b.random().below(2) == 0 ? 0 : order[s]);
    if (begins && own > 0) anew.push_back(order[s]);
  }
  b.counted(at.kv_lens, kv_lens, kSequencesSlot, 0);
  b.counted(at.seats, seats, kSequencesSlot, 0);
  state.insert(state.begin(), num_seats);
  b.real(at.state, dtype, state);
  for (const std::int64_t seat : anew) b.make_unreadable(at.state, seat);  // who begins reads nothing of it
}

struct ConvSize {
  std::int64_t rows, sequences, channels, taps;
};
constexpr std::array<ConvSize, 11> kConvs = {{{24, 3, 64, 3},
                                              {17, 4, 33, 2},
                                              {37, 2, 131, 3},
                                              {1, 1, 1, 1},
                                              {0, 1, 8, 3},
                                              {301, 1, 16, 3},
                                              {9, 2, 1100, 3},
                                              {300, 300, 5, 3},
                                              {70001, 5, 2, 1},
                                              {65, 2, 300, 7},
                                              {331, 3, 24, 4}}};

void make_causal_conv1d(CaseBuilder& b) {
  const Variant& v = b.variant();
  const ConvSize& size = kConvs[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  // options: a state; none; a state and no bias
  b.attrs(tern_causal_conv1d_attrs{sequences.longest});
  b.real(TERN_CAUSAL_CONV1D_X, v.in, {size.rows, size.channels}, 0);
  b.real(TERN_CAUSAL_CONV1D_WEIGHT, v.in, {size.channels, size.taps + 1});
  if (v.option != 2) b.real(TERN_CAUSAL_CONV1D_BIAS, v.in, {size.channels});
  b.counted(TERN_CAUSAL_CONV1D_CU_SEQLENS, sequences.bounds, kBoundsSlot, sequences.bounds.back());
  if (v.option != 1) {
    fill_seats(b, sequences, {TERN_CAUSAL_CONV1D_KV_LENS, TERN_CAUSAL_CONV1D_SEATS, TERN_CAUSAL_CONV1D_STATE}, v.out,
               {size.taps, size.channels});
  }
  b.out(TERN_CAUSAL_CONV1D_Y, v.out, {size.rows, size.channels}, 0);
}

void make_causal_conv1d_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const ConvSize& size = kConvs[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  // options: all gradients; that of x alone; without that of the bias
  b.attrs(tern_causal_conv1d_backward_attrs{sequences.longest});
  b.real(TERN_CAUSAL_CONV1D_BACKWARD_DY, v.in, {size.rows, size.channels}, 0);
  b.real(TERN_CAUSAL_CONV1D_BACKWARD_X, v.in, {size.rows, size.channels}, 0);
  b.real(TERN_CAUSAL_CONV1D_BACKWARD_WEIGHT, v.in, {size.channels, size.taps + 1});
  b.counted(TERN_CAUSAL_CONV1D_BACKWARD_CU_SEQLENS, sequences.bounds, kBoundsSlot, sequences.bounds.back());
  b.out(TERN_CAUSAL_CONV1D_BACKWARD_DX, v.out, {size.rows, size.channels}, 0);
  if (v.option != 1) b.out(TERN_CAUSAL_CONV1D_BACKWARD_DWEIGHT, TERN_F32, {size.channels, size.taps + 1});
  if (v.option == 0) b.out(TERN_CAUSAL_CONV1D_BACKWARD_DBIAS, TERN_F32, {size.channels});
}

// Heads of 128 in groups are what published models have; a single row of each of many sequences is decoding.
struct DeltaSize {
  std::int64_t rows, sequences, k_heads, heads, key_dim, value_dim;
};
constexpr std::array<DeltaSize, 10> kDeltas = {{{24, 3, 2, 4, 32, 32},
                                                {17, 4, 1, 3, 10, 14},
                                                {37, 2, 3, 6, 24, 40},
                                                {1, 1, 1, 1, 8, 8},
                                                {150, 1, 1, 2, 16, 17},
                                                {300, 300, 1, 1, 7, 9},
                                                {70, 2, 2, 4, 128, 128},
                                                {70001, 301, 1, 1, 2, 2},
                                                {0, 1, 1, 2, 16, 16},
                                                {331, 3, 2, 2, 16, 72}}};

struct DeltaArgs {
  int q, k, v, decay, beta, cu_seqlens;
};

// Keys of about unit length, as models make them, so that a step keeps errors small; a decay is 0 or forgets all now
// and then.
void fill_delta(CaseBuilder& b, const DeltaSize& size, const Sequences& sequences, const DeltaArgs& at) {
  const tern_dtype in = b.variant().in;
  const auto numbers = [&](std::int64_t count, auto&& next) {
    std::vector<double> out(static_cast<std::size_t>(count));
    for (double& x : out) x = next();
    return out;
  };
  const double shrink = 0.9 / std::sqrt(static_cast<double>(size.key_dim));
  b.real(at.v, in, {size.rows, size.heads, size.value_dim}, 0);
  b.real(at.q, in, {size.rows, size.k_heads, size.key_dim}, 0);
  b.values(at.k, in, {size.rows, size.k_heads, size.key_dim},
           numbers(sequences.rows * size.k_heads * size.key_dim, [&] { return shrink * b.random().term(); }), 0);
  const std::int64_t scalars = sequences.rows * size.heads;
  const auto decay = [&] {
    const std::int64_t kind = b.random().below(16);
    return kind == 0 ? 0.0 : kind == 1 ? -20.0 : -0.4 * b.random().uniform() - 0.01;
  };
  const auto beta = [&] { return 0.3 + 0.7 * b.random().uniform(); };
  b.values(at.decay, TERN_F32, {size.rows, size.heads}, numbers(scalars, decay), 0, 0, -1.0);
  b.values(at.beta, TERN_F32, {size.rows, size.heads}, numbers(scalars, beta), 0, 0, 0.5);
  b.counted(at.cu_seqlens, sequences.bounds, kBoundsSlot, sequences.bounds.back());
}

void make_gated_delta_rule(CaseBuilder& b) {
  const Variant& v = b.variant();
  const DeltaSize& size = kDeltas[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  b.attrs(tern_gated_delta_rule_attrs{static_cast<float>(1.0 / std::sqrt(static_cast<double>(size.key_dim))),
                                      sequences.longest});
  fill_delta(b, size, sequences,
             {TERN_GATED_DELTA_RULE_Q, TERN_GATED_DELTA_RULE_K, TERN_GATED_DELTA_RULE_V, TERN_GATED_DELTA_RULE_DECAY,
              TERN_GATED_DELTA_RULE_BETA, TERN_GATED_DELTA_RULE_CU_SEQLENS});
  // options: a state; none
  if (v.option == 0) {
    fill_seats(b, sequences, {TERN_GATED_DELTA_RULE_KV_LENS, TERN_GATED_DELTA_RULE_SEATS, TERN_GATED_DELTA_RULE_STATE},
               TERN_F32, {size.heads, size.key_dim, size.value_dim});
  }
  b.out(TERN_GATED_DELTA_RULE_OUT, v.out, {size.rows, size.heads, size.value_dim}, 0);
}

void make_gated_delta_rule_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const DeltaSize& size = kDeltas[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  b.attrs(tern_gated_delta_rule_backward_attrs{static_cast<float>(1.0 / std::sqrt(static_cast<double>(size.key_dim))),
                                               sequences.longest});
  fill_delta(b, size, sequences,
             {TERN_GATED_DELTA_RULE_BACKWARD_Q, TERN_GATED_DELTA_RULE_BACKWARD_K, TERN_GATED_DELTA_RULE_BACKWARD_V,
              TERN_GATED_DELTA_RULE_BACKWARD_DECAY, TERN_GATED_DELTA_RULE_BACKWARD_BETA,
              TERN_GATED_DELTA_RULE_BACKWARD_CU_SEQLENS});
  const Shape of_keys = {size.rows, size.k_heads, size.key_dim};
  const Shape of_values = {size.rows, size.heads, size.value_dim};
  b.real(TERN_GATED_DELTA_RULE_BACKWARD_DOUT, v.in, of_values, 0);
  b.out(TERN_GATED_DELTA_RULE_BACKWARD_DQ, v.out, of_keys, 0);
  b.out(TERN_GATED_DELTA_RULE_BACKWARD_DK, v.out, of_keys, 0);
  b.out(TERN_GATED_DELTA_RULE_BACKWARD_DV, v.out, of_values, 0);
  b.out(TERN_GATED_DELTA_RULE_BACKWARD_DDECAY, TERN_F32, {size.rows, size.heads}, 0);
  b.out(TERN_GATED_DELTA_RULE_BACKWARD_DBETA, TERN_F32, {size.rows, size.heads}, 0);
}

// Heads that share b and c, and states of 128, are what published models have.
struct ScanSize {
  std::int64_t rows, sequences, groups, heads, state_size, head_dim;
};
constexpr std::array<ScanSize, 10> kScans = {{{24, 3, 2, 4, 32, 32},
                                              {17, 4, 1, 3, 10, 14},
                                              {37, 2, 3, 6, 24, 40},
                                              {1, 1, 1, 1, 8, 8},
                                              {150, 1, 1, 20, 16, 17},
                                              {300, 300, 1, 1, 7, 9},
                                              {70, 2, 2, 4, 128, 128},
                                              {70001, 301, 1, 1, 2, 2},
                                              {0, 1, 1, 2, 16, 16},
                                              {331, 3, 2, 2, 16, 72}}};

struct ScanArgs {
  int x, dt, a, b, c, d, cu_seqlens;
};

// Heads that keep almost all and such that forget soon; a row counts for nothing, or makes all be forgotten, now and
// then.
void fill_scan(CaseBuilder& b, const ScanSize& size, const Sequences& sequences, const ScanArgs& at, bool skips) {
  const tern_dtype in = b.variant().in;
  const Shape of_states = {size.rows, size.groups, size.state_size};
  std::vector<double> rates(static_cast<std::size_t>(size.heads));
  for (double& rate : rates) rate = -0.05 - 2.0 * b.random().uniform();
  std::vector<double> steps(static_cast<std::size_t>(sequences.rows * size.heads));
  for (double& step : steps) {
    const std::int64_t kind = b.random().below(16);
    step = kind == 0 ? 0.0 : kind == 1 ? 9.0 : 0.05 + 0.3 * b.random().uniform();
  }
  b.real(at.x, in, {size.rows, size.heads, size.head_dim}, 0);
  b.values(at.dt, TERN_F32, {size.rows, size.heads}, steps, 0, 0, 0.5);
  b.values(at.a, TERN_F32, {size.heads}, rates);
  b.real(at.b, in, of_states, 0);
  b.real(at.c, in, of_states, 0);
  if (skips) b.real(at.d, in, {size.heads});
  b.counted(at.cu_seqlens, sequences.bounds, kBoundsSlot, sequences.bounds.back());
}

void make_selective_scan(CaseBuilder& b) {
  const Variant& v = b.variant();
  const ScanSize& size = kScans[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  b.attrs(tern_selective_scan_attrs{sequences.longest});
  // options: a state; none; a state and no d
  fill_scan(b, size, sequences,
            {TERN_SELECTIVE_SCAN_X, TERN_SELECTIVE_SCAN_DT, TERN_SELECTIVE_SCAN_A, TERN_SELECTIVE_SCAN_B,
             TERN_SELECTIVE_SCAN_C, TERN_SELECTIVE_SCAN_D, TERN_SELECTIVE_SCAN_CU_SEQLENS},
            v.option != 2);
  if (v.option != 1) {
    fill_seats(b, sequences, {TERN_SELECTIVE_SCAN_KV_LENS, TERN_SELECTIVE_SCAN_SEATS, TERN_SELECTIVE_SCAN_STATE},
               TERN_F32, {size.heads, size.state_size, size.head_dim});
  }
  b.out(TERN_SELECTIVE_SCAN_OUT, v.out, {size.rows, size.heads, size.head_dim}, 0);
}

void make_selective_scan_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const ScanSize& size = kScans[static_cast<std::size_t>(v.size)];
  const Sequences sequences = make_sequences(b, size.rows, size.sequences);
  b.attrs(tern_selective_scan_backward_attrs{sequences.longest});
  // options: all gradients; those of rows alone; neither d nor its gradient
  fill_scan(b, size, sequences,
            {TERN_SELECTIVE_SCAN_BACKWARD_X, TERN_SELECTIVE_SCAN_BACKWARD_DT, TERN_SELECTIVE_SCAN_BACKWARD_A,
             TERN_SELECTIVE_SCAN_BACKWARD_B, TERN_SELECTIVE_SCAN_BACKWARD_C, TERN_SELECTIVE_SCAN_BACKWARD_D,
             TERN_SELECTIVE_SCAN_BACKWARD_CU_SEQLENS},
            v.option != 2);
  const Shape of_heads = {size.rows, size.heads, size.head_dim};
  const Shape of_states = {size.rows, size.groups, size.state_size};
  b.real(TERN_SELECTIVE_SCAN_BACKWARD_DOUT, v.in, of_heads, 0);
  b.out(TERN_SELECTIVE_SCAN_BACKWARD_DX, v.out, of_heads, 0);
  b.out(TERN_SELECTIVE_SCAN_BACKWARD_DDT, TERN_F32, {size.rows, size.heads}, 0);
  if (v.option != 1) b.out(TERN_SELECTIVE_SCAN_BACKWARD_DA, TERN_F32, {size.heads});
  b.out(TERN_SELECTIVE_SCAN_BACKWARD_DB, v.out, of_states, 0);
  b.out(TERN_SELECTIVE_SCAN_BACKWARD_DC, v.out, of_states, 0);
  if (v.option == 0) b.out(TERN_SELECTIVE_SCAN_BACKWARD_DD, TERN_F32, {size.heads});
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kMixed;

constexpr Recipe kRecipes[] = {
    {TERN_OP_CAUSAL_CONV1D, kConvs.size(), 3, kUsual | kSpecials, make_causal_conv1d},
    {TERN_OP_CAUSAL_CONV1D_BACKWARD, kConvs.size(), 3, kUsual | kSpecials | kAccumulates | kReduces,
     make_causal_conv1d_backward},
    {TERN_OP_GATED_DELTA_RULE, kDeltas.size(), 2, kUsual | kSpecials | kReduces, make_gated_delta_rule},
    {TERN_OP_GATED_DELTA_RULE_BACKWARD, kDeltas.size(), 1, kUsual | kReduces, make_gated_delta_rule_backward},
    {TERN_OP_SELECTIVE_SCAN, kScans.size(), 3, kUsual | kSpecials | kReduces, make_selective_scan},
    {TERN_OP_SELECTIVE_SCAN_BACKWARD, kScans.size(), 3, kUsual | kAccumulates | kReduces, make_selective_scan_backward},
};

}  // namespace

std::span<const Recipe> recurrent_recipes() { return kRecipes; }

}  // namespace tern::conformance
