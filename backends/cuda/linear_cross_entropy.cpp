// linear_cross_entropy in panels: blocks of rows by parts of the vocabulary. Where a block's logits fit the memory that
// is meant for them, they're made once; else twice, once for their statistics and once for their gradient.
#include <algorithm>
#include <array>

#include "backends/cuda/kernels.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weight.h"

namespace tern::cuda {
namespace {

constexpr int kH = TERN_LINEAR_CROSS_ENTROPY_H, kW = TERN_LINEAR_CROSS_ENTROPY_W;
constexpr int kDh = TERN_LINEAR_CROSS_ENTROPY_DH, kDw = TERN_LINEAR_CROSS_ENTROPY_DW;

// Of each entry: bytes for the logits, or for an expanded weight. Devices of less than so many times that aren't asked
// to spend it.
struct Budget {
  const char* name;
  std::int64_t bytes;
};
constexpr std::array<Budget, 3> kBudgets = {
    {{"panels 1 GiB", 1 << 30}, {"panels 128 MiB", 128 << 20}, {"panels 16 MiB", 16 << 20}}};
constexpr std::uint64_t kLeastMemory = 32;  // times the budget

constexpr std::int64_t kMostRows = 4096;   // of a block
constexpr std::int64_t kLeastRows = 512;   // where the whole vocabulary is one panel
constexpr std::int64_t kPanelRows = 2048;  // where it isn't
constexpr std::int64_t kPanelStep = 128;   // panels are multiples of it
constexpr std::int64_t kThreads = 256;     // of a row: as the kernels are bounded
constexpr std::int64_t kVector = 8;        // columns of a thread
constexpr std::uint64_t kStateBytes = 16;  // struct RowState of cu/head.cu

enum : std::size_t {
  kLogits,
  kInputGradient = kLogits + kProductFunctions,
  kWeightGradient = kInputGradient + kProductFunctions,
  kTake = kWeightGradient + kProductFunctions,
  kStatistics,
  kFinish,
  kGradient,
  kGive,
  kLoss,
  kExpand  // where the weight doesn't lie as products want it
};

// How a call is cut, and where things lie in the workspace; all by the largest sizes.
struct Cut {
  std::int64_t rows, width, vocab;
  std::int64_t block, panel;  // rows of a block, vocabulary of a panel: the latter no matter how many rows there are
  std::uint64_t taken, logits, states, losses, sums, expanded, products, bytes;
  tern_dtype compute;
  tern_dtype taken_as;  // the rows' dtype in the workspace: what they are rounded to, or as they lie
  bool expands;         // the weight into the workspace, rounded: the matrix units take one dtype
  bool gives_dh, gives_dw;
  ProductSpec to_logits, to_dh, to_dw;
};

std::int64_t bytes_of(tern_dtype dtype) { return dtype == TERN_F32 ? 4 : 2; }

void cut_panels(Cut& cut, std::int64_t budget) {
  const std::int64_t whole = round_up(cut.vocab, kPanelStep), logits = budget / 4;
  const std::int64_t expanded = budget / (std::max<std::int64_t>(cut.width, 1) * bytes_of(cut.compute));
  if (whole * kLeastRows <= logits && (!cut.expands || whole <= expanded)) {
    cut.panel = whole;
    cut.block = std::min(kMostRows, logits / whole / kPanelStep * kPanelStep);
  } else {
    cut.panel = logits / kPanelRows;
    if (cut.expands) cut.panel = std::min(cut.panel, expanded);
    cut.panel = std::clamp(cut.panel / kPanelStep * kPanelStep, kPanelStep, whole);
    cut.block = kPanelRows;
  }
  cut.block = std::clamp<std::int64_t>(cut.rows, 1, cut.block);
}

void set_products(Cut& cut, const tern_tensor_desc& w, bool few_alike) {
  ProductSpec product;
  product.compute = cut.compute;
  product.few_alike = few_alike;
  product.any_rows = true;
  const Side taken = {cut.taken_as, cut.width, 1, 0};
  // Narrower numbers lie in the first half of a row's logits.
  const Side gradient = {cut.compute, cut.panel * 4 / bytes_of(cut.compute), 1, 0};
  const Side weight = cut.expands ? Side{cut.compute, cut.width, 1, 0} : Side{w.dtype, w.strides[0], w.strides[1], 0};
  const auto across = [](const Side& side) { return Side{side.dtype, side.col, side.row, 0}; };
  const auto set = [&](ProductSpec& spec, const Side& a, const Side& b, std::array<std::int64_t, 3> sizes) {
    spec = product;
    spec.a = a;
    spec.b = b;
    spec.m = sizes[0];
    spec.n = sizes[1];
    spec.k = sizes[2];
  };
  set(cut.to_logits, taken, weight, {cut.block, cut.panel, cut.width});
  set(cut.to_dh, gradient, across(weight), {cut.block, cut.width, cut.panel});
  set(cut.to_dw, across(gradient), across(taken), {cut.panel, cut.width, cut.block});
  cut.to_dw.any_rows = false;
}

Cut cut_of(const tern_op_desc& op, const Facts& facts, int variant) {
  const tern_tensor_desc &h = op.args[kH], &w = op.args[kW];
  Cut cut{};
  cut.rows = h.shape[0];
  cut.width = h.shape[1];
  cut.vocab = w.shape[0];
  cut.compute = static_cast<const tern_linear_cross_entropy_attrs*>(op.attrs)->compute;
  const bool halves = cut.compute != TERN_F32;
  cut.taken_as = halves ? cut.compute : h.dtype;
  cut.expands = w.scheme.packing != TERN_PACK_NONE || (halves && w.dtype != cut.compute);
  cut.gives_dh = op.args[kDh].rank != 0;
  cut.gives_dw = op.args[kDw].rank != 0;
  cut_panels(cut, kBudgets.at(static_cast<std::size_t>(variant)).bytes);
  set_products(cut, w, (op.needs & TERN_NEED_ROW_INVARIANT) != 0);

  const auto place = [&](bool wanted, std::int64_t elements, std::int64_t each) {
    const std::uint64_t at = cut.bytes;
    if (wanted) cut.bytes += static_cast<std::uint64_t>(round_up(elements * each, 256));
    return at;
  };
  cut.taken = place(true, cut.block * cut.width, bytes_of(cut.taken_as));
  cut.logits = place(true, cut.block * cut.panel, 4);
  cut.states = place(true, cut.block, kStateBytes);
  cut.losses = place(true, cut.rows, 4);
  cut.sums = place(cut.gives_dh, cut.block * cut.width, 4);
  cut.expanded = place(cut.expands, cut.panel * cut.width, bytes_of(cut.compute));
  std::uint64_t most = 0;
  for (const ProductSpec* spec : {&cut.to_logits, &cut.to_dh, &cut.to_dw}) {
    most = std::max(most, product_bytes(plan_product(*spec, facts), *spec));
  }
  cut.products = place(true, static_cast<std::int64_t>(most), 1);
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
      .that(w.shape[0] > 0, "the vocabulary is empty")
      .that(w.shape[0] < INT32_MAX / 2, "the vocabulary is too large");
  if (!check.ok()) return false;
  const auto variant = static_cast<std::size_t>(desc.variant);
  const auto budget = static_cast<std::uint64_t>(kBudgets.at(variant).bytes);
  check.that(variant + 1 == kBudgets.size() || desc.device.memory_bytes >= budget * kLeastMemory,
             "the device has too little memory for such panels");
  if (!check.ok()) return false;
  if (w.scheme.packing == TERN_PACK_NONE) return check.floats({kW}).ok();
  return expands_weight(w, reason);
}

std::uint64_t workspace(const PlanDesc& desc) { return cut_of(desc.op, desc.device, desc.variant).bytes; }

Functions functions(const PlanDesc& desc) {
  const Cut cut = cut_of(desc.op, desc.device, desc.variant);
  Functions list;
  for (const ProductSpec* spec : {&cut.to_logits, &cut.to_dh, &cut.to_dw}) {
    const Functions own = product_functions(plan_product(*spec, desc.device), *spec);
    list.insert(list.end(), own.begin(), own.end());
  }
  const char* gradient = cut.compute == TERN_F32    ? "head_gradient_f32"
                         : cut.compute == TERN_BF16 ? "head_gradient_bf16"
                                                    : "head_gradient_f16";
  for (const char* name : {"head_take", "head_statistics", "head_rows", gradient, "head_give", "head_loss"}) {
    list.emplace_back(name);
  }
  if (cut.expands) list.push_back(expand_function(desc.arg(kW).scheme.packing));
  return list;
}

// As in cu/head.cu.
struct Block {
  Place weights;
  std::int64_t weights_step;
  Place targets, states;
  float cap;
  std::int32_t rows;
};
struct Panel {
  Place logits;
  std::int64_t stride;
  std::int32_t first, count;
};
struct Given {
  Place lse, row_max, row_sum, row_target;
  std::int64_t lse_step, max_step, sum_step, target_step;
  Place losses;
};

// One launch: what its steps share. What it queues depends on the largest sizes alone; blocks beyond the actual rows
// have none.
class Head {
 public:
  explicit Head(const Launch& launch)
      : launch_(launch), cut_(cut_of(launch.planned(), launch.device(), launch.variant())), rows_(launch[kH].dim(0)) {}

