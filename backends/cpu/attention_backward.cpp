// attention_backward: the scores are made again tile by tile (Dao et al., arXiv:2205.14135, algorithm 4). One task
// holds all query rows of one sequence and kv head, so dk and dv are sums in one fixed order.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_operand.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

// One thread's memory, in floats.
struct Space {
  std::int64_t rows;
  std::int64_t q, dout, q_rows, dout_rows, wide, columns, turned, scores, dp, dq, stats, gathered, scratch;
  std::int64_t dk, dv, total;
};

Space lay_out(const PanelFormat& format, std::int64_t head_dim, std::int64_t value_dim, std::int64_t keys) {
  const GemmKernels& kernels = *format.kernels;
  const std::int64_t dim = std::max(head_dim, value_dim), columns = round_up(dim, kernels.nr);
  Space s{};
  s.rows = kernels.mr * kTilePanels;
  std::int64_t at = 0;
  const auto take = [&at](std::int64_t floats) {
    const std::int64_t begin = at;
    at += round_up(floats, 16);
    return begin;
  };
  s.q = take(s.rows * format.steps(head_dim));
  s.dout = take(s.rows * format.steps(value_dim));
  s.q_rows = take(s.rows * head_dim);
  s.dout_rows = take(s.rows * value_dim);
  s.wide = take(kKeyBlock * format.steps(dim));                           // keys or values across
  s.columns = take(columns * format.steps(std::max(kKeyBlock, s.rows)));  // features across
  s.turned = take(std::max(s.rows * format.steps(kKeyBlock), round_up(kKeyBlock, kernels.mr) * format.steps(s.rows)));
  s.scores = take(s.rows * kKeyBlock);
  s.dp = take(s.rows * kKeyBlock);
  s.dq = take(s.rows * head_dim);
  s.stats = take(2 * s.rows);
  s.gathered = take(value_dim);
  s.scratch = take(kPackScratch);
  s.dk = take(keys * head_dim);
  s.dv = take(keys * value_dim);
  s.total = at;
  return s;
}

struct Backward {
  const KernelArgs& args;
  const PanelFormat format;
  const RowKernels& rows;
  const Geometry geometry;
  const Space space;
  Kept<Sequence> sequences;
  float* deltas;  // [q_rows, heads]: sum of dout out
  float* workspace;

  [[nodiscard]] const TensorView& arg(int i) const { return args[i]; }
};

GemmOperand floats(const float* data, std::int64_t stride_outer, std::int64_t stride_k) {
  GemmOperand operand;
  operand.data = data;
  operand.stride_outer = stride_outer;
  operand.stride_k = stride_k;
  return operand;
}

struct Unit {  // one sequence and kv head
  const Backward& b;
  const Sequence& s;
  std::int64_t kv_head;
  float* mine;

  [[nodiscard]] std::uint32_t* words(std::int64_t at) const { return reinterpret_cast<std::uint32_t*>(mine + at); }
  void pack(const GemmOperand& from, std::int64_t outer, std::int64_t k, std::int64_t width, std::int64_t to) const {
    pack_panels(b.format, from, 0, outer, 0, k, width, words(to), width * b.format.steps(k), mine + b.space.scratch);
  }
};

// Query rows, their gradients, deltas and lse of a tile.
void load_tile(const Unit& u, const QueryTile& tile, std::int64_t width) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  const GemmKernels& kernels = *b.format.kernels;
  const HeadRows q = head_rows(b.arg(TERN_ATTENTION_BACKWARD_Q), 0);
  const HeadRows dout = head_rows(b.arg(TERN_ATTENTION_BACKWARD_DOUT), 0);
  const HeadRows out = head_rows(b.arg(TERN_ATTENTION_BACKWARD_OUT), 0);
  const TensorView& lse = b.arg(TERN_ATTENTION_BACKWARD_LSE);
  float* stats = u.mine + b.space.stats;
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t row = u.s.q0 + (tile.first + r) / g.group;
    const std::int64_t head = u.kv_head * g.group + (tile.first + r) % g.group;
    float* gradient = u.mine + b.space.dout_rows + r * g.value_dim;
    read_row(kernels, q, row, head, g.head_dim, u.mine + b.space.q_rows + r * g.head_dim);
    read_row(kernels, dout, row, head, g.value_dim, gradient);
    read_row(kernels, out, row, head, g.value_dim, u.mine + b.space.gathered);
    const float delta = b.rows.dot(gradient, u.mine + b.space.gathered, g.value_dim);
    b.deltas[row * g.heads + head] = delta;
    stats[r] = delta;
    stats[b.space.rows + r] = lse.data<float>()[row * lse.stride(0) + head * lse.stride(1)];
  }
  u.pack(floats(u.mine + b.space.q_rows, g.head_dim, 1), tile.count, g.head_dim, width, b.space.q);
  u.pack(floats(u.mine + b.space.dout_rows, g.value_dim, 1), tile.count, g.value_dim, width, b.space.dout);
}

