#include "nn/rope.h"

#include <cmath>

#include "base/strings.h"
#include "ops/qk_norm_rope.h"
#include "ops/rope.h"

namespace tern::nn {
namespace {

std::string table_name(const std::string& kind, const char* part) { return cat("rope.", kind, ".", part); }

Value table(Context& context, const std::string& kind, const char* part) {
  const std::string name = table_name(kind, part);
  return context.has_kept(name) ? context.kept(name) : context.weight(name);
}

ops::QkNormRopeOptions norm_options(Context& context, double eps, float weight_offset) {
  ops::QkNormRopeOptions options;
  options.eps = static_cast<float>(eps);
  options.weight_offset = weight_offset;
  options.keep_rstd = context.options().training;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return options;
}

}  // namespace

void add_rope_table(graph::TensorStore& store, const std::string& kind, std::span<const double> frequencies,
                    std::span<const double> amplitudes) {
  const auto rows = static_cast<std::int64_t>(amplitudes.size());
  const auto width = static_cast<std::int64_t>(frequencies.size());
  const TensorDesc desc = make_desc(TERN_F32, {rows, width});
  store.create(table_name(kind, "cos"), desc);
  store.create(table_name(kind, "sin"), desc);
  if (store.only_counts()) return;
  std::vector<float> cosines(static_cast<std::size_t>(rows * width));
  std::vector<float> sines(cosines.size());
  std::size_t at = 0;
  for (std::int64_t position = 0; position < rows; ++position) {
    const double amplitude = amplitudes[static_cast<std::size_t>(position)];
    for (const double frequency : frequencies) {
      const double phase = static_cast<double>(position) * frequency;
      cosines[at] = static_cast<float>(amplitude * std::cos(phase));
      sines[at++] = static_cast<float>(amplitude * std::sin(phase));
    }
  }
  store.upload(table_name(kind, "cos"), std::as_bytes(std::span(cosines)));
  store.upload(table_name(kind, "sin"), std::as_bytes(std::span(sines)));
}

void use_rope_table(Context& context, const std::string& kind, Value cosines, Value sines) {
  context.keep(table_name(kind, "cos"), cosines);
  context.keep(table_name(kind, "sin"), sines);
}

Value rope(Context& context, Value x, Value positions, const std::string& kind, bool interleaved) {
  ops::RopeOptions options;
  options.interleaved = interleaved;
  options.out = context.options().activations;
  options.needs = context.options().needs;
  return ops::rope(context.graph(), x, positions, table(context, kind, "cos"), table(context, kind, "sin"), options);
}

Value norm_rope(Context& context, const HeadNorm& norm, Value x, Value positions, const std::string& kind) {
  return ops::qk_norm_rope(context.graph(), x, context.weight(norm.module + ".weight"), positions,
                           table(context, kind, "cos"), table(context, kind, "sin"),
                           norm_options(context, norm.eps, norm.weight_offset))
      .y;
}

Value norm_heads(Context& context, const HeadNorm& norm, Value x) {
  const Value weight = norm.module.empty() ? Value{} : context.weight(norm.module + ".weight");
  return ops::qk_norm_rope(context.graph(), x, weight, {}, {}, {}, norm_options(context, norm.eps, norm.weight_offset))
      .y;
}

Value norm_heads(Context& context, Value x, double eps) {
  return ops::qk_norm_rope(context.graph(), x, {}, {}, {}, {}, norm_options(context, eps, 1.0F)).y;
}

Value unit_heads(Context& context, Value x, double eps) {
  const auto head_dim = static_cast<double>(context.graph().desc(x).shape[2]);
  return norm_heads(context, {"", eps / head_dim, static_cast<float>(1.0 / std::sqrt(head_dim))}, x);
}

}  // namespace tern::nn
