// linear_cross_entropy: logits exist for one block of rows at a time, and where a gradient is asked for they are kept
// until the block's gradients are made, so that no product is computed twice. Rows of weight 0 take no part at all.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/check.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/matmul_operand.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kVocabChunk = 4096;       // columns whose maximum and sum are taken at once
constexpr std::int64_t kMaxRows = 256;           // of a block
constexpr std::int64_t kMaxLogits = 16LL << 20;  // floats of a block that keeps its logits

struct Sizes {
  std::int64_t rows, width, vocab;
  bool gradients;
  std::int64_t block;   // rows
  std::int64_t logits;  // columns that are kept
};

Sizes sizes_of(const tern_tensor_desc& h, const tern_tensor_desc& w, bool gradients) {
  Sizes s{h.shape[0], h.shape[1], w.shape[0], gradients, 0, 0};
  s.logits = gradients ? s.vocab : std::min(s.vocab, kVocabChunk);
  const std::int64_t fit = std::clamp<std::int64_t>(kMaxLogits / std::max<std::int64_t>(s.logits, 1), 16, kMaxRows);
  s.block = std::max<std::int64_t>(1, std::min(s.rows, fit));
  return s;
}

struct Space {  // in floats
  std::int64_t h, logits, dh, stats, product, total;
};

Space lay_out(const Sizes& s, Target target, tern_dtype compute, int num_threads) {
  Space space{};
  space.h = 0;
  space.logits = space.h + round_up(s.block * s.width, 16);
  space.dh = space.logits + round_up(s.block * s.logits, 16);
  space.stats = space.dh + round_up(s.gradients ? s.block * s.width : 0, 16);
  space.product = space.stats + round_up(3 * s.block, 16);
  std::uint64_t bytes = gemm_workspace(target, s.block, std::min(s.vocab, kVocabChunk), s.width, compute, num_threads);
  if (s.gradients) {
    bytes = std::max(bytes, gemm_workspace(target, s.block, s.width, s.vocab, compute, num_threads));
    bytes = std::max(bytes, gemm_workspace(target, s.vocab, s.width, s.block, compute, num_threads));
  }
  space.total = space.product + static_cast<std::int64_t>(bytes / 4);
  return space;
}

// One launch, and the block of active rows that is being worked on.
struct Work {
  const KernelArgs& args;
  const Sizes sizes;
  const Space space;
  const RowKernels& rows;
  const GemmKernels& kernels;
  tern_dtype compute;
  float softcap;
  float* workspace;
  std::vector<std::int64_t> active;  // of the block
  bool first_block = true;

  [[nodiscard]] const TensorView& arg(int i) const { return args[i]; }
  [[nodiscard]] float* at(std::int64_t offset) const { return workspace + offset; }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(active.size()); }
  [[nodiscard]] float weight(std::int64_t row) const {
    const TensorView& weights = arg(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS);
    return weights.data<float>()[row * weights.stride(0)];
  }
  [[nodiscard]] std::int64_t target(std::int64_t row) const {
    const TensorView& targets = arg(TERN_LINEAR_CROSS_ENTROPY_TARGETS);
    return targets.data<std::int32_t>()[row * targets.stride(0)];
  }
  [[nodiscard]] float& max(std::int64_t i) const { return at(space.stats)[i]; }
  [[nodiscard]] float& sum(std::int64_t i) const { return at(space.stats)[sizes.block + i]; }
  [[nodiscard]] float& hit(std::int64_t i) const { return at(space.stats)[2 * sizes.block + i]; }
  void multiply(const Gemm& product) const {
    gemm(args.target, product, reinterpret_cast<std::byte*>(at(space.product)), *args.pool);
  }
};

// A row of a [rows, width] tensor as floats, and the other way round.
void read(const Work& work, const TensorView& tensor, std::int64_t row, float* to) {
  const auto* from = tensor.data<std::byte>() + row * tensor.stride(0) * dtype_size(tensor.dtype());
  if (tensor.stride(1) == 1) return work.kernels.widen(tensor.dtype(), from, to, tensor.dim(1));
  for (std::int64_t i = 0; i < tensor.dim(1); ++i) {
    work.kernels.widen(tensor.dtype(), from + i * tensor.stride(1) * dtype_size(tensor.dtype()), to + i, 1);
  }
}