// p and the scores' gradient of a tile by keys [k0, k0 + n), in space.scores and space.dp.
void score_block(const Unit& u, const QueryTile& tile, std::int64_t width, std::int64_t k0, std::int64_t n,
                 const HeadRows& keys, const HeadRows& values) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  const std::int64_t nr = b.format.kernels->nr;
  float* scratch = u.mine + b.space.scratch;
  float* scores = u.mine + b.space.scores;
  float* dp = u.mine + b.space.dp;
  pack_rows_outer(b.format, keys, u.kv_head, k0, n, g.head_dim, nr, u.words(b.space.wide), nullptr, scratch);
  multiply_panels(b.format, g.head_dim, u.words(b.space.q), width, u.words(b.space.wide), scores, kKeyBlock, tile.count,
                  n, false);
  pack_rows_outer(b.format, values, u.kv_head, k0, n, g.value_dim, nr, u.words(b.space.wide), nullptr, scratch);
  multiply_panels(b.format, g.value_dim, u.words(b.space.dout), width, u.words(b.space.wide), dp, kKeyBlock, tile.count,
                  n, false);
  const float* stats = u.mine + b.space.stats;
  for (std::int64_t r = 0; r < tile.count; ++r) {
    const std::int64_t i = (tile.first + r) / g.group;
    const Geometry::Range seen = g.visible(u.s, i);
    const std::int64_t lo = std::clamp<std::int64_t>(seen.lo - k0, 0, n);
    const std::int64_t hi = std::clamp<std::int64_t>(seen.hi - k0, 0, n);
    float* row = scores + r * kKeyBlock;
    float* gradient = dp + r * kKeyBlock;
    b.rows.softmax_backward(row, gradient, n, lo, hi, g.logits, stats[b.space.rows + r], stats[r]);
    if (!g.mask.present() || lo >= hi) continue;
    g.mask.hide(u.s.q0 + i, k0 + lo, k0 + hi, 0.0F, row + lo);
    g.mask.hide(u.s.q0 + i, k0 + lo, k0 + hi, 0.0F, gradient + lo);
  }
}

// sums[n, dim] += left[rows, n]^T right[rows, dim]
void add_transposed(const Unit& u, const float* left, std::int64_t n, const float* right, std::int64_t dim,
                    std::int64_t rows, float* sums) {
  const Backward& b = u.b;
  const std::int64_t width = std::min<std::int64_t>(n, b.format.kernels->mr);
  u.pack(floats(left, 1, kKeyBlock), n, rows, width, b.space.turned);
  u.pack(floats(right, 1, dim), dim, rows, b.format.kernels->nr, b.space.columns);
  multiply_panels(b.format, rows, u.words(b.space.turned), width, u.words(b.space.columns), sums, dim, n, dim, true);
}

void add_tile(const Unit& u, const QueryTile& tile, const HeadRows& keys, const HeadRows& values) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  const std::int64_t width = std::min<std::int64_t>(tile.count, b.format.kernels->mr);
  float* dq = u.mine + b.space.dq;
  const std::int64_t lo = g.visible(u.s, tile.first / g.group).lo;
  const std::int64_t hi = g.visible(u.s, (tile.first + tile.count - 1) / g.group).hi;
  for (std::int64_t k0 = lo; k0 < hi; k0 += kKeyBlock) {
    const std::int64_t n = std::min(kKeyBlock, hi - k0);
    score_block(u, tile, width, k0, n, keys, values);
    const float* p = u.mine + b.space.scores;
    const float* ds = u.mine + b.space.dp;
    add_transposed(u, p, n, u.mine + b.space.dout_rows, g.value_dim, tile.count,
                   u.mine + b.space.dv + k0 * g.value_dim);
    add_transposed(u, ds, n, u.mine + b.space.q_rows, g.head_dim, tile.count, u.mine + b.space.dk + k0 * g.head_dim);
    u.pack(floats(ds, kKeyBlock, 1), tile.count, n, width, b.space.turned);
    pack_rows_k(b.format, keys, u.kv_head, k0, n, g.head_dim, b.format.kernels->nr, u.words(b.space.columns), nullptr,
                u.mine + b.space.scratch);
    multiply_panels(b.format, n, u.words(b.space.turned), width, u.words(b.space.columns), dq, g.head_dim, tile.count,
                    g.head_dim, true);
  }
}

