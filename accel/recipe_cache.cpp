#include "accel/recipe_cache.h"

#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "accel/cache_file.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/strings.h"
#include "tern/plugin/graph.h"

namespace tern::accel {
namespace {

namespace fs = std::filesystem;

// A file name from all that the graph says. The backend compares the whole graph; this only has to be a good name.
std::string fingerprint(const tern_graph_desc& graph) {
  std::vector<unsigned char> bytes(tern_plugin_graph_bytes(&graph, nullptr, 0));
  (void)tern_plugin_graph_bytes(&graph, bytes.data(), bytes.size());
  std::uint64_t halves[2] = {bytes.size(), ~std::uint64_t{bytes.size()}};
  for (const unsigned char byte : bytes) {
    for (std::uint64_t& half : halves) half = mix_key(half, byte);
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const std::uint64_t half : halves) {
    for (int shift = 60; shift >= 0; shift -= 4) out += kHex[half >> shift & 15U];
  }
  return out;
}

bool read_file(const fs::path& file, std::vector<char>& data) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return false;
  data.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  return true;
}

// False where there is none, or none that fits.
bool load(const DevicePtr& device, const tern_graph_desc& graph, const PlanOptions& options, const fs::path& file,
          CompiledGraph& out) {
  std::vector<char> data;
  if (!read_file(file, data)) return false;
  out.info.size = sizeof(out.info);
  tern_recipe raw = nullptr;
  const tern_status status =
      device->api().recipe_load(device->raw(), &graph, data.data(), data.size(), &raw, &out.info);
  std::string reason = status == TERN_OK ? "" : device->backend().last_error();
  if (status == TERN_OK) {
    out.recipe = Recipe(device, raw);
    out.info.choice[sizeof(out.info.choice) - 1] = '\0';
    if (options.choice.empty() || options.choice == out.info.choice) return true;
    reason = cat("its choice is ", out.info.choice, ", and this run's is ", options.choice);
  }
  log_warn(cat(device->name(), ": a kept graph, ", file.string(),
               ", is compiled again: ", reason.empty() ? status_name(status) : reason));
  out = {};
  return false;
}

void keep(const CompiledGraph& compiled, const fs::path& file) {
  const DevicePtr& device = compiled.recipe.device();
  std::uint64_t bytes = 0;
  if (device->api().recipe_save(compiled.recipe.raw(), nullptr, 0, &bytes) != TERN_OK || bytes == 0) return;
  std::vector<char> data(bytes);
  if (device->api().recipe_save(compiled.recipe.raw(), data.data(), data.size(), &bytes) != TERN_OK) return;
  if (bytes <= data.size()) write_cache_file(file, std::span(data).first(bytes));
}

}  // namespace

std::optional<CompiledGraph> compile_graph(const DevicePtr& device, const tern_graph_desc& graph,
                                           const PlanOptions& options, const fs::path& dir, std::string& refusal) {
  const bool kept = !dir.empty() && device->can(TERN_CAP_RECIPE_FILES);
  const fs::path file = kept ? dir / (fingerprint(graph) + ".recipe") : fs::path();
  CompiledGraph out;
  if (kept && load(device, graph, options, file, out)) return out;
  out.info.size = sizeof(out.info);
  const tern_plan_options how = options.c_options();
  tern_recipe raw = nullptr;
  const tern_status status = device->api().compile(device->raw(), &graph, &how, &raw, &out.info);
  if (status == TERN_UNSUPPORTED) {
    refusal = device->backend().last_error();
    return std::nullopt;
  }
  check(status, device->backend(), device->name(), ": compiling a graph of ", graph.num_nodes, " ops");
  out.info.choice[sizeof(out.info.choice) - 1] = '\0';
  out.recipe = Recipe(device, raw);
  if (kept) keep(out, file);
  return out;
}

}  // namespace tern::accel
