#include <algorithm>
#include <array>
#include <cmath>

#include "conformance/recipe.h"
#include "tern/accel_ops.h"

namespace tern::conformance {
namespace {

using Shape = CaseBuilder::Shape;

constexpr std::array<std::array<std::int64_t, 2>, 9> kRowsWidth = {
    {{16, 64}, {7, 33}, {13, 131}, {1, 1}, {0, 8}, {257, 5}, {3, 4099}, {70001, 2}, {300, 896}}};

// Some rows are so small that the eps of a norm decides; others are `shift` more than usual.
void real_and_small(CaseBuilder& b, int arg, const Shape& shape, std::int64_t valid, double shift = 0.0) {
  if (b.variant().special != 0 || valid == 0) return b.real(arg, b.variant().in, shape, 0);
  std::int64_t width = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) width *= shape[d];
  std::vector<double> elements(static_cast<std::size_t>(valid * width));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::size_t kind = i / static_cast<std::size_t>(width) % 3;
    elements[i] = b.random().term() * (kind == 1 ? 0x1p-9 : 1.0) + (kind == 2 ? shift : 0.0);
  }
  b.values(arg, b.variant().in, shape, elements, 0);
}

void make_rms_norm(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t valid = b.count_for(rows);
  b.attrs(tern_rms_norm_attrs{1e-5F, v.option == 2 ? 1.0F : 0.0F});
  real_and_small(b, TERN_RMS_NORM_X, {rows, width}, valid);
  b.real(TERN_RMS_NORM_WEIGHT, v.option == 1 ? TERN_F32 : v.in, {width});
  b.out(TERN_RMS_NORM_Y, v.out, {rows, width}, 0);
  if (v.option != 2) b.out(TERN_RMS_NORM_RSTD, TERN_F32, {rows}, 0);
  if (v.option == 1) {
    b.real(TERN_RMS_NORM_RESIDUAL, v.in, {rows, width}, 0);
    b.out(TERN_RMS_NORM_SUM, v.out, {rows, width}, 0);
    if (v.alias) b.share(TERN_RMS_NORM_SUM, TERN_RMS_NORM_RESIDUAL);
  } else if (v.alias) {
    b.share(TERN_RMS_NORM_Y, TERN_RMS_NORM_X);
  }
}

std::vector<double> rstds(CaseBuilder& b, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& x : out) x = 0.7 + b.random().uniform();
  return out;
}

void make_rms_norm_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  const Shape shape = {capacity, width};
  b.attrs(tern_rms_norm_backward_attrs{v.option == 2 ? 1.0F : 0.0F});
  b.real(TERN_RMS_NORM_BACKWARD_DY, v.in, shape, 0);
  b.real(TERN_RMS_NORM_BACKWARD_X, v.in, shape, 0);
  b.real(TERN_RMS_NORM_BACKWARD_WEIGHT, v.in, {width});
  b.values(TERN_RMS_NORM_BACKWARD_RSTD, TERN_F32, {capacity}, rstds(b, rows), 0);
  if (v.option == 1) b.real(TERN_RMS_NORM_BACKWARD_DSUM, v.in, shape, 0);
  b.out(TERN_RMS_NORM_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 2) b.out(TERN_RMS_NORM_BACKWARD_DWEIGHT, TERN_F32, {width});
  if (v.alias)
    b.share(TERN_RMS_NORM_BACKWARD_DX, v.option == 1 ? TERN_RMS_NORM_BACKWARD_DSUM : TERN_RMS_NORM_BACKWARD_DY);
}

// Of rows whose mean is far from 0 against their spread, a variance by mean squares alone has no digits left. Sums of
// these and a residual lie between two powers of 2, so that differences of rounded sums are slopes.
constexpr double kFarMean = 96.0;

void make_layer_norm(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t valid = b.count_for(rows);
  b.attrs(tern_layer_norm_attrs{1e-5F});
  real_and_small(b, TERN_LAYER_NORM_X, {rows, width}, valid, kFarMean);
  b.real(TERN_LAYER_NORM_WEIGHT, v.option == 1 ? TERN_F32 : v.in, {width});
  if (v.option != 2) b.real(TERN_LAYER_NORM_BIAS, v.in, {width});
  b.out(TERN_LAYER_NORM_Y, v.out, {rows, width}, 0);
  if (v.option != 3) {
    b.out(TERN_LAYER_NORM_MEAN, TERN_F32, {rows}, 0);
    b.out(TERN_LAYER_NORM_RSTD, TERN_F32, {rows}, 0);
  }
  if (v.option == 1) {
    b.real(TERN_LAYER_NORM_RESIDUAL, v.in, {rows, width}, 0);
    b.out(TERN_LAYER_NORM_SUM, v.out, {rows, width}, 0);
    if (v.alias) b.share(TERN_LAYER_NORM_SUM, TERN_LAYER_NORM_RESIDUAL);
  } else if (v.alias) {
    b.share(TERN_LAYER_NORM_Y, TERN_LAYER_NORM_X);
  }
}