// Whether nothing that the unit reads is NaN or infinite.
bool all_finite(const Unit& u) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  float* row = u.mine + b.space.scratch;
  const auto finite = [&](int arg, std::int64_t r, std::int64_t head, std::int64_t n) {
    std::int64_t done = 0;
    for (; done < n; done += kPackScratch) {
      HeadRows rows = head_rows(b.arg(arg), 0);
      rows.data += done * rows.stride_element * dtype_size(rows.dtype);
      const std::int64_t part = std::min(kPackScratch, n - done);
      read_row(*b.format.kernels, rows, r, head, part, row);
      if (!b.rows.finite(row, part)) return false;
    }
    return true;
  };
  for (std::int64_t j = 0; j < u.s.len_k; ++j) {
    if (!finite(TERN_ATTENTION_BACKWARD_K, u.s.k0 + j, u.kv_head, g.head_dim)) return false;
    if (!finite(TERN_ATTENTION_BACKWARD_V, u.s.k0 + j, u.kv_head, g.value_dim)) return false;
  }
  for (std::int64_t i = 0; i < u.s.len_q; ++i) {
    for (std::int64_t h = u.kv_head * g.group; h < (u.kv_head + 1) * g.group; ++h) {
      if (!finite(TERN_ATTENTION_BACKWARD_Q, u.s.q0 + i, h, g.head_dim)) return false;
      if (!finite(TERN_ATTENTION_BACKWARD_DOUT, u.s.q0 + i, h, g.value_dim)) return false;
      if (!finite(TERN_ATTENTION_BACKWARD_OUT, u.s.q0 + i, h, g.value_dim)) return false;
    }
  }
  return true;
}

// The gradient of one query row, key by key: in products of tiles, masked pairs would catch a NaN as 0 times NaN.
void run_row(const Unit& u, const QueryTile& tile, std::int64_t r, const HeadRows& keys, const HeadRows& values) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  const float* q = u.mine + b.space.q_rows + r * g.head_dim;
  const float* dout = u.mine + b.space.dout_rows + r * g.value_dim;
  const float* stats = u.mine + b.space.stats;
  float* dq = u.mine + b.space.dq + r * g.head_dim;
  std::vector<float> key(static_cast<std::size_t>(g.head_dim)), value(static_cast<std::size_t>(g.value_dim));
  float score[16], dp[16];  // a vector's width: what softmax_backward reads
  const std::int64_t i = (tile.first + r) / g.group;
  const Geometry::Range seen = g.visible(u.s, i);
  for (std::int64_t j = seen.lo; j < seen.hi; ++j) {
    if (!g.mask.shows(u.s.q0 + i, j)) continue;
    read_row(*b.format.kernels, keys, j, u.kv_head, g.head_dim, key.data());
    read_row(*b.format.kernels, values, j, u.kv_head, g.value_dim, value.data());
    std::fill_n(score, 16, b.rows.dot(q, key.data(), g.head_dim));
    std::fill_n(dp, 16, b.rows.dot(dout, value.data(), g.value_dim));
    b.rows.softmax_backward(score, dp, 1, 0, 1, g.logits, stats[b.space.rows + r], stats[r]);
    float* dk = u.mine + b.space.dk + j * g.head_dim;
    float* dv = u.mine + b.space.dv + j * g.value_dim;
    for (std::int64_t c = 0; c < g.head_dim; ++c) {
      dq[c] += dp[0] * key[static_cast<std::size_t>(c)];
      dk[c] += dp[0] * q[c];
    }
    for (std::int64_t c = 0; c < g.value_dim; ++c) dv[c] += score[0] * dout[c];
  }
}