  void run() {
    first_ = 0;
    do {
      run_block();
      first_ += cut_.block;
    } while (first_ < cut_.rows);
    launch_.call(kLoss)
        .arg(space(cut_.losses))
        .arg(launch_[TERN_LINEAR_CROSS_ENTROPY_LOSS])
        .arg(static_cast<std::int32_t>(rows_))
        .run(kThreads, kThreads);
  }

 private:
  [[nodiscard]] Place space(std::uint64_t at) const { return launch_.workspace(at); }
  // The block's part of what has one number for each row.
  [[nodiscard]] Place of_block(int arg) const {
    const TensorView& tensor = launch_[arg];
    return tensor.present() ? place_of(tensor, first_ * tensor.stride(0)) : 0;
  }
  [[nodiscard]] std::int64_t step(int arg) const { return stride_of(launch_[arg]); }
  [[nodiscard]] Panel panel(std::int64_t v, std::int64_t count) const {
    return {space(cut_.logits), cut_.panel, static_cast<std::int32_t>(v), static_cast<std::int32_t>(count)};
  }
  [[nodiscard]] Dim3 column_blocks() const { return {block_.rows, parts_of(cut_.width, kVector * kPlainThreads), 1}; }

  // Calls step(v, count) for each panel, its weight being at hand.
  template <typename Step>
  void each_panel(Step step) {
    for (std::int64_t v = 0; v < cut_.vocab; v += cut_.panel) {
      const std::int64_t count = std::min(cut_.panel, cut_.vocab - v);
      step(v, count);
    }
  }

