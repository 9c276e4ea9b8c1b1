// tern infer: a dialogue at the terminal, one answer from a pipe, or the rows of a file.
#include <unistd.h>

#include "base/strings.h"
#include "cli/answered_rows.h"
#include "cli/chat.h"
#include "cli/commands/command.h"
#include "cli/data_setup.h"
#include "cli/generation_flags.h"
#include "cli/interrupt.h"
#include "cli/pooled_rows.h"
#include "cli/row_answers.h"
#include "cli/session_flags.h"
#include "session/mmproj.h"

namespace tern::cli {
int run_infer(const Arguments& given) {
  Arguments arguments = given;
  require_one_adapter(arguments);
  load_training_arguments(arguments);
  const std::string model = generating_model(arguments);
  const bool rows = !arguments.list("val_dataset").empty();
  const bool generates = arguments.string("task_type") == "causal_lm";
  if (!rows && !generates) {
    throw Failure(
        usage_error(cat("--task_type ", arguments.string("task_type"), " needs rows"), "give --val_dataset FILE"));
  }
  session::SessionOptions opening = session_options(arguments, model);
  opening.images = generates;
  auto session = session::open_session(opening).value();
  if (!arguments.list("images").empty()) {  // a model that can't see says so before its weights are read
    (void)session::model_image_config(session->path, session->model.config.vision).value();
  }
  engine::LLMOptions options = llm_options(arguments);
  options.images = generates;
  options.progress = weight_progress(arguments);
  options.draft = generates ? open_draft(arguments, *session) : nullptr;
  options.head = generates ? open_head(arguments, *session) : nullptr;
  require_cache_dtype(*session, options.engine);
  models::LoadOptions load;
  load.max_positions = engine::LLM::model_len(*session, options).value();
  load.vision_later = generates;
  load_weights(*session, arguments, load);
  const auto llm = engine::LLM::open(*session, options).value();
  install_interrupt_handler();
  const auto sampling = sampling_params(arguments, llm->default_sampling());
  const ResultWriter::Options results = {arguments.maybe_string("result_path"), arguments.boolean("logprobs")};
  if (!generates) {
    pool_rows(arguments, *llm, results);
    return 0;
  }
  session::keep_bindings(llm->engine().runner().program());
  if (rows) {
    answer_rows(arguments, *llm, sampling, results);
    tell_guesses(llm->engine().guesses());
    return 0;
  }
  std::optional<ResultWriter> writer;
  if (results.path) {
    writer.emplace(results, session->text->tokenizer);
    AnsweredRows::require_no_mark(*results.path);
  }
  Chat chat(*llm, sampling, system_message(arguments), writer ? &*writer : nullptr);
  chat.show(arguments.list("images"));
  const bool stream = arguments.maybe_boolean("stream").value_or(isatty(STDOUT_FILENO) == 1);
  const int status = isatty(STDIN_FILENO) == 1 ? converse(chat, stream) : answer_pipe(chat, stream);
  tell_guesses(llm->engine().guesses());
  return status;
}

}  // namespace tern::cli
