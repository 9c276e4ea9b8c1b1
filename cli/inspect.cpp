// tern inspect: what is in a model file.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/model_names.h"
#include "io/inspect.h"
#include "io/json.h"

namespace tern::cli {

int run_inspect(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("--model", "a model to inspect", "none", "for example tern inspect smollm2-135m"));
  }
  const std::string path = resolve_model(arguments.string("model"), hub_flags(arguments)).value();
  const io::Inspection inspection = io::inspect(path).value();
  const std::string text =
      arguments.boolean("json") ? io::write_json(io::to_json(inspection)) : io::to_text(inspection);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
