#include "ops/matmul.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/check.h"
#include "ops/ref/oracle.h"
#include "ops/registry.h"
#include "ops/row_sum.h"

namespace tern::ops {
namespace {

std::string check(Args args, AttrBytes bytes) {
  const auto attrs = unpack_attrs<tern_matmul_attrs>(bytes);
  const TensorDesc& a = args[TERN_MATMUL_A];
  const TensorDesc& b = args[TERN_MATMUL_B];
  const TensorDesc& bias = args[TERN_MATMUL_BIAS];
  const TensorDesc& out = args[TERN_MATMUL_OUT];
  if (std::string problem = first_problem(
          require_flag("transpose_a", attrs.transpose_a), require_flag("transpose_b", attrs.transpose_b),
          require_compute(attrs.compute), require(std::isfinite(attrs.alpha), "alpha: expected a number"));
      !problem.empty()) {
    return problem;
  }
  if ((a.rank != 2 && a.rank != 3) || b.rank != a.rank || out.rank != a.rank)
    return "expected all of rank 2 or all of rank 3";
  const int d = a.rank - 2;
  const std::int64_t m = a.shape[d + attrs.transpose_a];
  const std::int64_t k = a.shape[d + 1 - attrs.transpose_a];
  const std::int64_t n = b.shape[d + 1 - attrs.transpose_b];
  const bool batched = d == 0 || (a.shape[0] == b.shape[0] && a.shape[0] == out.shape[0]);
  return first_problem(
      require(b.shape[d + attrs.transpose_b] == k, cat("b: expected inner size ", k, ", found ", to_string(b))),
      require(out.shape[d] == m && out.shape[d + 1] == n,
              cat("out: expected [", m, ",", n, "], found ", to_string(out))),
      require(batched, "the batch sizes differ"),
      require(!is_present(bias) || bias.shape[0] == n, cat("bias: expected [", n, "], found ", to_string(bias))));
}

std::vector<Value> backward(BackwardCall& call) {
  Gradients grads(call);
  Emitter& emitter = grads.emitter();
  const auto attrs = unpack_attrs<tern_matmul_attrs>(call.call.attrs);
  const Value dout = grads.of_output(TERN_MATMUL_OUT);
  const Value a = grads.input(TERN_MATMUL_A);
  const Value b = grads.input(TERN_MATMUL_B);
  const bool ta = attrs.transpose_a != 0;
  const bool tb = attrs.transpose_b != 0;
  MatmulOptions options = {.compute = attrs.compute, .alpha = attrs.alpha, .needs = grads.needs()};
  if (grads.wanted(TERN_MATMUL_A)) {
    options.out = grads.desc(TERN_MATMUL_A).dtype;
    options.into = grads.absorb(TERN_MATMUL_A);
    options.transpose_a = ta && tb;
    options.transpose_b = ta || !tb;
    grads.give(TERN_MATMUL_A, ta ? matmul(emitter, b, dout, options) : matmul(emitter, dout, b, options));
  }
  if (grads.wanted(TERN_MATMUL_B)) {
    options.out = TERN_F32;
    options.into = grads.absorb(TERN_MATMUL_B);
    options.transpose_a = tb || !ta;
    options.transpose_b = ta && tb;
    grads.give(TERN_MATMUL_B, tb ? matmul(emitter, dout, a, options) : matmul(emitter, a, dout, options));
  }
  if (grads.wanted(TERN_MATMUL_BIAS)) {
    Value flat = dout;
    if (emitter.desc(dout).rank == 3) {
      flat = contiguous(emitter, dout, grads.needs());
      const TensorDesc desc = emitter.desc(flat);
      flat = emitter.view(flat, make_desc(desc.dtype, {desc.shape[0] * desc.shape[1], desc.shape[2]}), 0);
    }
    grads.give(TERN_MATMUL_BIAS,
               row_sum(emitter, flat, {.axis = 0, .into = grads.absorb(TERN_MATMUL_BIAS), .needs = grads.needs()}));
  }
  return grads.take();
}

std::vector<Value> decompose(Emitter& emitter, const OpCall& call) {
  const Value bias = arg(call, TERN_MATMUL_BIAS);
  const TensorDesc& out = call.outputs[TERN_MATMUL_OUT];
  if (!bias.present()) return decompose_accumulate(emitter, call);
  OpCall plain = call;
  plain.accumulate = 0;
  plain.inputs[TERN_MATMUL_BIAS] = plain.inputs[TERN_MATMUL_OUT] = {};
  plain.outputs[TERN_MATMUL_OUT] = like(out, TERN_F32);
  const Value product = emitter.emit(plain)[TERN_MATMUL_OUT];
  TensorDesc wide = like(out, emitter.desc(bias).dtype);
  for (int d = 0; d < wide.rank; ++d) wide.strides[d] = d + 1 == wide.rank ? emitter.desc(bias).strides[0] : 0;
  return {{},
          {},
          {},
          axpby(emitter, product, emitter.view(bias, wide, 0),
                {.out = out.dtype, .into = arg(call, TERN_MATMUL_OUT), .needs = call.needs})};
}

double flops(const CallDesc& call, HostArrays) {
  const TensorDesc& a = call[TERN_MATMUL_A];
  const int inner = a.rank - 1 - (unpack_attrs<tern_matmul_attrs>(call.attrs).transpose_a != 0 ? 1 : 0);
  return 2.0 * static_cast<double>(num_elements(call[TERN_MATMUL_OUT])) * static_cast<double>(a.shape[inner]);
}

std::uint32_t uses(const CallDesc& call, int arg) {
  if (arg != TERN_MATMUL_B) return 0;
  return product_use(unpack_attrs<tern_matmul_attrs>(call.attrs).transpose_b != 0);
}

int row_dim(const CallDesc& call, int arg) {
  if (call[TERN_MATMUL_A].rank != 2) return -1;
  if (arg == TERN_MATMUL_A) return unpack_attrs<tern_matmul_attrs>(call.attrs).transpose_a;
  return arg == TERN_MATMUL_OUT ? 0 : -1;
}

std::optional<Split> split(const CallDesc& call, int arg, int dim) {
  const auto attrs = unpack_attrs<tern_matmul_attrs>(call.attrs);
  const std::string_view bias = call.has(TERN_MATMUL_BIAS) ? "n" : "";
  if (call[TERN_MATMUL_A].rank == 2) {
    const std::array<std::string_view, 4> letters = {attrs.transpose_a != 0 ? "km" : "mk",
                                                     attrs.transpose_b != 0 ? "nk" : "kn", bias, "mn"};
    return split_product(letters, arg, dim, TERN_MATMUL_BIAS, TERN_MATMUL_OUT);
  }
  const std::array<std::string_view, 4> letters = {attrs.transpose_a != 0 ? "bkm" : "bmk",
                                                   attrs.transpose_b != 0 ? "bnk" : "bkn", bias, "bmn"};
  return split_product(letters, arg, dim, TERN_MATMUL_BIAS, TERN_MATMUL_OUT);
}

}  // namespace

Value matmul(Emitter& emitter, Value a, Value b, const MatmulOptions& options) {
  const TensorDesc& left = emitter.desc(a);
  const TensorDesc& right = emitter.desc(b);
  const int d = left.rank - 2;
  const int row = d + (options.transpose_a ? 1 : 0);     // of a
  const int column = d + (options.transpose_b ? 0 : 1);  // of b
  std::vector<std::int64_t> shape(left.shape, left.shape + std::max(d, 0));
  shape.push_back(left.shape[row]);
  shape.push_back(right.shape[column]);
  TensorDesc out = make_desc(options.out, shape);
  if (left.dynamic_dim >= 0 && (left.dynamic_dim == row || left.dynamic_dim < d)) {
    out = with_dynamic(out, left.dynamic_dim == row ? d : 0, left.count_slot);
  } else if (right.dynamic_dim == column) {
    out = with_dynamic(out, d + 1, right.count_slot);
  }
  return CallBuilder(TERN_OP_MATMUL, options.needs)
      .attrs(
          tern_matmul_attrs{options.transpose_a ? 1 : 0, options.transpose_b ? 1 : 0, options.compute, options.alpha})
      .in(TERN_MATMUL_A, a)
      .in(TERN_MATMUL_B, b)
      .in(TERN_MATMUL_BIAS, options.bias)
      .out(emitter, TERN_MATMUL_OUT, out, options.into)
      .emit(emitter, TERN_MATMUL_OUT);
}

const OpRules matmul_rules = {
    .check = check,
    .backward = backward,
    .decompose = decompose,
    .reference = ref::matmul,
    .work = {flops, each_argument_once},
    .uses = uses,
    .row_dim = row_dim,
    .split = split,
    .indices = no_indices,
    .needed_by = kEveryCommand,
};

}  // namespace tern::ops
