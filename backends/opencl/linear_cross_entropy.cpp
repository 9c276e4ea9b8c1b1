// linear_cross_entropy in panels: blocks of rows by parts of the vocabulary, whose logits are made twice, once for
// their statistics and once for their gradient. Never rows x vocabulary.
#include <algorithm>
#include <array>

#include "backends/opencl/kernels.h"
#include "backends/opencl/product.h"
#include "backends/opencl/weight.h"

namespace tern::opencl {
namespace {

constexpr std::int64_t kRows = 1024;              // of a block
constexpr std::int64_t kPanelElements = 2 << 20;  // of logits, or of an expanded weight
constexpr std::int64_t kLeastPanel = 128;
constexpr std::int64_t kGroup = 64;  // work-items of a row on a GPU
constexpr std::uint64_t kStateBytes = 16;  // struct RowState of cl/head.cl

enum : std::size_t {
  kLogits,
  kInputGradient,
  kWeightGradient,
  kTake,
  kStatistics,
  kFinish,
  kGradient,
  kHits,
  kGive,
  kLoss,
  kMore  // those that a call may do without
};

constexpr int kH = TERN_LINEAR_CROSS_ENTROPY_H, kW = TERN_LINEAR_CROSS_ENTROPY_W;
constexpr int kDh = TERN_LINEAR_CROSS_ENTROPY_DH, kDw = TERN_LINEAR_CROSS_ENTROPY_DW;

// How a call is cut, and where things lie in the workspace; all by the largest sizes.
struct Cut {
  std::int64_t rows, width, vocab;
  std::int64_t block, panel;  // rows of a block, vocabulary of a panel: the latter no matter how many rows there are
  std::uint64_t taken, logits, states, losses, sums, expanded, across, bytes;
  bool quantised, gives_dh, gives_dw, lays_across;
  ProductSpec to_logits, to_dh, to_dw;
};

Cut cut_of(const tern_op_desc& op, const Facts& facts) {
  const tern_tensor_desc &h = op.args[kH], &w = op.args[kW];
  Cut cut{};
  cut.rows = h.shape[0];
  cut.width = h.shape[1];
  cut.vocab = w.shape[0];
  cut.quantised = w.scheme.packing != TERN_PACK_NONE;
  cut.gives_dh = op.args[kDh].rank != 0;
  cut.gives_dw = op.args[kDw].rank != 0;
  cut.block = std::clamp<std::int64_t>(cut.rows, 1, kRows);
  const std::int64_t most = kPanelElements / std::max(kRows, cut.width) / kLeastPanel * kLeastPanel;
  cut.panel = std::min(std::max(most, kLeastPanel), round_up(std::max<std::int64_t>(cut.vocab, 1), 16));
  const auto place = [&](bool wanted, std::int64_t elements, std::int64_t each) {
    const std::uint64_t at = cut.bytes;
    if (wanted) cut.bytes += static_cast<std::uint64_t>(round_up(elements * each, 128));
    return at;
  };
  cut.taken = place(true, cut.block * cut.width, 4);
  cut.logits = place(true, cut.block * cut.panel, 4);
  cut.states = place(true, cut.block, kStateBytes);
  cut.losses = place(true, cut.rows, 4);
  cut.sums = place(cut.gives_dh, cut.block * cut.width, 4);
  cut.expanded = place(cut.quantised, cut.panel * cut.width, 4);

  ProductSpec product;
  product.compute = static_cast<const tern_linear_cross_entropy_attrs*>(op.attrs)->compute;
  product.few_alike = (op.needs & TERN_NEED_ROW_INVARIANT) != 0;
  product.any_rows = true;
  const Side taken = {TERN_F32, cut.width, 1, 0};
  const Side gradient = {TERN_F32, cut.panel, 1, 0};
  const Side weight = cut.quantised ? taken : Side{w.dtype, w.strides[0], w.strides[1], 0};
  const auto across = [](const Side& side) { return Side{side.dtype, side.col, side.row, 0}; };
  cut.to_logits = cut.to_dh = cut.to_dw = product;
  const auto set = [](ProductSpec& spec, const Side& a, const Side& b, std::int64_t m, std::int64_t n, std::int64_t k) {
    spec.a = a;
    spec.b = b;
    spec.m = m;
    spec.n = n;
    spec.k = k;
  };
  set(cut.to_logits, taken, weight, cut.block, cut.panel, cut.width);
  set(cut.to_dh, gradient, across(weight), cut.block, cut.width, cut.panel);
  set(cut.to_dw, across(gradient), across(taken), cut.panel, cut.width, cut.block);
  cut.to_dw.any_rows = false;
  cut.lays_across = goes_across(cut.to_logits, facts);
  cut.across = place(cut.lays_across, static_cast<std::int64_t>(across_bytes(cut.to_logits)), 1);
  return cut;
}

bool supports(const PlanDesc& desc, std::string& reason) {
  constexpr int kPerRow[] = {TERN_LINEAR_CROSS_ENTROPY_TARGETS, TERN_LINEAR_CROSS_ENTROPY_WEIGHTS,
                             TERN_LINEAR_CROSS_ENTROPY_LSE,     TERN_LINEAR_CROSS_ENTROPY_ROW_MAX,
                             TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET};
  const tern_tensor_desc &h = desc.arg(kH), &w = desc.arg(kW);
  Check check(desc, reason);
  check.floats({kH, kDh, kDw})
      .rank(kH, 2)
      .rank(kW, 2)
      .same_shape({kH, kDh})
      .that(is_small_float(desc.attrs<tern_linear_cross_entropy_attrs>().compute),
            "products are computed in f32, bf16 or f16");
  if (!check.ok()) return false;
  for (const int arg : kPerRow) check.rank(arg, 1).dim(arg, 0, h.shape[0]);
  check.rank(TERN_LINEAR_CROSS_ENTROPY_LOSS, 1)
      .dim(TERN_LINEAR_CROSS_ENTROPY_LOSS, 0, 1)
      .dim(kW, 1, h.shape[1])
      .rank(kDw, 2)
      .dim(kDw, 0, w.shape[0])
      .dim(kDw, 1, h.shape[1])
      .that(w.shape[0] > 0, "the vocabulary is empty");
  if (!check.ok()) return false;
  if (w.scheme.packing == TERN_PACK_NONE) return check.floats({kW}).ok();
  return expands_weight(w, reason);
}

std::uint64_t workspace(const PlanDesc& desc) { return cut_of(desc.op, desc.device).bytes; }

ProductPlan plan_of(const ProductSpec& spec, const Facts& facts) {
  return plan_product(first_tile(spec, facts), spec, facts);
}

// The product that gives logits, of the weight as it lies then.
ProductSpec logits_spec(const Cut& cut) { return cut.lays_across ? across_spec(cut.to_logits) : cut.to_logits; }

std::vector<Function> functions(const PlanDesc& desc) {
  const Cut cut = cut_of(desc.op, desc.device);
  std::vector<Function> list;
  for (const ProductSpec& spec : {logits_spec(cut), cut.to_dh, cut.to_dw}) {
    list.push_back(product_function(plan_of(spec, desc.device), spec));
  }
  Defines defines;
  defines.set("GROUP", desc.device.cpu ? 1 : kGroup).set("V", desc.device.cpu ? 16 : 4);
  for (const char* name :
       {"head_take", "head_statistics", "head_rows", "head_gradient", "head_hits", "head_give", "head_loss"}) {
    list.push_back({"head", name, defines.text()});
  }
  if (cut.quantised) list.push_back(expand_function(desc.arg(kW).scheme.packing));
  if (cut.lays_across) list.push_back(across_function(cut.to_logits));
  return list;
}

Place behind(Place place, std::int64_t elements, std::int64_t bytes = 4) {
  if (place.memory != nullptr) place.offset += static_cast<std::uint64_t>(elements * bytes);
  return place;
}

// One launch: what its steps share.
class Head {
 public:
  explicit Head(const Launch& launch)
      : launch_(launch),
        cut_(cut_of(launch.planned(), launch.device())),
        cap_(launch.attr<tern_linear_cross_entropy_attrs>().softcap),
        group_(launch.device().cpu ? 1 : kGroup),
        rows_(launch[kH].dim(0)) {}