  void run_block() {
    block_.rows = static_cast<std::int32_t>(std::clamp<std::int64_t>(rows_ - first_, 0, cut_.block));
    block_.weights = of_block(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS);
    block_.weights_step = step(TERN_LINEAR_CROSS_ENTROPY_WEIGHTS);
    block_.targets = of_block(TERN_LINEAR_CROSS_ENTROPY_TARGETS);
    block_.states = space(cut_.states);
    block_.cap = launch_.attr<tern_linear_cross_entropy_attrs>().softcap;
    const bool kept = cut_.vocab <= cut_.panel;  // the logits of the only panel
    take();
    each_panel([&](std::int64_t v, std::int64_t count) {
      open_panel(v, count);
      make_logits(count);
      launch_.call(kStatistics).arg(block_).arg(panel(v, count)).run({block_.rows, 1, 1}, {kThreads, 1, 1});
    });
    finish_rows();
    if (!cut_.gives_dh && !cut_.gives_dw) return;
    each_panel([&](std::int64_t v, std::int64_t count) {
      if (!kept) {
        open_panel(v, count);
        make_logits(count);
      }
      launch_.call(kGradient).arg(block_).arg(panel(v, count)).run({block_.rows, 1, 1}, {kThreads, 1, 1});
      if (cut_.gives_dh) input_gradient(v, count);
      if (cut_.gives_dw) weight_gradient(v, count);
    });
    if (cut_.gives_dh) give();
  }

