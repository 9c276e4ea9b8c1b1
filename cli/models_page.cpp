#include "cli/models_page.h"

#include "base/strings.h"
#include "models/registry.h"
#include "models/text_part.h"
#include "models/vision.h"

namespace tern::cli {
namespace {

constexpr std::string_view kHead =
    "# Models\n\n"
    "`script/docs` writes this page from the registry of architectures. A checkpoint is served if `architectures` in "
    "its\n"
    "`config.json`, or `general.architecture` in a GGUF, is one of these. `tern models` lists them, too, beside the "
    "models that\n"
    "are on this machine. Those that end in `Model` are encoders: they make vectors of texts, rank and classify (`tern "
    "infer "
    "--task_type`),\n"
    "and their classes `...ForSequenceClassification` and `...ForMaskedLM` are read, too.\n\n"
    "| architecture | `model_type` | in a GGUF |\n|---|---|---|\n";

constexpr std::string_view kWholes =
    "\nOf these, which also see or hear, the language model is read, and the vision tower of some:\n\n"
    "| architecture | its language model | its vision tower | in a GGUF of its own name |\n|---|---|---|---|\n";

constexpr std::string_view kFields =
    "\n## Fields of config.json\n\n"
    "These are read, beside those that scale rotary positions. A field that is neither here nor known to change "
    "nothing is an\n"
    "error that names it, so that no model is computed otherwise than its authors meant it. A field that is null says "
    "nothing.\n\n";

std::string code(std::string_view word) { return cat("`", word, "`"); }

std::string fields_of(const models::Architecture& architecture) {
  std::vector<std::string> keys;
  for (const models::Field& field : architecture.fields) {
    for (const std::string_view key : {std::string_view(field.json), std::string_view(field.also)}) {
      if (!key.empty()) keys.push_back(code(key));
    }
  }
  return join(keys, ", ");
}

std::string vision_of(const std::string& whole) {
  const models::VisionTower* tower = models::find_vision_tower(whole);
  if (tower == nullptr) return "left out";
  return tower->projector.empty() ? "read" : cat("read, also from an mmproj file of ", code(tower->projector));
}

}  // namespace

std::string models_markdown() {
  std::string out(kHead);
  for (const auto& one : models::architectures()) {
    out += cat("| ", code(one.name), " | ", code(one.model_type), " | ",
               one.gguf.empty() ? std::string("neither read nor written") : code(one.gguf), " |\n");
  }
  out += kWholes;
  for (const auto& name : models::whole_names()) {
    const std::string text = models::whole_architecture(name);
    const std::string gguf = models::whole_gguf(name);
    out += cat("| ", code(name), " | ", text.empty() ? "any of the above, as `text_config` says" : code(text), " | ",
               vision_of(name), " | ", gguf.empty() ? "none" : code(gguf), " |\n");
  }
  out += kFields;
  for (const auto& one : models::architectures()) out += cat("- ", code(one.name), ": ", fields_of(one), "\n");
  return out;
}

}  // namespace tern::cli
