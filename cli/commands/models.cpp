// tern models: the models that are here, and the architectures that are served.
#include <cstdio>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "io/json.h"
#include "models/registry.h"
#include "models/text_part.h"
#include "session/local_models.h"

namespace tern::cli {
namespace {

using io::Json;

Json json_of(const session::BundledModel& model) {
  return {{"name", model.name},      {"path", session::bundled_path(model)},      {"bytes", model.bytes},
          {"sha256", model.sha256},  {"installed", session::is_installed(model)}, {"origin", model.origin},
          {"licence", model.licence}};
}

Json json_of(const session::FetchedModel& model) {
  Json files = Json::array();
  const auto text = [](const std::string& value) { return value.empty() ? Json(nullptr) : Json(value); };
  for (const hub::HubFile& file : model.repository.files) {
    files.push_back(
        {{"path", file.path}, {"bytes", file.size}, {"sha256", text(file.sha256)}, {"git_sha1", text(file.git_sha1)}});
  }
  return {{"name", model.name},
          {"revision", model.repository.revision},
          {"path", model.repository.path.string()},
          {"bytes", model.repository.size()},
          {"architecture", text(model.architecture)},
          {"served", model.served},
          {"files", std::move(files)}};
}

std::string line_of(const session::BundledModel& model) {
  return cat("  ", model.name, "  ", human_bytes(model.bytes), "  ", model.licence, "  sha256 ",
             model.sha256.substr(0, 12), "  ",
             session::is_installed(model) ? session::bundled_path(model) : std::string("absent: run script/bootstrap"),
             "\n");
}

std::string line_of(const session::FetchedModel& model) {
  const std::string kind = model.architecture.empty() ? "no config.json"
                           : model.served             ? model.architecture
                                                      : cat(model.architecture, " (not served)");
  return cat("  ", model.name, "  ", model.repository.revision.substr(0, 12), "  ",
             human_bytes(model.repository.size()), " in ", model.repository.files.size(), " files  ", kind, "  ",
             model.repository.path.string(), "\n");
}

}  // namespace

int run_models(const Arguments& arguments) {
  const auto fetched = session::fetched_models();
  std::vector<std::string> served = models::architecture_names();
  for (auto& whole : models::whole_names()) served.push_back(std::move(whole));
  if (arguments.boolean("json")) {
    Json out = {{"bundled", Json::array()}, {"fetched", Json::array()}, {"architectures", served}};
    for (const auto& model : session::bundled_models()) out["bundled"].push_back(json_of(model));
    for (const auto& model : fetched) out["fetched"].push_back(json_of(model));
    std::puts(out.dump().c_str());
    return 0;
  }
  std::string out = "short names\n";
  for (const auto& model : session::bundled_models()) out += line_of(model);
  out += "fetched from hubs\n";
  for (const auto& model : fetched) out += line_of(model);
  if (fetched.empty()) out += "  none\n";
  out += "architectures that are served (docs/models.md)\n";
  for (const auto& name : served) out += cat("  ", name, "\n");
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
