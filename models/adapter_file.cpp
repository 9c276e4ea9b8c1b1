#include "models/adapter_file.h"

#include "base/strings.h"
#include "checkpoint/checkpoint_source.h"
#include "models/adapter.h"

namespace tern::models {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::vector<float> floats_of(const checkpoint::SafetensorsTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  checkpoint::to_f32(*tensor.dtype->dtype, tensor.bytes, values).value();
  return values;
}

std::vector<float> floats(const std::string& where, const checkpoint::SafetensorsTensor& tensor) {
  if (!tensor.dtype->dtype) {
    throw Failure(data_error(cat(where, ": tensor ", tensor.name), "a float dtype", std::string(tensor.dtype->name),
                             "save the adapter as float32"));
  }
  return floats_of(tensor);
}

bool find_tensors(const checkpoint::Safetensors& file, const std::string& where, const AdapterConfig& config,
                  const LinearModule& module, std::set<std::string>& used) {
  const std::int64_t rank = config.rank_of(module.name);  // in the file
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> wanted;
  if (config.kind == AdapterKind::vera) {
    wanted = {{peft_vector_name(module.name, kVeraAfter), {module.out}},
              {peft_vector_name(module.name, kVeraInner), {rank}}};
  } else {
    wanted = {{peft_name(module.name, "lora_A"), {rank, module.in}},
              {peft_name(module.name, "lora_B"), {module.out, rank}}};
  }
  if (config.use_dora) wanted.push_back({peft_magnitude_name(module.name), {module.out}});
  std::size_t found = 0;
  std::vector<std::string> names;
  std::vector<std::string> shapes;
  std::vector<std::string> theirs;
  for (const auto& [name, shape] : wanted) {
    const auto* tensor = file.tensor(name);
    if (tensor != nullptr) ++found;
    names.push_back(name.substr(name.find(module.name) + module.name.size() + 1));
    shapes.push_back(checkpoint::shape_text(shape));
    theirs.push_back(tensor == nullptr ? "none" : checkpoint::shape_text(tensor->shape));
  }
  if (found == 0) return false;
  const std::string at = cat(where, ": module ", module.name);
  if (found < wanted.size()) {
    const char* const both =
        config.kind == AdapterKind::vera ? "both vera_lambda_b and vera_lambda_d" : "both lora_A and lora_B";
    throw Failure(data_error(at, wanted.size() == 2 ? both : join(names, ", "), cat(found, " of them"),
                             "the file is damaged: take it from the adapter's source again"));
  }
  if (shapes != theirs) throw Failure(data_error(at, join(shapes, " and "), join(theirs, " and "), kOtherModel));
  if (!config.selects(module.name)) {
    throw Failure(data_error(at, "no adapter, as adapter_config.json does not choose this module", "one",
                             "PEFT would leave it out: take it out of the file, or have the configuration choose it"));
  }
  for (const auto& [name, shape] : wanted) used.insert(name);
  return true;
}

}  // namespace tern::models
