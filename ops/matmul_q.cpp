#include "ops/matmul_q.h"

#include <stdexcept>

#include "base/dtype.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/dequantize.h"
#include "ops/matmul.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/row_sum.h"

namespace tern::ops {
namespace {

constexpr std::int64_t kWholeBlock = 32;

// Whether rows of x become whole numbers in blocks.
bool in_whole_numbers(tern_compute compute) { return compute == TERN_COMPUTE_X15 || compute == TERN_COMPUTE_INT8; }

// Elements of a row that share a scale and are whole numbers beside it; 0: they aren't.
std::int64_t whole_numbers(const TensorDesc& w) {
  switch (w.scheme.packing) {
    case TERN_PACK_ROW_INT8:
    case TERN_PACK_AWQ_INT4:
    case TERN_PACK_GPTQ_INT4:
      return w.scheme.group_cols;
    default:
      return packing_block(w.scheme.packing).elements;
  }
}

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_matmul_q_attrs>(bytes);
  const bool whole = in_whole_numbers(attrs.compute);
  if (std::string problem = first_problem(require_flag("transpose_w", attrs.transpose_w),
                                          whole ? std::string() : require_compute(attrs.compute));
      !problem.empty()) {
    return problem;
  }
  const std::int64_t block = whole_numbers(args[TERN_MATMUL_Q_W]);
  if (whole && (attrs.transpose_w == 0 || block == 0 || block % kWholeBlock != 0)) {
    return "compute: x15 and int8 are for the forward product by whole numbers in blocks of 32 or a multiple";
  }
  const TensorDesc& x = args[TERN_MATMUL_Q_X];
  const TensorDesc& w = args[TERN_MATMUL_Q_W];
  const TensorDesc& bias = args[TERN_MATMUL_Q_BIAS];
  const TensorDesc& y = args[TERN_MATMUL_Q_Y];
  const std::int64_t from = w.shape[attrs.transpose_w != 0 ? 1 : 0];
  const std::int64_t to = w.shape[attrs.transpose_w != 0 ? 0 : 1];
  return first_problem(
      require(x.rank == 2 && x.shape[1] == from, cat("x: expected [rows,", from, "], found ", to_string(x))),
      require(y.rank == 2 && y.shape[1] == to && y.shape[0] == x.shape[0],
              cat("y: expected [", x.shape[0], ",", to, "], found ", to_string(y))),
      require(!is_present(bias) || attrs.transpose_w != 0, "bias: only with transpose_w"),
      require(!is_present(bias) || (bias.rank == 1 && bias.shape[0] == to),
              cat("bias: expected [", to, "], found ", to_string(bias))));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  const auto attrs = unpack_attrs<tern_matmul_q_attrs>(call.call.attrs);
  if (grads.wanted(TERN_MATMUL_Q_W)) throw std::logic_error("matmul_q: a quantised weight has no gradient");
  const Value dy = grads.of_output(TERN_MATMUL_Q_Y);
  if (grads.wanted(TERN_MATMUL_Q_X)) {
    grads.give(TERN_MATMUL_Q_X, matmul_q(grads.emitter(), dy, grads.input(TERN_MATMUL_Q_W),
                                         {.transpose_w = attrs.transpose_w == 0,
                                          .compute = in_whole_numbers(attrs.compute) ? TERN_COMPUTE_F32 : attrs.compute,
                                          .out = grads.desc(TERN_MATMUL_Q_X).dtype,
                                          .into = grads.absorb(TERN_MATMUL_Q_X),
                                          .needs = grads.needs()}));
  }
  if (grads.wanted(TERN_MATMUL_Q_BIAS)) {
    grads.give(
        TERN_MATMUL_Q_BIAS,
        row_sum(grads.emitter(), dy, {.axis = 0, .into = grads.absorb(TERN_MATMUL_Q_BIAS), .needs = grads.needs()}));
  }
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const auto attrs = unpack_attrs<tern_matmul_q_attrs>(call.attrs);
  Value w = arg(call, TERN_MATMUL_Q_W);
  if (emitter.desc(w).layout != 0 || in_whole_numbers(attrs.compute)) return {};
  if (is_quantised(emitter.desc(w))) w = dequantize(emitter, w, attrs.compute, call.needs);
  return {{},
          {},
          {},
          matmul(emitter, arg(call, TERN_MATMUL_Q_X), w,
                 {.transpose_b = attrs.transpose_w != 0,
                  .compute = attrs.compute,
                  .out = call.outputs[TERN_MATMUL_Q_Y].dtype,
                  .bias = arg(call, TERN_MATMUL_Q_BIAS),
                  .into = arg(call, TERN_MATMUL_Q_Y),
                  .needs = call.needs})};
}

double flops(const CallDesc& call, HostArrays) {
  return 2.0 * static_cast<double>(num_elements(call[TERN_MATMUL_Q_Y])) *
         static_cast<double>(call[TERN_MATMUL_Q_X].shape[1]);
}

std::uint32_t uses(const CallDesc& call, int arg) {
  if (arg != TERN_MATMUL_Q_W) return 0;
  return product_use(unpack_attrs<tern_matmul_q_attrs>(call.attrs).transpose_w != 0);
}

int row_dim(const CallDesc&, int arg) { return arg == TERN_MATMUL_Q_X || arg == TERN_MATMUL_Q_Y ? 0 : -1; }

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const bool forward = unpack_attrs<tern_matmul_q_attrs>(call.attrs).transpose_w != 0;
  // Inputs of a weight whose planes have them in another order stay together.
  const tern_scheme& scheme = call[TERN_MATMUL_Q_W].scheme;
  const bool in_order = scheme.packing != TERN_PACK_GPTQ_INT4 || (scheme.flags & TERN_SCHEME_IN_ORDER) != 0;
  if (!in_order && dim == 1 && (arg == TERN_MATMUL_Q_W || arg == (forward ? TERN_MATMUL_Q_X : TERN_MATMUL_Q_Y)))
    return std::nullopt;
  const std::string_view bias = call.has(TERN_MATMUL_Q_BIAS) ? "n" : "";
  const std::array<std::string_view, 4> letters = {"mk", forward ? "nk" : "kn", bias, "mn"};
  return split_product(letters, arg, dim, TERN_MATMUL_Q_BIAS, TERN_MATMUL_Q_Y);
}

}  // namespace

Value matmul_q(Emitter& emitter, Value x, Value w, const MatmulQOptions& options) {
  const TensorDesc& from = emitter.desc(x);
  const TensorDesc out = make_desc(options.out, {from.shape[0], emitter.desc(w).shape[options.transpose_w ? 0 : 1]});
  return CallBuilder(TERN_OP_MATMUL_Q, options.needs)
      .attrs(tern_matmul_q_attrs{options.transpose_w ? 1 : 0, options.compute})
      .in(TERN_MATMUL_Q_X, x)
      .in(TERN_MATMUL_Q_W, w)
      .in(TERN_MATMUL_Q_BIAS, options.bias)
      .out(emitter, TERN_MATMUL_Q_Y, rows_like(out, from), options.into)
      .emit(emitter, TERN_MATMUL_Q_Y);
}

const OpRules matmul_q_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::matmul_q,
    .work = {flops, each_argument_once},
    .uses = uses,
    .row_dim = row_dim,
    .split = split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