  void take() {
    const TensorView& h = launch_[kH];
    launch_.call(kTake)
        .arg(DeviceTensor{place_of(h, first_ * h.stride(0)), h.dtype(), 0})
        .arg(h.stride(0))
        .arg(h.stride(1))
        .arg(block_)
        .arg(DeviceTensor{space(cut_.taken), cut_.taken_as, 0})
        .arg(static_cast<std::int32_t>(cut_.width))
        .run(column_blocks(), {kPlainThreads, 1, 1});
  }

  // Where the weight's rows from v on lie as numbers.
  void open_panel(std::int64_t v, std::int64_t count) {
    const TensorView& w = launch_[kW];
    if (!cut_.expands) {
      weight_ = place_of(w, v * w.stride(0));
      return;
    }
    weight_ = space(cut_.expanded);
    Expansion part;
    part.first_row = v;
    part.rows = count;
    part.columns = cut_.width;
    part.out = weight_;
    part.out_dtype = cut_.compute;
    part.out_row = cut_.width;
    expand_weight(launch_.call(kExpand), w, part);
  }

  void make_logits(std::int64_t count) {
    ProductCall call;
    call.m = block_.rows;
    call.n = count;
    call.k = cut_.width;
    call.a = space(cut_.taken);
    call.b = weight_;
    call.out = space(cut_.logits);
    call.out_row = cut_.panel;
    call.out_col = 1;
    multiply(kLogits, cut_.to_logits, call);
  }

  void finish_rows() {
    constexpr int kLse = TERN_LINEAR_CROSS_ENTROPY_LSE, kMax = TERN_LINEAR_CROSS_ENTROPY_ROW_MAX;
    constexpr int kSum = TERN_LINEAR_CROSS_ENTROPY_ROW_SUM, kTarget = TERN_LINEAR_CROSS_ENTROPY_ROW_TARGET;
    const Place losses = space(cut_.losses) + static_cast<Place>(first_) * 4;
    const Given given = {of_block(kLse), of_block(kMax), of_block(kSum), of_block(kTarget), step(kLse), step(kMax),
                         step(kSum),     step(kTarget),  losses};
    launch_.call(kFinish).arg(block_).arg(given).run(block_.rows, kPlainThreads);
  }

  void input_gradient(std::int64_t v, std::int64_t count) {
    ProductCall call;
    call.m = block_.rows;
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
    call.adds = first_ > 0 || launch_.accumulates(kDw);
    call.m = call.adds && block_.rows == 0 ? 0 : count;  // nothing to add
    call.n = cut_.width;
    call.k = block_.rows;
    call.a = space(cut_.logits);
    call.b = space(cut_.taken);
    call.out = place_of(dw, v * dw.stride(0));
    call.out_row = dw.stride(0);
    call.out_col = dw.stride(1);
    multiply(kWeightGradient, cut_.to_dw, call);
  }

  void give() {
    const TensorView& dh = launch_[kDh];
    launch_.call(kGive)
        .arg(space(cut_.sums))
        .arg(block_)
        .arg(DeviceTensor{place_of(dh, first_ * dh.stride(0)), dh.dtype(), 0})
        .arg(dh.stride(0))
        .arg(dh.stride(1))
        .arg(static_cast<std::int32_t>(cut_.width))
        .run(column_blocks(), {kPlainThreads, 1, 1});
  }

  void multiply(std::size_t first, const ProductSpec& spec, const ProductCall& call) {
    run_product(launch_, first, space(cut_.products), plan_product(spec, launch_.device()), spec, call);
  }

  const Launch& launch_;
  const Cut cut_;
  const std::int64_t rows_;
  std::int64_t first_ = 0;  // of the block at hand
  Block block_{};
  Place weight_ = 0;
};

void run(const Launch& launch) { Head(launch).run(); }

constexpr KernelEntry entry(int variant) {
  return {TERN_OP_LINEAR_CROSS_ENTROPY,
          kBudgets.at(static_cast<std::size_t>(variant)).name,
          supports,
          workspace,
          functions,
          run,
          variant};
}
constexpr KernelEntry kKernels[] = {entry(0), entry(1), entry(2)};

}  // namespace

KernelList linear_cross_entropy_kernels() { return kKernels; }

}  // namespace tern::cuda