std::vector<double> means_of(const ops::ref::Tensor& x) {
  std::vector<double> out(static_cast<std::size_t>(x.size(0)));
  const auto width = static_cast<std::size_t>(x.size(1));
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t c = 0; c < width; ++c) out[r] += x.real[r * width + c] / static_cast<double>(width);
  }
  return out;
}

void make_layer_norm_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  const Shape shape = {capacity, width};
  b.real(TERN_LAYER_NORM_BACKWARD_DY, v.in, shape, 0);
  b.real(TERN_LAYER_NORM_BACKWARD_X, v.in, shape, 0);
  b.real(TERN_LAYER_NORM_BACKWARD_WEIGHT, v.in, {width});
  b.values(TERN_LAYER_NORM_BACKWARD_MEAN, TERN_F32, {capacity}, means_of(b.decoded(TERN_LAYER_NORM_BACKWARD_X)), 0);
  b.values(TERN_LAYER_NORM_BACKWARD_RSTD, TERN_F32, {capacity}, rstds(b, rows), 0);
  if (v.option == 1) b.real(TERN_LAYER_NORM_BACKWARD_DSUM, v.in, shape, 0);
  b.out(TERN_LAYER_NORM_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 2) b.out(TERN_LAYER_NORM_BACKWARD_DWEIGHT, TERN_F32, {width});
  if (v.option != 3) b.out(TERN_LAYER_NORM_BACKWARD_DBIAS, TERN_F32, {width});
  if (v.alias)
    b.share(TERN_LAYER_NORM_BACKWARD_DX, v.option == 1 ? TERN_LAYER_NORM_BACKWARD_DSUM : TERN_LAYER_NORM_BACKWARD_DY);
}

// rows, heads, head_dim, rotary.
constexpr std::array<std::array<std::int64_t, 4>, 10> kHeads = {{{16, 4, 32, 32},
                                                                 {7, 3, 10, 6},
                                                                 {13, 5, 34, 34},
                                                                 {1, 1, 2, 2},
                                                                 {0, 2, 8, 8},
                                                                 {101, 9, 64, 64},
                                                                 {19, 8, 96, 96},
                                                                 {9, 2, 256, 64},
                                                                 {70001, 1, 2, 2},
                                                                 {300, 3, 128, 128}}};

// Positions, and the tables that they index, for the arguments beginning at `positions`.
void rotation_tables(CaseBuilder& b, int positions, std::int64_t capacity, std::int64_t rows, std::int64_t half) {
  const std::int64_t num_positions = half < 32 ? 61 : 4099;  // those of a long prompt with heads of a real size
  std::vector<std::int64_t> at(static_cast<std::size_t>(rows));
  for (std::int64_t& position : at) position = b.random().below(num_positions);
  b.integers(positions, TERN_I32, {capacity}, at, 0);
  std::vector<double> cos;
  std::vector<double> sin;
  const double base = 10000.0 * (1.0 + b.random().uniform());
  for (std::int64_t p = 0; p < num_positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  b.values(positions + 1, TERN_F32, {num_positions, half}, cos);
  b.values(positions + 2, TERN_F32, {num_positions, half}, sin);
}

void make_rope(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_rope_attrs{v.option == 1 ? 1 : 0, v.option == 2 ? 1 : 0});
  b.real(TERN_ROPE_X, v.in, {capacity, heads, head_dim}, 0);
  rotation_tables(b, TERN_ROPE_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_ROPE_Y, v.out, {capacity, heads, head_dim}, 0);
  if (v.alias) b.share(TERN_ROPE_Y, TERN_ROPE_X);
}

// Options of a norm of heads: turned halves; turned pairs; an offset, and no rstd or gradient of the weight kept; a
// norm alone; one without a weight; the last two together.
bool turns(int option) { return option != 3 && option != 5; }
bool has_weight(int option) { return option < 4; }
float norm_offset(int option) { return option == 2 ? 1.0F : has_weight(option) ? 0.0F : 0.125F; }

