#include "ops/grouped_matmul.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "ops/build.h"
#include "ops/check.h"
#include "ops/dequantize.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"

namespace tern::ops {
namespace {

bool is_forward(AttrBytes attrs) { return unpack_attrs<tern_grouped_matmul_attrs>(attrs).transpose_w != 0; }

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_grouped_matmul_attrs>(bytes);
  if (std::string problem =
          first_problem(require_flag("transpose_w", attrs.transpose_w), require_compute(attrs.compute));
      !problem.empty()) {
    return problem;
  }
  const bool forward = attrs.transpose_w != 0;
  const TensorDesc& x = args[TERN_GROUPED_MATMUL_X];
  const TensorDesc& w = args[TERN_GROUPED_MATMUL_W];
  const TensorDesc& bias = args[TERN_GROUPED_MATMUL_BIAS];
  const TensorDesc& offsets = args[TERN_GROUPED_MATMUL_OFFSETS];
  const TensorDesc& y = args[TERN_GROUPED_MATMUL_Y];
  const std::int64_t experts = offsets.shape[0] - 1;
  const bool fits = is_quantised(w) ? experts > 0 && w.shape[0] % experts == 0 : w.rank == 3 && w.shape[0] == experts;
  if (experts < 1 || !fits) {
    return cat("w: expected ", is_quantised(w) ? "rows that " : "[", experts,
               is_quantised(w) ? " experts share" : ",out,in]", ", found ", to_string(w));
  }
  const GroupedSizes sizes = grouped_sizes(w, offsets);
  const std::int64_t from = forward ? sizes.in : sizes.out;
  const std::int64_t to = forward ? sizes.out : sizes.in;
  return first_problem(
      require(x.rank == 3 && x.shape[2] == from, cat("x: expected [rows,top_k,", from, "], found ", to_string(x))),
      require(y.rank == 3 && y.shape[0] == x.shape[0] && y.shape[1] == x.shape[1] && y.shape[2] == to,
              cat("y: expected [", x.shape[0], ",", x.shape[1], ",", to, "], found ", to_string(y))),
      require(!is_present(bias) || forward, "bias: only with transpose_w"),
      require(!is_present(bias) || (bias.rank == 2 && bias.shape[0] == experts && bias.shape[1] == to),
              cat("bias: expected [", experts, ",", to, "], found ", to_string(bias))));
}

std::string check_backward(Args args, AttrBytes bytes) {
  const bool any =
      is_present(args[TERN_GROUPED_MATMUL_BACKWARD_DW]) || is_present(args[TERN_GROUPED_MATMUL_BACKWARD_DBIAS]);
  return first_problem(require_compute(unpack_attrs<tern_grouped_matmul_backward_attrs>(bytes).compute),
                       require(any, "dw and dbias: expected one of them"));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const auto attrs = unpack_attrs<tern_grouped_matmul_attrs>(call.call.attrs);
  const Value w = grads.input(TERN_GROUPED_MATMUL_W);
  const Value offsets = grads.input(TERN_GROUPED_MATMUL_OFFSETS);
  const Value x = grads.input(TERN_GROUPED_MATMUL_X);
  const Value dy = grads.of_output(TERN_GROUPED_MATMUL_Y);
  const bool forward = attrs.transpose_w != 0;
  if (grads.wanted(TERN_GROUPED_MATMUL_X)) {
    grads.give(TERN_GROUPED_MATMUL_X, grouped_matmul(grads.emitter(), dy, w, offsets,
                                                     {.transpose_w = !forward,
                                                      .compute = attrs.compute,
                                                      .out = grads.desc(TERN_GROUPED_MATMUL_X).dtype,
                                                      .into = grads.absorb(TERN_GROUPED_MATMUL_X),
                                                      .needs = grads.needs()}));
  }
  const bool of_w = grads.wanted(TERN_GROUPED_MATMUL_W);
  const bool of_bias = grads.wanted(TERN_GROUPED_MATMUL_BIAS);
  if (!of_w && !of_bias) return grads.take();
  const TensorDesc weight = grads.emitter().desc(w);
  if (of_w && is_quantised(weight)) throw std::logic_error("grouped_matmul: a quantised weight has no gradient");
  CallBuilder builder(TERN_OP_GROUPED_MATMUL_BACKWARD, grads.needs());
  builder.attrs(tern_grouped_matmul_backward_attrs{attrs.compute})
      .in(TERN_GROUPED_MATMUL_BACKWARD_DY, forward ? dy : x)
      .in(TERN_GROUPED_MATMUL_BACKWARD_X, forward ? x : dy)
      .in(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, offsets);
  if (of_w) {
    builder.out(grads.emitter(), TERN_GROUPED_MATMUL_BACKWARD_DW, make_desc(TERN_F32, shape_of(weight)),
                grads.absorb(TERN_GROUPED_MATMUL_W));
  }
  if (of_bias) {
    builder.out(grads.emitter(), TERN_GROUPED_MATMUL_BACKWARD_DBIAS,
                make_desc(TERN_F32, shape_of(grads.desc(TERN_GROUPED_MATMUL_BIAS))),
                grads.absorb(TERN_GROUPED_MATMUL_BIAS));
  }
  const std::vector<Value> out = builder.emit(grads.emitter());
  if (of_w) grads.give(TERN_GROUPED_MATMUL_W, out[TERN_GROUPED_MATMUL_BACKWARD_DW]);
  if (of_bias) grads.give(TERN_GROUPED_MATMUL_BIAS, out[TERN_GROUPED_MATMUL_BACKWARD_DBIAS]);
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value w = arg(call, TERN_GROUPED_MATMUL_W);
  if (!is_quantised(emitter.desc(w))) return decompose_accumulate(emitter, call);
  OpCall expanded = call;
  const auto [experts, out, in] = grouped_sizes(emitter.desc(w), emitter.desc(arg(call, TERN_GROUPED_MATMUL_OFFSETS)));
  const auto compute = unpack_attrs<tern_grouped_matmul_attrs>(call.attrs).compute;
  const Value dense = dequantize(emitter, w, compute, call.needs);
  expanded.inputs[TERN_GROUPED_MATMUL_W] = emitter.view(dense, make_desc(compute, {experts, out, in}), 0);
  return emitter.emit(expanded);
}

double flops(const CallDesc& call, HostArrays) {
  return 2.0 * static_cast<double>(num_elements(call[TERN_GROUPED_MATMUL_Y])) *
         static_cast<double>(call[TERN_GROUPED_MATMUL_X].shape[2]);
}

double backward_flops(const CallDesc& call, HostArrays) {
  if (!call.has(TERN_GROUPED_MATMUL_BACKWARD_DW)) return 0;
  return 2.0 * static_cast<double>(num_elements(call[TERN_GROUPED_MATMUL_BACKWARD_DY])) *
         static_cast<double>(call[TERN_GROUPED_MATMUL_BACKWARD_X].shape[2]);
}

// Of as many experts as there are rows at most.
double bytes(const CallDesc& call, int arg, HostArrays lengths) {
  const double all = each_argument_once(call, arg, lengths);
  if (arg != TERN_GROUPED_MATMUL_W && arg != TERN_GROUPED_MATMUL_BIAS) return all;
  const TensorDesc& x = call[TERN_GROUPED_MATMUL_X];
  const auto experts = static_cast<double>(std::max<std::int64_t>(call[TERN_GROUPED_MATMUL_OFFSETS].shape[0] - 1, 1));
  return all * std::min(1.0, static_cast<double>(x.shape[0] * x.shape[1]) / experts);
}

// x and y are cut among their rows by experts, which no row stands alone in; but a row's bits depend on no other.
std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  if (is_quantised(call[TERN_GROUPED_MATMUL_W])) return std::nullopt;
  const bool forward = is_forward(call.attrs);
  const std::string_view bias = call.has(TERN_GROUPED_MATMUL_BIAS) ? "en" : "";
  const std::array<std::string_view, 5> letters = {"mtk", forward ? "enk" : "ekn", bias, "o", "mtn"};
  const char letter = letters[static_cast<std::size_t>(arg)][static_cast<std::size_t>(dim)];
  if (letter != 'n' && letter != 'k') return std::nullopt;
  return split_product(letters, arg, dim, TERN_GROUPED_MATMUL_BIAS, TERN_GROUPED_MATMUL_Y);
}

