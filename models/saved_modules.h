// Parameters of a model itself that are trained beside an adapter and stand in its file: PEFT's modules_to_save, which
// are whole modules, and the biases that its `bias` chooses. They take the place of the model's own: a model carries
// those of one adapter at a time. Embedding and head that got rows for new tokens stand there, too, trained or not.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "models/adapter_config.h"
#include "models/loader.h"

namespace tern::models {

struct SavedParameter {
  ParameterSpec spec;
  std::string name;  // in PEFT's file: "base_model.model.model.norm.weight"
  bool is_trained = true;
};

struct SavedModules {
  std::vector<SavedParameter> parameters;  // in the model's order
  // The embedding or the head is among them, and they are one matrix: the head gets a weight of its own, as PEFT trains
  // a copy of each that is named and leaves the other as it was.
  bool unties = false;
  std::vector<std::string> copies = {};  // of PEFT's file: what it names twice

  [[nodiscard]] bool has(const std::string& parameter) const;
};

// `all-embedding` and `all-norm` become the names of the model's embeddings and norms, as ms-swift has them; other
// names stay.
[[nodiscard]] std::vector<std::string> saved_module_names(const ModelConfig& config,
                                                          const std::vector<std::string>& names);

// The parameters of each module whose name ends with one of `names`, as PEFT matches them: "norm" is model.norm and
// every input_layernorm. Errors (usage): a name that no module's ends with; one whose tensors PEFT names otherwise than
// a checkpoint (fused experts).
[[nodiscard]] Result<SavedModules> saved_modules(const ModelConfig& config, const std::vector<std::string>& names);

// These; the biases of AdapterConfig::bias, those that transformers names "<module>.bias"; and what got rows for new
// tokens. Beside a pair PEFT's file calls them "<module>.base_layer.bias" and so on. Errors (usage): as above.
[[nodiscard]] Result<SavedModules> saved_beside(const ModelConfig& config, const AdapterConfig& adapter);
// Drops what isn't trained and isn't in the file: PEFT leaves out a grown head beside an adapter on the embedding.
void drop_absent(SavedModules& modules, const checkpoint::Safetensors& file);
// A tensor of a module that modules_to_save names, as PEFT writes it once more beside biases or embeddings: of no
// effect.
[[nodiscard]] bool is_needless_copy(const std::string& name);

// Gives the head a weight of its own, which is the embedding's until it is trained or read; nothing where it has one.
// `is_master`: as LoadOptions has it. Throws Failure.
void untie_head(LoadedModel& model, const std::function<bool(const std::string& name)>& is_master = {});
// The configuration of that model.
[[nodiscard]] ModelConfig untied(ModelConfig config);

// Throws Failure (usage) where the model holds the modules of another adapter than that directory's ("": of any).
void require_own_modules(const LoadedModel& model, const std::filesystem::path& adapter);

// Fills the parameters from an adapter's file, and adds the names of their tensors to `used`. One that isn't held in
// fp32 to be trained is rounded to the model's dtype. Errors (data): an absent or misshapen tensor.
[[nodiscard]] Status load_saved_modules(LoadedModel& model, const checkpoint::Safetensors& file,
                                        const std::vector<SavedParameter>& parameters, std::set<std::string>& used);
// One parameter's numbers of the file, in the model's order of rows. Throws Failure (data).
[[nodiscard]] std::vector<float> read_saved_parameter(const checkpoint::Safetensors& file,
                                                      const SavedParameter& parameter);

// Numbers of the store in the file's order. Throws Failure (device).
[[nodiscard]] std::vector<float> saved_values(const graph::TensorStore& store, const ParameterSpec& spec);

}  // namespace tern::models