void make_qk_norm_rope(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  b.attrs(tern_qk_norm_rope_attrs{1e-6F, norm_offset(v.option), v.option == 1 ? 1 : 0});
  real_and_small(b, TERN_QK_NORM_ROPE_X, {capacity, heads, head_dim}, rows);
  if (has_weight(v.option)) b.real(TERN_QK_NORM_ROPE_WEIGHT, v.in, {head_dim});
  if (turns(v.option)) rotation_tables(b, TERN_QK_NORM_ROPE_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_QK_NORM_ROPE_Y, v.out, {capacity, heads, head_dim}, 0);
  if (v.option != 2) b.out(TERN_QK_NORM_ROPE_RSTD, TERN_F32, {capacity, heads}, 0);
  if (v.alias) b.share(TERN_QK_NORM_ROPE_Y, TERN_QK_NORM_ROPE_X);
}

void make_qk_norm_rope_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [capacity, heads, head_dim, rotary] = kHeads[static_cast<std::size_t>(v.size)];
  const std::int64_t rows = b.count_for(capacity);
  const Shape shape = {capacity, heads, head_dim};
  b.attrs(tern_qk_norm_rope_backward_attrs{norm_offset(v.option), v.option == 1 ? 1 : 0});
  b.real(TERN_QK_NORM_ROPE_BACKWARD_DY, v.in, shape, 0);
  b.real(TERN_QK_NORM_ROPE_BACKWARD_X, v.in, shape, 0);
  if (has_weight(v.option)) b.real(TERN_QK_NORM_ROPE_BACKWARD_WEIGHT, v.in, {head_dim});
  b.values(TERN_QK_NORM_ROPE_BACKWARD_RSTD, TERN_F32, {capacity, heads}, rstds(b, rows * heads), 0);
  if (turns(v.option)) rotation_tables(b, TERN_QK_NORM_ROPE_BACKWARD_POSITIONS, capacity, rows, rotary / 2);
  b.out(TERN_QK_NORM_ROPE_BACKWARD_DX, v.out, shape, 0);
  if (v.option != 2 && has_weight(v.option)) b.out(TERN_QK_NORM_ROPE_BACKWARD_DWEIGHT, TERN_F32, {head_dim});
  if (v.alias) b.share(TERN_QK_NORM_ROPE_BACKWARD_DX, TERN_QK_NORM_ROPE_BACKWARD_DY);
}

// Some of a gate's elements are so large that exponentials of them overflow; of a function that `grows` as they do,
// none of those is positive.
std::vector<double> gate_elements(CaseBuilder& b, const Shape& shape, std::int64_t valid, bool grows) {
  std::vector<double> elements(static_cast<std::size_t>(valid * shape[1]));
  for (double& x : elements) {
    const bool large = b.random().below(7) == 0;
    x = b.random().term() * (large ? 100.0 : 1.0);
    if (large && grows) x = -std::fabs(x);
  }
  return elements;
}

void real_gate(CaseBuilder& b, int arg, const Shape& shape, std::int64_t valid, bool grows = false) {
  if (b.variant().special != 0) return b.real(arg, b.variant().in, shape, 0);
  b.values(arg, b.variant().in, shape, gate_elements(b, shape, valid, grows), 0);
}

// No element is within 1/32 of the limit, where there is no slope for differences to find.
void keep_from_limit(std::vector<double>& elements, double limit) {
  if (limit == 0.0) return;
  for (double& x : elements) {
    const double size = std::fabs(x);
    if (std::fabs(size - limit) < 0x1p-5) x = std::copysign(size < limit ? limit - 0x1p-5 : limit + 0x1p-5, x);
  }
}

// Options of act_mul: one with a limit that gate and up exceed is among the first three, which more is tried on.
struct GatedOption {
  tern_act kind;
  float limit;
  float up_offset;
};
constexpr std::array<GatedOption, 6> kGated = {{{TERN_ACT_SILU, 0.0F, 0.0F},
                                                {TERN_ACT_QUICK_GELU, 0.75F, 1.0F},
                                                {TERN_ACT_GELU_TANH, 0.0F, 0.0F},
                                                {TERN_ACT_GELU_ERF, 0.0F, -0.5F},
                                                {TERN_ACT_SIGMOID, 0.0F, 0.0F},
                                                {TERN_ACT_SILU, 3.0F, 0.0F}}};

void make_act_mul(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t valid = b.count_for(rows);
  const GatedOption& option = kGated[static_cast<std::size_t>(v.option)];
  const Shape shape = {rows, width};
  b.attrs(tern_act_mul_attrs{option.kind, option.limit, option.up_offset});
  if (v.special != 0) {
    for (int arg : {TERN_ACT_MUL_GATE, TERN_ACT_MUL_UP}) b.real(arg, v.in, shape, 0);
  } else {
    std::vector<double> gate = gate_elements(b, shape, valid, false);
    std::vector<double> up(gate.size());
    for (double& x : up) x = b.random().term();
    keep_from_limit(gate, option.limit), keep_from_limit(up, option.limit);
    b.values(TERN_ACT_MUL_GATE, v.in, shape, gate, 0);
    b.values(TERN_ACT_MUL_UP, v.in, shape, up, 0);
  }
  b.out(TERN_ACT_MUL_Y, v.out, shape, 0);
  if (v.alias) b.share(TERN_ACT_MUL_Y, v.option == 0 ? TERN_ACT_MUL_GATE : TERN_ACT_MUL_UP);
}