Indices sequences(int offsets, int rows_of, const TensorDesc& x) {
  const std::int64_t rows = x.shape[0] * x.shape[1];
  return {.sequences = {{offsets, rows_of, std::max<std::int64_t>(rows, 1), false, x.shape[1]}}};
}

Indices indices(const CallDesc& call) {
  return sequences(TERN_GROUPED_MATMUL_OFFSETS, TERN_GROUPED_MATMUL_X, call[TERN_GROUPED_MATMUL_X]);
}

Indices backward_indices(const CallDesc& call) {
  return sequences(TERN_GROUPED_MATMUL_BACKWARD_OFFSETS, TERN_GROUPED_MATMUL_BACKWARD_X,
                   call[TERN_GROUPED_MATMUL_BACKWARD_X]);
}

}  // namespace

GroupedSizes grouped_sizes(const TensorDesc& w, const TensorDesc& offsets) {
  const std::int64_t experts = offsets.shape[0] - 1;
  if (!is_quantised(w)) return {w.shape[0], w.shape[1], w.shape[2]};
  return {experts, experts > 0 ? w.shape[0] / experts : 0, w.shape[1]};
}

Value grouped_matmul(Emitter& emitter, Value x, Value w, Value offsets, const GroupedMatmulOptions& options) {
  const TensorDesc& from = emitter.desc(x);
  const GroupedSizes sizes = grouped_sizes(emitter.desc(w), emitter.desc(offsets));
  const TensorDesc out =
      make_desc(options.out, {from.shape[0], from.shape[1], options.transpose_w ? sizes.out : sizes.in});
  return CallBuilder(TERN_OP_GROUPED_MATMUL, options.needs)
      .attrs(tern_grouped_matmul_attrs{options.transpose_w ? 1 : 0, options.compute})
      .in(TERN_GROUPED_MATMUL_X, x)
      .in(TERN_GROUPED_MATMUL_W, w)
      .in(TERN_GROUPED_MATMUL_BIAS, options.bias)
      .in(TERN_GROUPED_MATMUL_OFFSETS, offsets)
      .out(emitter, TERN_GROUPED_MATMUL_Y, rows_like(out, from), options.into)
      .emit(emitter, TERN_GROUPED_MATMUL_Y);
}

const OpRules grouped_matmul_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::grouped_matmul,
    .work = {flops, bytes},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = split,
    .indices = indices,
    .needed_by = kEveryCommand,
};

const OpRules grouped_matmul_backward_rules = {
    .check = check_backward,
    .backward = nullptr,
    .decompose = decompose_accumulate,
    .reference = ref::grouped_matmul_backward,
    .work = {backward_flops, each_argument_once},
    .uses = no_weights,
    .row_dim = no_rows,
    .split = no_split,
    .indices = backward_indices,
    .needed_by = kTrain,
};

}  // namespace tern::ops
