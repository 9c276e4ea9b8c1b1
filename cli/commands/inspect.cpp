// tern inspect: what is in a model file.
#include <cstdio>

#include "checkpoint/inspect.h"
#include "cli/commands/command.h"
#include "cli/session_flags.h"
#include "io/json.h"

namespace tern::cli {

int run_inspect(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("tern inspect needs a model", "for example tern inspect smollm2-135m"));
  }
  const std::string path = model_path(arguments, arguments.string("model"));
  const checkpoint::Inspection inspection = checkpoint::inspect(path).value();
  const std::string text =
      arguments.boolean("json") ? io::write_json(checkpoint::to_json(inspection)) : checkpoint::to_text(inspection);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tern::cli