void run_unit(const Unit& u) {
  const Backward& b = u.b;
  const Geometry& g = b.geometry;
  float* dk = u.mine + b.space.dk;
  float* dv = u.mine + b.space.dv;
  std::fill_n(dk, u.s.len_k * g.head_dim, 0.0F);
  std::fill_n(dv, u.s.len_k * g.value_dim, 0.0F);
  const HeadRows keys = head_rows(b.arg(TERN_ATTENTION_BACKWARD_K), u.s.k0);
  const HeadRows values = head_rows(b.arg(TERN_ATTENTION_BACKWARD_V), u.s.k0);
  const std::int64_t rows = u.s.len_q * g.group;
  const bool clean = all_finite(u);
  for (std::int64_t first = 0; first < rows; first += b.space.rows) {
    const QueryTile tile{0, static_cast<std::int32_t>(u.kv_head), first, std::min(b.space.rows, rows - first)};
    load_tile(u, tile, std::min<std::int64_t>(tile.count, b.format.kernels->mr));
    float* dq = u.mine + b.space.dq;
    std::fill_n(dq, tile.count * g.head_dim, 0.0F);
    if (clean) {
      add_tile(u, tile, keys, values);
    } else {
      for (std::int64_t r = 0; r < tile.count; ++r) run_row(u, tile, r, keys, values);
    }
    for (std::int64_t r = 0; r < tile.count; ++r) {
      write_row(*b.format.kernels, b.arg(TERN_ATTENTION_BACKWARD_DQ), u.s.q0 + (first + r) / g.group,
                u.kv_head * g.group + (first + r) % g.group, dq + r * g.head_dim, g.head_dim);
    }
  }
  for (std::int64_t j = 0; j < u.s.len_k; ++j) {
    write_row(*b.format.kernels, b.arg(TERN_ATTENTION_BACKWARD_DK), u.s.k0 + j, u.kv_head, dk + j * g.head_dim,
              g.head_dim);
    write_row(*b.format.kernels, b.arg(TERN_ATTENTION_BACKWARD_DV), u.s.k0 + j, u.kv_head, dv + j * g.value_dim,
              g.value_dim);
  }
}

// The sink is a score of its own whose value is 0: its gradient is -p delta, over the rows in order.
void sum_sinks(const Backward& b) {
  const TensorView& sinks = b.arg(TERN_ATTENTION_BACKWARD_SINKS);
  const TensorView& dsinks = b.arg(TERN_ATTENTION_BACKWARD_DSINKS);
  const TensorView& lse = b.arg(TERN_ATTENTION_BACKWARD_LSE);
  if (!dsinks.present()) return;
  for (std::int64_t h = 0; h < b.geometry.heads; ++h) {
    double sum = 0;
    for (const Sequence& s : b.sequences) {
      for (std::int64_t i = 0; sinks.present() && i < s.len_q; ++i) {
        if (!b.geometry.sees_any(s, i)) continue;
        const float row_lse = lse.data<float>()[(s.q0 + i) * lse.stride(0) + h * lse.stride(1)];
        sum -= std::exp(static_cast<double>(sinks.data<float>()[h * sinks.stride(0)]) - row_lse) *
               b.deltas[(s.q0 + i) * b.geometry.heads + h];
      }
    }
    float& to = dsinks.data<float>()[h * dsinks.stride(0)];
    to = static_cast<float>(b.args.accumulates(TERN_ATTENTION_BACKWARD_DSINKS) ? to + sum : sum);
  }
}

