#include "models/vera.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/strings.h"
#include "models/adapter.h"
#include "models/adapter_file.h"

namespace tern::models {
namespace {

// As torch.Tensor.uniform_ fills it: 24 bits of the Mersenne twister's 32 for each number. Kaiming's bound for ReLU.
std::vector<float> drawn(std::mt19937& generator, std::int64_t count, std::int64_t fan_in) {
  const double bound = std::sqrt(3.0) * (std::sqrt(2.0) / std::sqrt(static_cast<double>(fan_in)));
  const auto from = static_cast<float>(-bound), to = static_cast<float>(bound);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) {
    const auto bits = static_cast<float>(generator() & 0xFFFFFFU);
    value = std::fma(bits * 0x1p-24F, to - from, from);
  }
  return out;
}

std::vector<float> projection_in(const checkpoint::Safetensors& file, const checkpoint::SafetensorsTensor& tensor,
                                 std::int64_t rank, std::int64_t least, bool is_a) {
  const bool fits = tensor.shape.size() == 2 && tensor.shape[is_a ? 0 : 1] == rank &&
                    tensor.shape[is_a ? 1 : 0] >= least && tensor.dtype->dtype;
  if (!fits) {
    throw Failure(
        data_error(cat(file.files().front()->path(), ": tensor ", tensor.name),
                   cat("floats of rank ", rank, " for layers of up to ", least, is_a ? " inputs" : " outputs"),
                   "another shape or dtype", "the adapter is of another model: name the one it was trained on"));
  }
  return floats_of(tensor);
}

}  // namespace

std::vector<float> Projections::a_of(std::int64_t inputs) const {
  if (inputs == in) return a;
  std::vector<float> out_values;
  for (auto row = a.begin(); row != a.end(); row += in) out_values.insert(out_values.end(), row, row + inputs);
  return out_values;
}

std::vector<float> Projections::b_of(std::int64_t outputs) const {
  return {b.begin(), b.begin() + static_cast<std::ptrdiff_t>(b.size()) / out * outputs};
}

Projections drawn_projections(const AdapterConfig& config, std::int64_t in, std::int64_t out) {
  std::mt19937 generator(static_cast<std::uint32_t>(config.projection_prng_key));
  Projections made{in, out, {}, {}};
  made.a = drawn(generator, config.rank * in, in);
  made.b = drawn(generator, out * config.rank, config.rank);
  return made;
}

Projections projections_of(const AdapterConfig& config, const checkpoint::Safetensors& file, std::int64_t in,
                           std::int64_t out) {
  const auto* a = file.tensor(kVeraA);
  const auto* b = file.tensor(kVeraB);
  if (a == nullptr || b == nullptr) return drawn_projections(config, in, out);
  Projections read{0, 0, projection_in(file, *a, config.rank, in, true),
                   projection_in(file, *b, config.rank, out, false)};
  read.in = a->shape[1];
  read.out = b->shape[0];
  return read;
}

std::string stored_vera_a(const std::string& adapter, std::int64_t inputs) { return cat(adapter, "/vera_A.", inputs); }
std::string stored_vera_b(const std::string& adapter, std::int64_t outputs) {
  return cat(adapter, "/vera_B.", outputs);
}

void create_projections(graph::TensorScope& tensors, const std::string& adapter, const AdapterConfig& config,
                        const std::vector<LinearModule>& modules) {
  std::set<std::int64_t> ins, outs;
  for (const LinearModule& module : modules) {
    if (ins.insert(module.in).second)
      tensors.create(stored_vera_a(adapter, module.in), make_desc(TERN_F32, {config.rank, module.in}));
    if (outs.insert(module.out).second)
      tensors.create(stored_vera_b(adapter, module.out), make_desc(TERN_F32, {module.out, config.rank}));
  }
}

void fill_projections(graph::TensorStore& store, const std::string& adapter, const Projections& projections,
                      const std::vector<LinearModule>& modules) {
  std::set<std::int64_t> ins, outs;
  for (const LinearModule& module : modules) {
    if (ins.insert(module.in).second) {
      const std::vector<float> a = projections.a_of(module.in);
      store.upload(stored_vera_a(adapter, module.in), std::as_bytes(std::span(a)));
    }
    if (outs.insert(module.out).second) {
      const std::vector<float> b = projections.b_of(module.out);
      store.upload(stored_vera_b(adapter, module.out), std::as_bytes(std::span(b)));
    }
  }
}

LargestLayer largest_of(const std::vector<LinearModule>& modules) {
  LargestLayer largest;
  for (const LinearModule& module : modules) {
    largest = {std::max(largest.in, module.in), std::max(largest.out, module.out)};
  }
  return largest;
}

}  // namespace tern::models
