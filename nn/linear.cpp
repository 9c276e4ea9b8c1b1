#include "nn/linear.h"

#include "accel/kernel.h"
#include "nn/dora.h"
#include "nn/scale.h"
#include "ops/axpby.h"
#include "ops/build.h"
#include "ops/dropout.h"
#include "ops/lora_segmented.h"
#include "ops/lora_shrink.h"
#include "ops/matmul.h"
#include "ops/matmul_q.h"
#include "ops/mul.h"

namespace tern::nn {
namespace {

// Absent where the device draws dropout itself; else an input of x's shape that the host fills.
Value dropout_mask(Context& context, std::int32_t site, Value x) {
  if (context.device().can(TERN_CAP_PHILOX)) return {};
  TensorDesc desc = context.graph().desc(x);
  desc.dtype = TERN_U8;
  return context.graph().input(dropout_mask_name(site), desc);
}

}  // namespace

AdapterDropout adapter_dropout(Context& context, Value x) {
  const BuildOptions& build = context.options();
  AdapterDropout out;
  out.site = context.next_dropout_site();
  if (!build.training || build.lora_dropout <= 0.0F || !context.dropout_keys.present()) return out;
  out.rate = build.lora_dropout;
  out.keys = context.dropout_keys;
  out.mask = dropout_mask(context, out.site, x);
  return out;
}

Value dropped(Context& context, Value x, const AdapterDropout& dropout) {
  if (!dropout.keys.present()) return x;
  return ops::dropout(context.graph(), x, dropout.keys,
                      {.rate = dropout.rate,
                       .site = dropout.site,
                       .mask = dropout.mask,
                       .out = context.options().activations,
                       .needs = context.options().needs});
}

Value shrink(Context& context, const std::string& lora_a, float scaling, Value x, const AdapterDropout& dropout) {
  return ops::lora_shrink(context.graph(), x, context.weight(lora_a),
                          {.rate = dropout.rate,
                           .site = dropout.site,
                           .alpha = scaling,
                           .keys = dropout.keys,
                           .mask = dropout.mask,
                           .needs = context.options().needs});
}

namespace {

// x [rows, width] by a stored vector [width], in fp32.
Value by_factors(Context& context, Value x, const std::string& factors) {
  graph::Graph& graph = context.graph();
  const Value vector = context.weight(factors);
  return ops::mul(graph, x, ops::broadcast_rows(graph, vector, graph.desc(x)), {.needs = context.options().needs});
}

// y + low B^T, low being [rows, rank]; without y in fp32.
Value add_expanded(Context& context, const std::string& lora_b, Value low, Value y) {
  graph::Graph& graph = context.graph();
  ops::MatmulOptions up;
  up.transpose_b = true;
  up.compute = TERN_F32;
  up.out = y.present() ? graph.desc(y).dtype : tern_dtype{TERN_F32};
  up.into = y;
  up.needs = context.options().needs;
  return ops::matmul(graph, low, context.weight(lora_b), up);
}

constexpr std::int64_t kMostExactRows = 4;  // that wait for the weight however exact they are

// What x and a quantised weight are rounded to. Few rows wait for the weight alone, so they needn't be rounded as far
// as many are: to x15 where the device has loops for such a weight, which is then read as it lies, and else not at all.
tern_compute compute_of(Context& context, Value x, Value w, tern_compute compute) {
  const BuildOptions& build = context.options();
  const TensorDesc& rows = context.graph().desc(x);
  const auto can = [&](tern_compute in) {
    return multiplies_in(in, context.device(), rows.dtype, rows.shape[0], context.graph().desc(w));
  };
  const tern_device_info& device = context.device().info();
  // As few as x15 is for are multiplied as fast in bytes as anything is, and many where the device is faster so.
  const bool pays =
      rows.shape[0] <= device.x15_rows || device.matmul_rate[TERN_COMPUTE_INT8] > device.matmul_rate[compute];
  const bool int8 = build.int8 && device.matmul_rate[TERN_COMPUTE_INT8] > 0 &&
                    (!build.x15 || (pays && rows.shape[0] > kMostExactRows));
  if (int8 && can(TERN_COMPUTE_INT8)) return TERN_COMPUTE_INT8;
  if (!build.x15 || rows.shape[0] > device.x15_rows) return compute;
  return can(TERN_COMPUTE_X15) ? tern_compute{TERN_COMPUTE_X15} : tern_compute{TERN_COMPUTE_F32};
}

}  // namespace

bool multiplies_in(tern_compute compute, const accel::Device& device, tern_dtype dtype, std::int64_t rows,
                   const TensorDesc& weight) {
  accel::OpDesc desc;
  desc.op = TERN_OP_MATMUL_Q;
  desc.args = {make_desc(dtype, {rows, weight.shape[1]}), weight, absent_desc(),
               make_desc(TERN_F32, {rows, weight.shape[0]})};
  desc.attrs = ops::pack_attrs(tern_matmul_q_attrs{1, compute});
  return accel::supports(device, desc).native;
}

Value product(Context& context, Value x, Value w, Value bias, tern_dtype out, tern_compute compute) {
  const BuildOptions& build = context.options();
  if (is_quantised(context.graph().desc(w))) {
    ops::MatmulQOptions options;
    options.compute = compute_of(context, x, w, compute);
    options.out = out;
    options.bias = bias;
    options.needs = build.needs;
    return ops::matmul_q(context.graph(), x, w, options);
  }
  ops::MatmulOptions options;
  options.transpose_b = true;
  options.compute = compute;
  options.out = out;
  options.bias = bias;
  options.needs = build.needs;
  return ops::matmul(context.graph(), x, w, options);
}

Value add_adapter(Context& context, const LoraLayer& adapter, Value x, const AdapterDropout& dropout, Value y) {
  Value low = shrink(context, adapter.lora_a, adapter.scaling, x, dropout);
  if (!adapter.inner.empty()) low = by_factors(context, low, adapter.inner);
  if (adapter.after.empty()) return add_expanded(context, adapter.lora_b, low, y);
  const Value added = by_factors(context, add_expanded(context, adapter.lora_b, low, {}), adapter.after);
  if (!y.present()) return added;
  graph::Graph& graph = context.graph();
  return ops::axpby(graph, added, y, {.a = 1, .b = 1, .out = graph.desc(y).dtype, .needs = context.options().needs});
}

namespace {

// What the rows' own adapters add to y.
Value add_slotted(Context& context, const std::string& module, Value x, Value y) {
  const auto found = context.options().lora_slots.find(module);
  if (found == context.options().lora_slots.end() || !context.adapter_slots.present()) return y;
  graph::Graph& graph = context.graph();
  return ops::lora_segmented(graph, x, context.weight(found->second.lora_a), context.weight(found->second.lora_b),
                             context.adapter_slots,
                             {.out = graph.desc(y).dtype, .into = y, .needs = context.options().needs});
}

Value shared_linear(Context& context, const std::string& module, Value x) {
  const Value w = context.weight(module + ".weight");
  const Value bias = context.has(module + ".bias") ? context.weight(module + ".bias") : Value{};
  const BuildOptions& build = context.options();
  const auto by_weight = [&](Value in, Value added) {
    return product(context, in, w, added, build.activations, build.compute);
  };
  const auto found = build.adapters.find(module);
  if (found == build.adapters.end()) return by_weight(x, bias);
  const LoraLayer& adapter = found->second;
  const auto without_initial = [&](Value in, Value y) {
    if (adapter.initial_a.empty()) return y;
    return add_expanded(context, adapter.initial_b, shrink(context, adapter.initial_a, -adapter.scaling, in, {}), y);
  };
  const AdapterDropout dropout = adapter_dropout(context, x);
  if (!adapter.magnitude.empty()) {
    return with_magnitude(
        context, adapter,
        {x, dropped(context, x, dropout), bias, [&](Value in) { return without_initial(in, by_weight(in, {})); },
         [&](Value in, Value y) { return add_adapter(context, adapter, in, {}, y); }});
  }
  const Value y = by_weight(x, bias);
  if (adapter.initial_a.empty()) return add_adapter(context, adapter, x, dropout, y);
  // In fp32 together, as most of both is the same at first.
  return weighted_sum(context, 1.0, y, 1.0, without_initial(x, add_adapter(context, adapter, x, dropout, {})));
}

}  // namespace

Value linear(Context& context, const std::string& module, Value x) {
  return add_slotted(context, module, x, shared_linear(context, module, x));
}

}  // namespace tern::nn
