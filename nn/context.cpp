#include "nn/context.h"

#include "base/strings.h"
#include "ops/axpby.h"
#include "ops/dropout.h"
#include "ops/matmul.h"
#include "ops/matmul_q.h"

namespace tern::nn {

Value Context::weight(const std::string& name) {
  Value& known = weights_[name];
  if (!known.present()) known = graph_.constant(name, store_.at(name).desc);
  return known;
}

Value Context::state(const std::string& name, const TensorDesc& desc) {
  const Value found = graph_.find(name);
  return found.present() ? graph_.latest(found) : graph_.resource(name, desc);
}

Value Context::linear(const std::string& module, Value x) {
  const Value w = weight(module + ".weight");
  const Value bias = has(module + ".bias") ? weight(module + ".bias") : Value{};
  Value y;
  if (is_quantised(graph_.desc(w))) {
    ops::MatmulQOptions options;
    options.compute = options_.compute;
    options.out = options_.activations;
    options.bias = bias;
    options.needs = options_.needs;
    y = ops::matmul_q(graph_, x, w, options);
  } else {
    ops::MatmulOptions options;
    options.transpose_b = true;
    options.compute = options_.compute;
    options.out = options_.activations;
    options.bias = bias;
    options.needs = options_.needs;
    y = ops::matmul(graph_, x, w, options);
  }
  const auto adapter = options_.adapters.find(module);
  return adapter == options_.adapters.end() ? y : add_adapter(adapter->second, x, y);
}

Value Context::dropout_mask(std::int32_t site, Value x) {
  if (store_.device()->can(TERN_CAP_PHILOX)) return {};
  TensorDesc desc = graph_.desc(x);
  desc.dtype = TERN_U8;
  return graph_.input(dropout_mask_name(site), desc);
}

std::string dropout_mask_name(std::int32_t site) { return cat("dropout_mask/", site); }

Value Context::add_adapter(const LoraLayer& adapter, Value x, Value y) {
  const std::int32_t site = next_dropout_site();
  if (options_.training && options_.lora_dropout > 0.0F && dropout_keys.present()) {
    ops::DropoutOptions drop;
    drop.rate = options_.lora_dropout;
    drop.site = site;
    drop.mask = dropout_mask(site, x);
    drop.out = options_.activations;
    drop.needs = options_.needs;
    x = ops::dropout(graph_, x, dropout_keys, drop);
  }
  // Adapters are small and carry the whole training signal: their products stay in fp32.
  ops::MatmulOptions down;
  down.transpose_b = true;
  down.compute = TERN_F32;
  down.needs = options_.needs;
  Value low = ops::matmul(graph_, x, weight(adapter.lora_a), down);  // [rows, rank]
  if (adapter.scaling != 1.0F) {
    ops::AxpbyOptions scale;
    scale.a = adapter.scaling;
    scale.needs = options_.needs;
    low = ops::axpby(graph_, low, {}, scale);
  }
  ops::MatmulOptions up;
  up.transpose_b = true;
  up.compute = TERN_F32;
  up.out = options_.activations;
  up.into = y;
  up.needs = options_.needs;
  return ops::matmul(graph_, low, weight(adapter.lora_b), up);
}

}  // namespace tern::nn