void write(const Work& work, const TensorView& tensor, std::int64_t row, const float* from) {
  auto* to = tensor.data<std::byte>() + row * tensor.stride(0) * dtype_size(tensor.dtype());
  if (tensor.stride(1) == 1) return work.kernels.narrow(tensor.dtype(), from, to, tensor.dim(1));
  for (std::int64_t i = 0; i < tensor.dim(1); ++i) {
    work.kernels.narrow(tensor.dtype(), from + i, to + i * tensor.stride(1) * dtype_size(tensor.dtype()), 1);
  }
}

GemmOperand hidden_rows(const Work& work) {
  GemmOperand operand;
  operand.data = work.at(work.space.h);
  operand.stride_outer = work.sizes.width;
  operand.stride_k = 1;
  return operand;
}

// The weight's rows from `first` (a multiple of every panel's width) on.
GemmOperand vocab_from(const Work& work, std::int64_t first) {
  GemmOperand operand = weight_operand(work.arg(TERN_LINEAR_CROSS_ENTROPY_W), work.args.target, true);
  std::int64_t bytes = 0;
  switch (operand.kind) {
    case GemmOperand::Kind::panels:
      bytes = first / work.kernels.nr * operand.stride_outer * 4;
      break;
    case GemmOperand::Kind::strided:
      bytes = first * operand.stride_outer * dtype_size(operand.dtype);
      break;
    default:
      operand.rows.first = first;
      return operand;
  }
  operand.data = static_cast<const std::byte*>(operand.data) + bytes;
  return operand;
}

// Logits of vocabulary [first, first + n) into columns [column, column + n), and the rows' statistics with them.
void add_chunk(const Work& work, std::int64_t first, std::int64_t n, std::int64_t column) {
  const std::int64_t ld = work.sizes.logits;
  float* logits = work.at(work.space.logits) + column;
  Gemm product;
  product.m = work.count();
  product.n = n;
  product.k = work.sizes.width;
  product.compute = work.compute;
  product.a = hidden_rows(work);
  product.b = vocab_from(work, first);
  product.out.data = logits;
  product.out.stride_m = ld;
  work.multiply(product);
  work.args.pool->parallel_for(work.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      float max, sum;
      work.rows.logits_row(logits + i * ld, n, work.softcap, &max, &sum);
      const float both = max != max || max > work.max(i) ? max : work.max(i);  // NaN stays
      const float old = work.max(i) == both ? 1.0F : std::exp(work.max(i) - both);
      work.sum(i) = work.sum(i) * old + sum * (max == both ? 1.0F : std::exp(max - both));
      work.max(i) = both;
      const std::int64_t target = work.target(work.active[static_cast<std::size_t>(i)]);
      if (target >= first && target < first + n) work.hit(i) = logits[i * ld + target - first];
    }
  });
}

// Logits become the loss's gradients by them.
void differentiate(const Work& work) {
  const std::int64_t vocab = work.sizes.vocab;
  work.args.pool->parallel_for(work.count(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* row = work.at(work.space.logits) + i * work.sizes.logits;
      const std::int64_t r = work.active[static_cast<std::size_t>(i)];
      const float weight = work.weight(r), inverse = 1.0F / work.sum(i);
      work.rows.logits_gradient(row, vocab, work.softcap, work.max(i), inverse, weight);
      const std::int64_t target = work.target(r);
      if (target < 0) continue;
      const float t = work.softcap > 0 ? work.hit(i) / work.softcap : 0.0F;
      row[target] = weight * (1.0F - t * t) * (std::exp(work.hit(i) - work.max(i)) * inverse - 1.0F);
    }
  });
}

void hidden_gradient(const Work& work) {
  const TensorView& dh = work.arg(TERN_LINEAR_CROSS_ENTROPY_DH);
  if (!dh.present()) return;
  Gemm product;
  product.m = work.count();
  product.n = work.sizes.width;
  product.k = work.sizes.vocab;
  product.compute = work.compute;
  product.a.data = work.at(work.space.logits);
  product.a.stride_outer = work.sizes.logits;
  product.a.stride_k = 1;
  product.b = weight_operand(work.arg(TERN_LINEAR_CROSS_ENTROPY_W), work.args.target, false);
  product.out.data = work.at(work.space.dh);
  product.out.stride_m = work.sizes.width;
  work.multiply(product);
  for (std::int64_t i = 0; i < work.count(); ++i) {
    write(work, dh, work.active[static_cast<std::size_t>(i)], work.at(work.space.dh) + i * work.sizes.width);
  }
}

