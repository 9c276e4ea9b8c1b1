// tern models: the short names, and whether each model is here.
#include <cstdio>
#include <filesystem>

#include "base/strings.h"
#include "cli/commands/command.h"
#include "cli/json_text.h"
#include "cli/session_flags.h"

namespace tern::cli {

int run_models(const Arguments& arguments) {
  const bool json = arguments.boolean("json");
  std::string out = json ? "[" : "";
  bool first = true;
  for (const auto& model : session::bundled_models()) {
    const auto path = session::bundled_path(model);
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    const bool installed = !error && bytes == model.bytes;
    if (json) {
      out += cat(first ? "" : ",", "{\"name\": ", json_quote(model.name), ", \"path\": ", json_quote(path),
                 ", \"bytes\": ", model.bytes, ", \"installed\": ", installed,
                 ", \"origin\": ", json_quote(model.origin), ", \"licence\": ", json_quote(model.licence), "}");
    } else {
      out += cat(model.name, "  ", human_bytes(model.bytes), "  ", model.licence, "  ",
                 installed ? path : std::string("absent: run script/bootstrap"), "\n");
    }
    first = false;
  }
  out += json ? "]\n" : "";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
