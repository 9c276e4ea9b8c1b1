// docs/models.md, made from the registry of architectures.
#pragma once

#include <string>

namespace tern::cli {

[[nodiscard]] std::string models_markdown();

}  // namespace tern::cli
