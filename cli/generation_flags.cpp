#include "cli/generation_flags.h"

#include <algorithm>
#include <filesystem>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/saved_arguments.h"
#include "cli/session_flags.h"
#include "cli/speculative_config.h"
#include "engine/cache_dtype.h"
#include "engine/draft_model.h"
#include "io/mapped_file.h"
#include "models/adapter.h"
#include "models/eagle3.h"
#include "models/mtp.h"
#include "session/beside.h"
#include "session/model_names.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

std::string folder_with_args(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  if (!adapters.empty()) return adapters[0];
  return arguments.maybe_string("model").value_or("");
}

// Every text holds the empty one: an answer would end before it began.
void require_stop_words(const Arguments& arguments) {
  for (const std::string& word : arguments.list("stop_words")) {
    if (!word.empty()) continue;
    throw Failure(usage_error("--stop_words has an empty word, which would end every answer at once", "remove it"));
  }
}

}  // namespace

void load_training_arguments(Arguments& arguments) {
  const fs::path folder = folder_with_args(arguments);
  const fs::path file = folder / "args.json";
  std::error_code ignored;
  const bool present = !folder.empty() && fs::is_regular_file(file, ignored);
  if (arguments.boolean("load_args") && present) {
    std::vector<std::string_view> names = {
        "torch_dtype",    "template",  "system",     "enable_thinking", "preserve_thinking", "use_chat_template",
        "agent_template", "task_type", "num_labels", "problem_type",    "new_special_tokens"};
    if (!arguments.list("adapters").empty()) names.emplace_back("model");  // a checkpoint is itself the model
    load_saved_flags(arguments, file, names);
  }
  if (!arguments.has("load_data_args") || !arguments.boolean("load_data_args")) return;
  const fs::path split = fs::absolute(folder).lexically_normal().parent_path() / "val_dataset.jsonl";
  if (!folder.empty() && fs::is_regular_file(split, ignored)) {
    arguments.derive("val_dataset", FlagWord{split.string()});
  } else if (present) {
    constexpr std::string_view kNames[] = {"val_dataset"};
    arguments.load_saved(io::read_text_file(file).value(), file.string(), kNames).value();
  }
  if (!arguments.list("val_dataset").empty()) return;
  throw Failure(data_error("--load_data_args", "held-out rows of the training run", "none beside the checkpoint",
                           "name them with --val_dataset"));
}

std::string generating_model(const Arguments& arguments) {
  const auto& adapters = arguments.list("adapters");
  std::string model = arguments.maybe_string("model").value_or("");
  if (model.empty() && !adapters.empty()) model = models::read_adapter_config(adapters[0]).value().base_model;
  if (model.empty()) {
    throw Failure(usage_error(cat("tern ", arguments.command().name, " needs a model"),
                              "name one, for example with --model smollm2-135m"));
  }
  return model;
}

engine::LLMOptions llm_options(const Arguments& arguments) {
  require_stop_words(arguments);
  engine::LLMOptions options;
  const auto& adapters = arguments.list("adapters");
  if (!adapters.empty()) options.adapter = adapters[0];
  options.max_model_len = arguments.maybe_integer("max_model_len").value_or(0);
  if (arguments.has("val_dataset")) options.engine.max_num_seqs = arguments.integer("max_batch_size");
  options.batch_invariant = arguments.boolean("batch_invariant");
  options.engine.cache_dtype = engine::cache_dtype_from_name(arguments.string("kv_cache_dtype"));  // none: auto
  options.engine.kv_cache_memory = static_cast<std::uint64_t>(arguments.maybe_integer("kv_cache_memory").value_or(0));
  options.engine.top_logprobs = arguments.maybe_integer("top_logprobs").value_or(0);
  if (const auto config = arguments.maybe_string("speculative_config")) {
    options.engine.speculation = read_speculative_config(*config).options;
  }
  if (arguments.has("num_beams")) {
    options.num_beams = arguments.integer("num_beams");
    options.num_stops = static_cast<std::int64_t>(arguments.list("stop_words").size());
  }
  options.use_chat_template = arguments.boolean("use_chat_template");
  options.template_kwargs = template_kwargs(arguments);
  options.agent_template = arguments.maybe_string("agent_template").value_or("");
  options.image_sizes = session::image_sizes_of_environment(arguments.integer("max_pixels")).value();
  return options;
}

namespace {

SpeculativeConfig speculative_config(const Arguments& arguments) {
  const auto text = arguments.maybe_string("speculative_config");
  return text ? read_speculative_config(*text) : SpeculativeConfig();
}

// The revision is the model's.
session::HubOptions draft_hub(const Arguments& arguments) {
  session::HubOptions hub = hub_options(arguments);
  hub.revision.clear();
  return hub;
}

}  // namespace

// Its dtype is its own, whatever the model's is made.
std::shared_ptr<session::Session> open_draft(const Arguments& arguments, const session::Session& session) {
  const SpeculativeConfig config = speculative_config(arguments);
  if (config.method != SpeculativeConfig::Method::draft_model) return nullptr;
  session::SessionOptions options;
  options.model = config.model;
  options.hub = draft_hub(arguments);
  options.activations = session_options(arguments, config.model).activations;
  std::shared_ptr<session::Session> draft = session::open_beside(session, options).value();
  engine::check_draft_model(draft->model.config, draft->text->tokenizer, session.text->tokenizer).value();
  return draft;
}

std::shared_ptr<models::SpeculativeHead> open_head(const Arguments& arguments, const session::Session& session) {
  const SpeculativeConfig config = speculative_config(arguments);
  if (config.method == SpeculativeConfig::Method::mtp)
    return models::open_mtp(session.source, session.model.config).value();
  if (config.method != SpeculativeConfig::Method::eagle3) return nullptr;
  const std::string path = session::resolve_model(config.model, draft_hub(arguments)).value();
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  return models::open_eagle3(std::move(source), session.model.config).value();
}

void tell_guesses(const engine::Guesses& guesses) {
  if (guesses.checked == 0) return;
  log_info(cat("guessed tokens: ", guesses.right, " of ", guesses.checked, " were right"));
}

void require_cache_dtype(const session::Session& session, const engine::EngineOptions& options) {
  if (!options.cache_dtype) return;
  engine::check_cache_dtype(*session.runtime->device, session.model.config, *options.cache_dtype).value();
}

engine::SamplingParams sampling_params(const Arguments& arguments, const engine::SamplingParams& advised) {
  engine::SamplingParams p = advised;
  const auto set = [&](const char* flag, float& value) {
    if (const auto given = arguments.maybe_real(flag)) value = static_cast<float>(*given);
  };
  set("temperature", p.temperature);
  set("top_p", p.top_p);
  set("min_p", p.min_p);
  set("repetition_penalty", p.repetition_penalty);
  if (const auto given = arguments.maybe_integer("top_k")) {
    p.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(0, *given));
  }
  if (arguments.has("num_beams")) p.num_beams = arguments.integer("num_beams");
  p.max_new_tokens = arguments.maybe_integer("max_new_tokens").value_or(p.max_new_tokens);
  p.stop = arguments.list("stop_words");
  p.top_logprobs = arguments.maybe_integer("top_logprobs").value_or(0);
  p.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  return p;
}

}  // namespace tern::cli