  void run() {
    for (std::int64_t first = 0; first < rows_; first += cut_.block)
      run_block(first, std::min(cut_.block, rows_ - first));
    if (rows_ == 0 && cut_.gives_dw) weight_gradient(0, cut_.vocab);
    launch_.call(kLoss)
        .arg(space(cut_.losses))
        .arg(launch_[TERN_LINEAR_CROSS_ENTROPY_LOSS])
        .arg(std::int32_t{launch_.accumulates(TERN_LINEAR_CROSS_ENTROPY_LOSS) ? 1 : 0})
        .arg(static_cast<std::int32_t>(rows_))
        .run(group_, group_);
  }

 private:
  [[nodiscard]] Place space(std::uint64_t at) const { return launch_.workspace(at); }
  // The block's part of what has one number for each row.
  [[nodiscard]] Place of_block(int arg) const {
    const TensorView& tensor = launch_[arg];
    return tensor.present() ? place_of(tensor, first_ * tensor.stride(0)) : Place{};
  }
  [[nodiscard]] std::int64_t step(int arg) const { return launch_[arg].present() ? launch_[arg].stride(0) : 0; }
  [[nodiscard]] Place targets() const { return of_block(TERN_LINEAR_CROSS_ENTROPY_TARGETS); }
  [[nodiscard]] Place weights() const { return of_block(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS); }
  [[nodiscard]] std::int64_t weights_step() const { return step(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS); }
  [[nodiscard]] std::int32_t panel() const { return static_cast<std::int32_t>(cut_.panel); }