void make_act_mul_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const Shape shape = {rows, width};
  const std::int64_t valid = b.count_for(rows);
  const GatedOption& option = kGated[static_cast<std::size_t>(v.option)];
  b.attrs(tern_act_mul_backward_attrs{option.kind, option.limit, option.up_offset});
  b.real(TERN_ACT_MUL_BACKWARD_DY, v.in, shape, 0);
  real_gate(b, TERN_ACT_MUL_BACKWARD_GATE, shape, valid);
  b.real(TERN_ACT_MUL_BACKWARD_UP, v.in, shape, 0);
  for (int arg : {TERN_ACT_MUL_BACKWARD_DGATE, TERN_ACT_MUL_BACKWARD_DUP}) b.out(arg, v.out, shape, 0);
  if (v.alias) {
    b.share(TERN_ACT_MUL_BACKWARD_DGATE, TERN_ACT_MUL_BACKWARD_GATE);
    b.share(TERN_ACT_MUL_BACKWARD_DUP, v.option == 0 ? TERN_ACT_MUL_BACKWARD_UP : TERN_ACT_MUL_BACKWARD_DY);
  }
}

void make_act(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t valid = b.count_for(rows);
  b.attrs(tern_act_attrs{v.option});
  real_gate(b, TERN_ACT_X, {rows, width}, valid, v.option == TERN_ACT_EXP);
  b.out(TERN_ACT_Y, v.out, {rows, width}, 0);
  if (v.alias) b.share(TERN_ACT_Y, TERN_ACT_X);
}

void make_act_backward(CaseBuilder& b) {
  const Variant& v = b.variant();
  const auto [rows, width] = kRowsWidth[static_cast<std::size_t>(v.size)];
  const std::int64_t valid = b.count_for(rows);
  b.attrs(tern_act_backward_attrs{v.option});
  b.real(TERN_ACT_BACKWARD_DY, v.in, {rows, width}, 0);
  real_gate(b, TERN_ACT_BACKWARD_X, {rows, width}, valid, v.option == TERN_ACT_EXP);
  b.out(TERN_ACT_BACKWARD_DX, v.out, {rows, width}, 0);
  if (v.alias) b.share(TERN_ACT_BACKWARD_DX, v.option == 0 ? TERN_ACT_BACKWARD_X : TERN_ACT_BACKWARD_DY);
}

constexpr std::uint32_t kUsual = kDtypes | kLayouts | kDynamic | kSpecials | kRows | kMixed;

constexpr Recipe kRecipes[] = {
    {TERN_OP_RMS_NORM, kRowsWidth.size(), 3, kUsual | kAliases | kReduces, make_rms_norm},
    {TERN_OP_RMS_NORM_BACKWARD, kRowsWidth.size(), 3, kUsual | kAliases | kAccumulates | kReduces,
     make_rms_norm_backward},
    {TERN_OP_LAYER_NORM, kRowsWidth.size(), 4, kUsual | kAliases | kReduces, make_layer_norm},
    {TERN_OP_LAYER_NORM_BACKWARD, kRowsWidth.size(), 4, kUsual | kAliases | kAccumulates | kReduces,
     make_layer_norm_backward},
    {TERN_OP_ROPE, kHeads.size(), 3, kUsual | kAliases | kAccumulates, make_rope},
    {TERN_OP_QK_NORM_ROPE, kHeads.size(), 6, kUsual | kAliases | kReduces, make_qk_norm_rope},
    {TERN_OP_QK_NORM_ROPE_BACKWARD, kHeads.size(), 6, kUsual | kAliases | kAccumulates | kReduces,
     make_qk_norm_rope_backward},
    {TERN_OP_ACT, kRowsWidth.size(), 7, kUsual | kAliases, make_act},
    {TERN_OP_ACT_BACKWARD, kRowsWidth.size(), 7, kUsual | kAliases, make_act_backward},
    {TERN_OP_ACT_MUL, kRowsWidth.size(), kGated.size(), kUsual | kAliases, make_act_mul},
    {TERN_OP_ACT_MUL_BACKWARD, kRowsWidth.size(), kGated.size(), kUsual | kAliases, make_act_mul_backward},
};

}  // namespace

std::span<const Recipe> layer_recipes() { return kRecipes; }

}  // namespace tern::conformance
