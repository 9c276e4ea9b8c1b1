// tern tokenize: texts to ids and pieces, or ids to text.
#include <iostream>
#include <iterator>

#include "chat/model_text.h"
#include "cli/commands/command.h"
#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/text_rows.h"
#include "cli/token_output.h"

namespace tern::cli {

int run_tokenize(const Arguments& arguments) {
  if (!arguments.has("model")) {
    throw Failure(usage_error("tern tokenize needs a model, whose tokenizer it uses",
                              "for example tern tokenize --model smollm2-135m --text 'Hello world'"));
  }
  const auto& datasets = arguments.list("dataset");
  const std::string path = model_path(arguments, arguments.string("model"));
  const chat::ModelText model = chat::load_model_text(path).value();
  TokenOutput output({arguments.maybe_string("result_path"), arguments.boolean("json"), arguments.boolean("decode")},
                     model.tokenizer);
  if (arguments.has("text")) {
    output.write(arguments.string("text"));
  } else if (datasets.empty()) {
    output.write(std::string(std::istreambuf_iterator<char>(std::cin), {}));
  } else {
    install_interrupt_handler();
    for_each_text(arguments, [&](const std::string& text, const std::string&) {
      output.write(text);
      return !interrupted();
    });
    if (interrupted())
      throw Failure(interrupted_error("tokenising was stopped before all rows were written", "run it again"));
  }
  output.finish();
  return 0;
}

}  // namespace tern::cli