  void run_block(std::int64_t first, std::int64_t rows) {
    first_ = first;
    block_ = rows;
    take();
    const bool kept = cut_.vocab <= cut_.panel;  // the logits of the only panel
    for (std::int64_t v = 0; v < cut_.vocab; v += cut_.panel) {
      const std::int64_t count = std::min(cut_.panel, cut_.vocab - v);
      open_panel(v, count);
      make_logits(count);
      statistics(v, count);
    }
    finish_rows();
    if (!cut_.gives_dh && !cut_.gives_dw) return;
    for (std::int64_t v = 0; v < cut_.vocab; v += cut_.panel) {
      const std::int64_t count = std::min(cut_.panel, cut_.vocab - v);
      if (!kept) {
        open_panel(v, count);
        make_logits(count);
      }
      gradient(v, count);
      if (cut_.gives_dh) input_gradient(v, count);
      if (cut_.gives_dw) weight_gradient(v, count);
    }
    if (cut_.gives_dh) give();
  }

  void take() {
    const TensorView& h = launch_[kH];
    launch_.call(kTake)
        .arg(place_of(h, first_ * h.stride(0)))
        .arg(h.stride(0))
        .arg(h.stride(1))
        .arg(std::int32_t{h.dtype()})
        .arg(weights())
        .arg(weights_step())
        .arg(space(cut_.taken))
        .arg(static_cast<std::int32_t>(cut_.width))
        .run({block_, group_, 1}, {1, group_, 1});
  }

  // Where the weight's rows from v on lie as numbers.
  void open_panel(std::int64_t v, std::int64_t count) {
    const TensorView& w = launch_[kW];
    if (!cut_.quantised) {
      weight_ = place_of(w, v * w.stride(0));
      return;
    }
    weight_ = space(cut_.expanded);
    Expansion part;
    part.first_row = v;
    part.rows = count;
    part.columns = cut_.width;
    part.out = weight_;
    part.out_row = cut_.width;
    expand_weight(launch_.call(kMore), w, part, launch_.device());
  }

  void make_logits(std::int64_t count) {
    ProductCall call;
    call.m = block_;
    call.n = count;
    call.k = cut_.width;
    call.a = space(cut_.taken);
    call.b = weight_;
    call.out = space(cut_.logits);
    call.out_row = cut_.panel;
    call.out_col = 1;
    if (cut_.lays_across) {
      const Place across = space(cut_.across);
      run_across(launch_.call(kMore + (cut_.quantised ? 1 : 0)), cut_.to_logits, call, across);
      call.b = across;
    }
    multiply(kLogits, logits_spec(cut_), call);
  }

  void statistics(std::int64_t v, std::int64_t count) {
    launch_.call(kStatistics)
        .arg(space(cut_.logits))
        .arg(panel())
        .arg(targets())
        .arg(weights())
        .arg(weights_step())
        .arg(space(cut_.states))
        .arg(cap_)
        .arg(static_cast<std::int32_t>(v))
        .arg(static_cast<std::int32_t>(count))
        .run(block_ * group_, group_);
  }