void weight_gradient(const Work& work) {
  const TensorView& dw = work.arg(TERN_LINEAR_CROSS_ENTROPY_DW);
  if (!dw.present()) return;
  Gemm product;
  product.m = work.sizes.vocab;
  product.n = work.sizes.width;
  product.k = work.count();
  product.compute = work.compute;
  product.a.data = work.at(work.space.logits);
  product.a.stride_outer = 1;
  product.a.stride_k = work.sizes.logits;
  product.b = hidden_rows(work);
  std::swap(product.b.stride_outer, product.b.stride_k);
  product.out.data = dw.planes[0];
  product.out.stride_m = dw.stride(0);
  product.out.stride_n = dw.stride(1);
  product.out.accumulate = !work.first_block || work.args.accumulates(TERN_LINEAR_CROSS_ENTROPY_DW);
  work.multiply(product);
}

void put(const TensorView& tensor, std::int64_t row, float value) {
  if (tensor.present()) tensor.data<float>()[row * tensor.stride(0)] = value;
}

// The rows in work.active; returns their part of the loss.
double run_block(const Work& work) {
  const Sizes& s = work.sizes;
  for (std::int64_t i = 0; i < work.count(); ++i) {
    read(work, work.arg(TERN_LINEAR_CROSS_ENTROPY_H), work.active[static_cast<std::size_t>(i)],
         work.at(work.space.h) + i * s.width);
    work.max(i) = kNothing;
    work.sum(i) = 0;
    work.hit(i) = 0;
  }
  for (std::int64_t first = 0; first < s.vocab; first += kVocabChunk) {
    add_chunk(work, first, std::min(kVocabChunk, s.vocab - first), s.gradients ? first : 0);
  }
  double loss = 0;
  const TensorView& lse = work.arg(TERN_LINEAR_CROSS_ENTROPY_LSE);
  for (std::int64_t i = 0; i < work.count(); ++i) {
    const std::int64_t row = work.active[static_cast<std::size_t>(i)];
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_MAX), row, work.max(i));
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_SUM), row, work.sum(i));
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET), row, work.hit(i));
    if (lse.present()) {  // from here on the row's sum is that of all shards
      work.max(i) = lse.data<float>()[row * lse.stride(0)];
      work.sum(i) = 1;
      if (work.target(row) < 0) continue;
    }
    loss += static_cast<double>(work.weight(row)) *
            (static_cast<double>(work.max(i)) + std::log(work.sum(i)) - work.hit(i));
  }
  if (!s.gradients) return loss;
  differentiate(work);
  hidden_gradient(work);
  weight_gradient(work);
  return loss;
}

void clear(const Work& work) {
  const TensorView& dh = work.arg(TERN_LINEAR_CROSS_ENTROPY_DH);
  const std::vector<float> zeros(static_cast<std::size_t>(work.sizes.width), 0.0F);
  for (std::int64_t r = 0; r < work.sizes.rows; ++r) {
    if (work.weight(r) != 0) {
      const std::int64_t target = work.target(r);
      if (target >= -1 && target < work.sizes.vocab) continue;
      throw Failure(data_error(cat("linear_cross_entropy targets[", r, "]"), cat("-1 to ", work.sizes.vocab - 1),
                               cat(target), kCallAsSpecified));
    }
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_MAX), r, 0.0F);
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_SUM), r, 0.0F);
    put(work.arg(TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET), r, 0.0F);
    if (dh.present()) write(work, dh, r, zeros.data());
  }
}

