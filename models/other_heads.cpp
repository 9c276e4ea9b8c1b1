#include "models/other_heads.h"

#include <algorithm>
#include <set>

#include "base/strings.h"

namespace tern::models {

std::string other_heads(const checkpoint::CheckpointSource& source, const ModelConfig& config,
                        std::span<const ParameterSpec> specs) {
  const std::string_view prefix = encoder_prefix(config);
  std::set<std::string> heads;
  for (const auto& tensor : source.tensors()) {
    if (!is_of_other_head(tensor.name, config)) continue;
    const std::string name = tensor.name.starts_with(prefix) ? tensor.name.substr(prefix.size()) : tensor.name;
    if (std::none_of(specs.begin(), specs.end(), [&](const ParameterSpec& spec) { return spec.name == name; }))
      heads.insert(name.substr(0, name.find('.')));
  }
  return join({heads.begin(), heads.end()}, ", ");
}

}  // namespace tern::models