bool same_rows(const tern_tensor_desc& a, const tern_tensor_desc& b) {
  return is_product_dtype(a.dtype) && a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

bool backward_supports(const PlanDesc& desc, std::string& reason) {
  const auto& q = desc.arg(TERN_ATTENTION_BACKWARD_Q);
  const auto& k = desc.arg(TERN_ATTENTION_BACKWARD_K);
  const auto& v = desc.arg(TERN_ATTENTION_BACKWARD_V);
  if (!check_attention({q, k, v, desc.arg(TERN_ATTENTION_BACKWARD_MASK), 3}, reason)) return false;
  tern_tensor_desc out = q;
  out.shape[2] = v.shape[2];
  const auto& lse = desc.arg(TERN_ATTENTION_BACKWARD_LSE);
  const bool lse_fits =
      lse.dtype == TERN_F32 && lse.rank == 2 && lse.shape[0] == q.shape[0] && lse.shape[1] == q.shape[1];
  bool fits = lse_fits && same_rows(desc.arg(TERN_ATTENTION_BACKWARD_DOUT), out) &&
              same_rows(desc.arg(TERN_ATTENTION_BACKWARD_OUT), out) &&
              same_rows(desc.arg(TERN_ATTENTION_BACKWARD_DQ), q) &&
              same_rows(desc.arg(TERN_ATTENTION_BACKWARD_DK), k) && same_rows(desc.arg(TERN_ATTENTION_BACKWARD_DV), v);
  for (const int i : {TERN_ATTENTION_BACKWARD_SINKS, TERN_ATTENTION_BACKWARD_DSINKS}) {
    const auto& sinks = desc.arg(i);
    fits = fits && (sinks.rank == 0 || (sinks.dtype == TERN_F32 && sinks.rank == 1 && sinks.shape[0] == q.shape[1]));
  }
  if (!fits) reason = "the dtype or the shape of an argument does not fit q, k and v";
  return fits;
}

tern_dtype backward_compute(tern_dtype q, tern_dtype k, tern_dtype v, tern_dtype dout) {
  return dout == TERN_BF16 ? attention_compute(q, k, v) : TERN_F32;
}

std::int64_t longest_keys(const tern_attention_backward_attrs& attrs, std::int64_t k_rows) {
  return attrs.max_seqlen_k > 0 ? std::min<std::int64_t>(attrs.max_seqlen_k, k_rows) : k_rows;
}

std::uint64_t backward_workspace(const PlanDesc& desc) {
  const auto& q = desc.arg(TERN_ATTENTION_BACKWARD_Q);
  const auto& k = desc.arg(TERN_ATTENTION_BACKWARD_K);
  const auto& v = desc.arg(TERN_ATTENTION_BACKWARD_V);
  const PanelFormat format = panel_format(
      desc.target, backward_compute(q.dtype, k.dtype, v.dtype, desc.arg(TERN_ATTENTION_BACKWARD_DOUT).dtype));
  const std::int64_t keys = longest_keys(desc.attrs<tern_attention_backward_attrs>(), k.shape[0]);
  const Space space = lay_out(format, q.shape[2], v.shape[2], keys);
  return static_cast<std::uint64_t>(round_up(q.shape[0] * q.shape[1], 16) + space.total * desc.num_threads) * 4;
}

void backward_run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_attention_backward_attrs>();
  const TensorView& q = args[TERN_ATTENTION_BACKWARD_Q];
  const TensorView& k = args[TERN_ATTENTION_BACKWARD_K];
  const TensorView& v = args[TERN_ATTENTION_BACKWARD_V];
  const PanelFormat format = panel_format(
      args.target, backward_compute(q.dtype(), k.dtype(), v.dtype(), args[TERN_ATTENTION_BACKWARD_DOUT].dtype()));
  const std::int64_t keys = longest_keys(attrs, k.dim(0));
  auto* deltas = reinterpret_cast<float*>(args.workspace);
  Backward b{args,
             format,
             row_kernels(args.target),
             make_geometry(attrs, q, k.dim(1), v.dim(2), args[TERN_ATTENTION_BACKWARD_MASK]),
             lay_out(format, q.dim(2), v.dim(2), keys),
             {},
             deltas,
             deltas + round_up(q.dim(0) * q.dim(1), 16)};
  const auto cu_q = read_lengths(args, 0, TERN_ATTENTION_BACKWARD_CU_SEQLENS_Q);
  const auto cu_k = read_lengths(args, 1, TERN_ATTENTION_BACKWARD_CU_SEQLENS_K);
  check_cumulated(cu_q, q.dim(0), "cu_seqlens_q");
  check_cumulated(cu_k, k.dim(0), "cu_seqlens_k");
  b.sequences = packed_sequences(cu_q, cu_k);
  check_keys(b.sequences, b.geometry.has_borders(), keys, args[TERN_ATTENTION_BACKWARD_MASK], "cu_seqlens_k");
  fill_outside(args[TERN_ATTENTION_BACKWARD_DQ], cu_q, 0.0F);
  fill_outside(args[TERN_ATTENTION_BACKWARD_DK], cu_k, 0.0F);
  fill_outside(args[TERN_ATTENTION_BACKWARD_DV], cu_k, 0.0F);
  const auto units = static_cast<std::int64_t>(b.sequences.size()) * b.geometry.kv_heads;
  args.pool->parallel_tasks(units, [&](std::int64_t unit, int thread) {
    run_unit({b, b.sequences[static_cast<std::size_t>(unit / b.geometry.kv_heads)], unit % b.geometry.kv_heads,
              b.workspace + thread * b.space.total});
  });
  sum_sinks(b);
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_ATTENTION_BACKWARD, "flash", backward_supports, backward_workspace, nullptr, backward_run},
};

}  // namespace

KernelList attention_backward_kernels() { return kKernels; }

}  // namespace tern::cpu
