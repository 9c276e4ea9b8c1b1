#include "session/local_models.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"
#include "io/json.h"
#include "models/registry.h"
#include "models/text_part.h"

namespace tern::session {
namespace {

std::string architecture_of(const std::filesystem::path& folder) {
  const auto config = io::read_json_file(folder / "config.json");
  const io::Json* names = config.ok() ? config->find("architectures") : nullptr;
  if (names == nullptr || !names->is_array() || names->empty() || !names->begin()->is_string()) return {};
  return names->begin()->text();
}

bool is_served(const std::string& architecture) {
  const auto wholes = models::whole_names();
  return models::find_class(architecture).architecture != nullptr ||
         std::find(wholes.begin(), wholes.end(), architecture) != wholes.end();
}

}  // namespace

bool is_installed(const BundledModel& model) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(bundled_path(model), error);
  return !error && bytes == model.bytes;
}

std::vector<FetchedModel> fetched_models() {
  std::vector<FetchedModel> out;
  for (const hub::Hub hub : {hub::Hub::hugging_face, hub::Hub::modelscope}) {
    for (auto& repository : hub::cached_models(hub, hub::hub_options_from_environment(hub).cache)) {
      FetchedModel model;
      model.name = cat(hub == hub::Hub::hugging_face ? "hf::" : "ms::", repository.repository);
      model.architecture = architecture_of(repository.path);
      model.served = is_served(model.architecture);
      model.repository = std::move(repository);
      out.push_back(std::move(model));
    }
  }
  return out;
}

}  // namespace tern::session