void run(const KernelArgs& args) {
  const auto& attrs = args.attr<tern_linear_cross_entropy_attrs>();
  const TensorView& h = args[TERN_LINEAR_CROSS_ENTROPY_H];
  const TensorView& w = args[TERN_LINEAR_CROSS_ENTROPY_W];
  const TensorView& loss = args[TERN_LINEAR_CROSS_ENTROPY_LOSS];
  const TensorView& dw = args[TERN_LINEAR_CROSS_ENTROPY_DW];
  const Sizes sizes = sizes_of(h.desc, w.desc, args[TERN_LINEAR_CROSS_ENTROPY_DH].present() || dw.present());
  Work work{args,
            sizes,
            lay_out(sizes, args.target, attrs.compute, args.pool->num_threads()),
            row_kernels(args.target),
            gemm_kernels(args.target),
            attrs.compute,
            attrs.softcap,
            reinterpret_cast<float*>(args.workspace),
            {}};
  clear(work);
  double total = 0;
  for (std::int64_t r = 0; r < sizes.rows;) {
    work.active.clear();
    for (; r < sizes.rows && work.count() < sizes.block; ++r) {
      if (work.weight(r) != 0) work.active.push_back(r);
    }
    if (work.active.empty()) break;
    total += run_block(work);
    work.first_block = false;
  }
  if (work.first_block && dw.present() && !args.accumulates(TERN_LINEAR_CROSS_ENTROPY_DW)) {
    const std::vector<float> zeros(static_cast<std::size_t>(sizes.width), 0.0F);
    for (std::int64_t v = 0; v < sizes.vocab; ++v) write(work, dw, v, zeros.data());
  }
  float& to = *loss.data<float>();
  to = static_cast<float>(args.accumulates(TERN_LINEAR_CROSS_ENTROPY_LOSS) ? to + total : total);
}

bool row_vector(const tern_tensor_desc& desc, std::int64_t rows, tern_dtype dtype) {
  return desc.rank == 1 && desc.shape[0] == rows && desc.dtype == dtype;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  const auto& h = desc.arg(TERN_LINEAR_CROSS_ENTROPY_H);
  const auto& w = desc.arg(TERN_LINEAR_CROSS_ENTROPY_W);
  const auto& dh = desc.arg(TERN_LINEAR_CROSS_ENTROPY_DH);
  const auto& dw = desc.arg(TERN_LINEAR_CROSS_ENTROPY_DW);
  if (!check_weight(w, desc.target, true, "w", reason)) return false;
  if (w.layout != 0 && dh.rank != 0) {
    reason = "w is in the private layout of x W^T, and dh needs dy W";
    return false;
  }
  if (!is_product_dtype(desc.attrs<tern_linear_cross_entropy_attrs>().compute) || !is_product_dtype(h.dtype)) {
    reason = "products are computed in f32, bf16 or f16";
    return false;
  }
  bool fits = h.rank == 2 && h.shape[1] == w.shape[1];
  fits = fits && row_vector(desc.arg(TERN_LINEAR_CROSS_ENTROPY_TARGETS), h.shape[0], TERN_I32) &&
         row_vector(desc.arg(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS), h.shape[0], TERN_F32) &&
         row_vector(desc.arg(TERN_LINEAR_CROSS_ENTROPY_LOSS), 1, TERN_F32) &&
         (!desc.present(TERN_LINEAR_CROSS_ENTROPY_LSE) ||
          row_vector(desc.arg(TERN_LINEAR_CROSS_ENTROPY_LSE), h.shape[0], TERN_F32));
  for (const int i :
       {TERN_LINEAR_CROSS_ENTROPY_ROW_MAX, TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET}) {
    fits = fits && (!desc.present(i) || row_vector(desc.arg(i), h.shape[0], TERN_F32));
  }
  fits = fits && (dh.rank == 0 || (dh.rank == 2 && is_product_dtype(dh.dtype) && dh.shape[0] == h.shape[0] &&
                                   dh.shape[1] == h.shape[1]));
  fits = fits && (dw.rank == 0 ||
                  (dw.rank == 2 && dw.dtype == TERN_F32 && dw.shape[0] == w.shape[0] && dw.shape[1] == w.shape[1]));
  if (!fits) reason = "the dtype or the shape of an argument does not fit h and w";
  return fits;
}

std::uint64_t workspace(const PlanDesc& desc) {
  const bool gradients = desc.present(TERN_LINEAR_CROSS_ENTROPY_DH) || desc.present(TERN_LINEAR_CROSS_ENTROPY_DW);
  const Sizes sizes = sizes_of(desc.arg(TERN_LINEAR_CROSS_ENTROPY_H), desc.arg(TERN_LINEAR_CROSS_ENTROPY_W), gradients);
  const tern_dtype compute = desc.attrs<tern_linear_cross_entropy_attrs>().compute;
  return static_cast<std::uint64_t>(lay_out(sizes, desc.target, compute, desc.num_threads).total) * 4;
}

constexpr std::array kKernels = {
    KernelEntry{TERN_OP_LINEAR_CROSS_ENTROPY, "blocks", supports, workspace, nullptr, run},
};

}  // namespace

KernelList linear_cross_entropy_kernels() { return kKernels; }

}  // namespace tern::cpu
