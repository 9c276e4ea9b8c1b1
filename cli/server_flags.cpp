#include "cli/server_flags.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/generation_flags.h"
#include "cli/session_flags.h"
#include "cli/version.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// What people call it: the folder's name, the file's without its ending, the last part of a hub id.
std::string short_name(std::string model) {
  if (model.ends_with(".gguf")) return fs::path(model).stem().string();
  while (model.size() > 1 && model.back() == '/') model.pop_back();
  return fs::path(model).filename().string();
}

chat::AnswerFormats answer_formats(const Arguments& arguments, const engine::LLM& llm) {
  chat::AnswerFormats formats;
  if (const auto& chat_template = llm.session().text->chat_template;
      chat_template && llm_options(arguments).use_chat_template) {
    formats = chat::formats_of_template(chat_template->source());
  }
  if (const auto given = arguments.maybe_string("reasoning_parser")) formats.reasoning = *given;
  if (const auto given = arguments.maybe_string("tool_call_parser")) formats.tool_call = *given;
  (void)chat::make_answer_parser({.formats = formats}).value();
  return formats;
}

}  // namespace

ServedAdapter served_adapter(Arguments& arguments) {
  require_one_adapter(arguments);
  const auto& adapters = arguments.list("adapters");
  if (adapters.empty()) return {};
  ServedAdapter served;
  std::error_code ignored;
  const std::size_t equals = adapters[0].find('=');
  if (equals == std::string::npos || fs::exists(adapters[0], ignored)) {
    served.path = adapters[0];
    return served;
  }
  served.name = adapters[0].substr(0, equals);
  served.path = adapters[0].substr(equals + 1);
  arguments.derive("adapters", FlagWord{served.path.string()});
  return served;
}

void use_server_seats(const Arguments& arguments, engine::EngineOptions& options) {
  options.max_num_seqs = arguments.integer("max_num_seqs");
  options.enable_prefix_caching = arguments.boolean("enable_prefix_caching");
  options.top_logprobs = arguments.integer("max_logprobs");
  options.max_num_batched_tokens =
      arguments.maybe_integer("max_num_batched_tokens").value_or(options.max_num_batched_tokens);
}

server::HttpOptions http_options(const Arguments& arguments) {
  server::HttpOptions options;
  options.host = arguments.string("host");
  options.port = static_cast<std::uint16_t>(arguments.integer("port"));
  options.ssl_certfile = arguments.maybe_string("ssl_certfile").value_or("");
  options.ssl_keyfile = arguments.maybe_string("ssl_keyfile").value_or("");
  if (options.ssl_certfile.empty() != options.ssl_keyfile.empty()) {
    throw Failure(usage_error("--ssl_certfile and --ssl_keyfile need each other", "give both"));
  }
  return options;
}

server::ServerOptions server_options(const Arguments& arguments, const engine::LLM& llm, const std::string& model,
                                     const ServedAdapter& adapter) {
  server::ServerOptions options;
  options.api_key = arguments.maybe_string("api_key").value_or("");
  options.version = version_number();
  server::ServiceOptions& service = options.service;
  service.model_names = arguments.list("served_model_name");
  if (!adapter.name.empty()) {
    service.model_names.insert(service.model_names.begin(), adapter.name);
  } else if (service.model_names.empty()) {
    service.model_names.push_back(short_name(model));
  }
  service.sampling = sampling_params(arguments, llm.default_sampling());
  service.formats = answer_formats(arguments, llm);
  service.system = system_message(arguments);
  service.max_queue_len = arguments.integer("max_queue_len");
  if (arguments.was_set("seed")) service.seed = service.sampling.seed;
  return options;
}

}  // namespace tern::cli
