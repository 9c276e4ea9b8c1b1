// Whether devices can hold a model and multiply by its weights as they are stored.
#include <algorithm>
#include <map>

#include "accel/child_process.h"
#include "accel/kernel.h"
#include "base/dtype.h"
#include "base/strings.h"
#include "checkpoint/inspect.h"
#include "checkpoint/logical_tensors.h"
#include "cli/device_report.h"
#include "cli/diagnosis.h"
#include "models/stored_planes.h"
#include "ops/emit.h"
#include "session/model_dtype.h"

namespace tern::cli {
namespace {

using Level = accel::Finding::Level;

struct ModelFacts {
  std::string name;
  std::uint64_t bytes = 0;                      // of the weights as stored
  std::map<std::string, TensorDesc> quantised;  // a weight of each storage: "fp8_e4m3" and so on
  bool stores_bf16 = false;
};

ModelFacts facts_of(const std::string& path) {
  ModelFacts facts;
  facts.name = std::filesystem::path(path).filename().string();
  const auto source = checkpoint::CheckpointSource::open(path).value();
  const auto tensors = checkpoint::logical_tensors(source).value();
  for (const auto& tensor : tensors) {
    facts.bytes += tensor.stored_bytes();
    facts.stores_bf16 |= tensor.data->storage.dtype == TERN_BF16;
    if (tensor.shape.size() != 2 || facts.quantised.count(tensor.storage_name()) != 0) continue;
    const checkpoint::LogicalTensor* const one[] = {&tensor};
    const models::RowRun all[] = {{0, 0, tensor.shape[0]}};
    const bool plain = tensor.scheme.packing == TERN_PACK_NONE;
    if (plain) continue;
    const auto desc = models::joined_desc(one, all);
    if (is_present(desc)) facts.quantised.emplace(tensor.storage_name(), desc);
  }
  return facts;
}

accel::OpDesc product_with(const TensorDesc& weight, tern_dtype activations, tern_compute compute) {
  constexpr std::int64_t kRows = 64;  // of a prefill, or of a step of training
  accel::OpDesc desc;
  desc.op = TERN_OP_MATMUL_Q;
  desc.args = {make_desc(activations, {kRows, weight.shape[1]}), weight, absent_desc(),
               make_desc(activations, {kRows, weight.shape[0]})};
  desc.attrs = ops::pack_attrs(tern_matmul_q_attrs{1, compute});
  return desc;
}

Check product_check(const ModelFacts& model, const std::string& storage, const TensorDesc& weight,
                    const std::string& name, const accel::Device& device) {
  const auto& info = device.info();
  const auto compute = session::compute_dtype(info, session::storable_dtype(info, TERN_BF16));
  const auto verdict = accel::supports(device, product_with(weight, info.activation_dtype, compute));
  const auto what = cat("the weights of ", model.name, " are stored as ", storage);
  if (verdict.native) return {"model", {Level::ok, cat(what, ", and ", name, " has a product for them")}};
  const auto* plain = (info.storage_dtypes >> TERN_BF16 & 1U) != 0 ? "bf16" : "f16";
  return {"model",
          {Level::warning, cat(what, ", which ", name, " has no product for (", verdict.reason,
                               "): make a copy without quantisation by tern convert ", model.name, " ", model.name, "-",
                               plain, " --outtype ", plain)}};
}

std::vector<Check> checks_on(const accel::ProbedBackend& backend, int ordinal, const ModelFacts& model) {
  const std::string name = cat(backend.name, ":", ordinal);
  const auto loaded = accel::Backend::load(backend.file);
  if (!loaded) return {{"model", {Level::error, loaded.error().line()}}};
  const auto device = accel::Device::open(*loaded, ordinal);
  if (!device) return {{"model", {Level::error, device.error().line()}}};
  tern_memory_info memory{};
  memory.size = sizeof memory;
  std::vector<Check> checks;
  if ((*device)->api().memory_info((*device)->raw(), &memory) == TERN_OK) {
    checks.push_back(memory_check(model.name, model.bytes, name, memory));
  }
  for (const auto& [storage, weight] : model.quantised) {
    checks.push_back(product_check(model, storage, weight, name, **device));
  }
  if (model.stores_bf16 && ((*device)->info().storage_dtypes >> TERN_BF16 & 1U) == 0) {
    const auto runs = session::storable_dtype((*device)->info(), TERN_BF16);
    checks.push_back(
        {"model",
         {Level::ok, cat("the weights of ", model.name, " are bfloat16, which ", name, " lacks: they run in ",
                         dtype_name(runs), runs == TERN_F16 ? ", and training scales the loss" : "")}});
  }
  return checks;
}

}  // namespace

Check memory_check(const std::string& model, std::uint64_t bytes, const std::string& device,
                   const tern_memory_info& memory) {
  const auto needs = cat("the weights of ", model, " take ", human_bytes(bytes), " as stored, and ", device, " has ",
                         human_bytes(memory.free), " free of ", human_bytes(memory.total));
  if (bytes <= memory.free) return {"model", {Level::ok, needs}};
  if (bytes <= memory.total) {
    return {"model",
            {Level::error, cat(needs, ": other processes hold the rest; tern devices shows them; end them, or ",
                               "name another device")}};
  }
  return {"model",
          {Level::error, cat(needs, ": it does not fit; name a device with more memory, or store the weights ",
                             "in fewer bits (--quant_method)")}};
}

std::vector<Check> model_checks(const std::vector<accel::ProbedBackend>& backends, const std::string& device,
                                const std::string& model_path) {
  const ModelFacts model = facts_of(model_path);
  std::vector<Check> checks;
  for (const auto& backend : backends) {
    for (int ordinal = 0; ordinal < static_cast<int>(backend.devices.size()); ++ordinal) {
      if (!is_wanted(device, backend, ordinal)) continue;
      const auto task = [&, ordinal](const accel::Answer& answer) {
        for (const auto& check : checks_on(backend, ordinal, model)) {
          answer(cat(static_cast<int>(check.finding.level), check.finding.line, "\n"));
        }
      };
      const auto result = accel::run_in_children({task}, accel::InspectOptions{}.deadline)[0];
      for (const auto line : split(result.bytes, '\n')) {
        if (line.empty()) continue;
        checks.push_back({"model", {static_cast<Level>(line[0] - '0'), std::string(line.substr(1))}});
      }
      if (!result.trouble.empty()) {
        checks.push_back({"model",
                          {Level::error, cat(backend.name, ":", ordinal, " was not asked: ", result.trouble,
                                             "; check the driver with the vendor's own tool")}});
      }
    }
  }
  return checks;
}

}  // namespace tern::cli