  void finish_rows() {
    constexpr int kLse = TERN_LINEAR_CROSS_ENTROPY_LSE, kMax = TERN_LINEAR_CROSS_ENTROPY_ROW_MAX;
    constexpr int kSum = TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, kTarget = TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET;
    std::int32_t has = 0;
    for (const auto& [arg, bit] : {std::pair{kLse, 1}, {kMax, 2}, {kSum, 4}, {kTarget, 8}}) {
      if (launch_[arg].present()) has |= bit;
    }
    launch_.call(kFinish)
        .arg(space(cut_.states))
        .arg(targets())
        .arg(weights())
        .arg(weights_step())
        .arg(of_block(kLse))
        .arg(step(kLse))
        .arg(of_block(kMax))
        .arg(step(kMax))
        .arg(of_block(kSum))
        .arg(step(kSum))
        .arg(of_block(kTarget))
        .arg(step(kTarget))
        .arg(behind(space(cut_.losses), first_))
        .arg(has)
        .arg(static_cast<std::int32_t>(block_))
        .run(block_, plain_group(launch_.device()));
  }

  void gradient(std::int64_t v, std::int64_t count) {
    launch_.call(kGradient)
        .arg(space(cut_.logits))
        .arg(panel())
        .arg(weights())
        .arg(weights_step())
        .arg(space(cut_.states))
        .arg(cap_)
        .arg(static_cast<std::int32_t>(count))
        .run(block_ * group_, group_);
    launch_.call(kHits)
        .arg(space(cut_.states))
        .arg(space(cut_.logits))
        .arg(panel())
        .arg(targets())
        .arg(weights())
        .arg(weights_step())
        .arg(cap_)
        .arg(static_cast<std::int32_t>(v))
        .arg(static_cast<std::int32_t>(count))
        .arg(static_cast<std::int32_t>(block_))
        .run(block_, plain_group(launch_.device()));
  }

  void input_gradient(std::int64_t v, std::int64_t count) {
    ProductCall call;
    call.m = block_;
    call.n = cut_.width;
    call.k = count;
    call.a = space(cut_.logits);
    call.b = weight_;
    call.out = space(cut_.sums);
    call.out_row = cut_.width;
    call.out_col = 1;
    call.adds = v > 0;
    multiply(kInputGradient, cut_.to_dh, call);
  }

  void weight_gradient(std::int64_t v, std::int64_t count) {
    const TensorView& dw = launch_[kDw];
    ProductCall call;
    call.m = count;
    call.n = cut_.width;
    call.k = block_;
    call.a = space(cut_.logits);
    call.b = space(cut_.taken);
    call.out = place_of(dw, v * dw.stride(0));
    call.out_row = dw.stride(0);
    call.out_col = dw.stride(1);
    call.adds = first_ > 0 || launch_.accumulates(kDw);
    multiply(kWeightGradient, cut_.to_dw, call);
  }

  void give() {
    const TensorView& dh = launch_[kDh];
    launch_.call(kGive)
        .arg(space(cut_.sums))
        .arg(weights())
        .arg(weights_step())
        .arg(place_of(dh, first_ * dh.stride(0)))
        .arg(dh.stride(0))
        .arg(dh.stride(1))
        .arg(std::int32_t{dh.dtype()})
        .arg(static_cast<std::int32_t>(cut_.width))
        .run({block_, group_, 1}, {1, group_, 1});
  }

  void multiply(std::size_t function, const ProductSpec& spec, const ProductCall& call) {
    run_product(launch_.call(function), plan_of(spec, launch_.device()), spec, call);
  }

  const Launch& launch_;
  const Cut cut_;
  const float cap_;
  const std::int64_t group_;
  const std::int64_t rows_;
  std::int64_t first_ = 0;  // of the block at hand, and its rows
  std::int64_t block_ = 0;
  Place weight_;
};

void run(const Launch& launch) { Head(launch).run(); }

constexpr KernelEntry kKernels[] = {{TERN_OP_LINEAR_CROSS_ENTROPY, "panels", supports, workspace, functions, run}};

}  // namespace

KernelList linear_cross_entropy_kernels() { return kKernels; }

}  // namespace tern::opencl
