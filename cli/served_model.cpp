#include "cli/served_model.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "cli/flags/condition.h"
#include "cli/flags/config_file.h"
#include "cli/generation_flags.h"
#include "cli/json_text.h"
#include "cli/server_flags.h"
#include "cli/session_flags.h"
#include "server/model_routes.h"
#include "server/rollout/routes.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

class PooledServedModel : public server::PooledModel {
 public:
  explicit PooledServedModel(const Arguments& arguments) : model_(arguments) {
    model_.load();
    routes_ = std::make_unique<server::ModelRoutes>(model_.llm(), model_.server_options());
  }
  void answer(server::HttpRequest&& request, std::shared_ptr<server::HttpExchange> exchange) override {
    routes_->router().answer(std::move(request), std::move(exchange));
  }
  bool sleep() override { return routes_->service().sleep(); }
  void wake() override {
    routes_->service().run([](engine::LLM& llm) { llm.be_ready(); });
  }
  [[nodiscard]] bool sleeps() const override { return routes_->service().stats().sleeps; }
  void close() override { routes_->service().close(); }
  [[nodiscard]] std::string metrics() const override { return routes_->service().metrics_page(); }

 private:
  ServedModel model_;
  std::unique_ptr<server::ModelRoutes> routes_;
};

// A part of a split file, or a vision tower's, is no model.
bool is_model_file(const fs::path& path) {
  const std::string name = path.filename().string();
  const bool is_later_part = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
  return path.extension() == ".gguf" && name.find("mmproj") == std::string::npos && !is_later_part;
}

PooledName named(const Arguments& given, std::string name, const fs::path& model) {
  Arguments arguments = given;
  arguments.derive("model", model.string());
  arguments.derive("served_model_name", FlagWord{name});
  return {std::move(name), std::move(arguments)};
}

std::vector<PooledName> in_folder(const Arguments& given, const fs::path& folder) {
  std::vector<PooledName> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    const fs::path& path = entry.path();
    if (entry.is_directory(ignored) && fs::is_regular_file(path / "config.json", ignored)) {
      out.push_back(named(given, path.filename().string(), path));
    } else if (is_model_file(path)) {
      out.push_back(named(given, path.stem().string(), path));
    }
  }
  std::ranges::sort(out, {}, &PooledName::name);
  if (!out.empty()) return out;
  throw Failure(data_error(cat("--models ", folder.string()), "folders with a config.json, or .gguf files",
                           error ? error.message() : "none", "name the folder that holds models"));
}

std::vector<PooledName> in_file(const Arguments& given, const std::string& path) {
  std::vector<PooledName> out;
  for (const ConfigEntry& entry : read_config_file(path).value().entries) {
    const auto flags = read_fields(entry.words.empty() ? "" : entry.words.front(), entry.where);
    if (!flags) {
      throw Failure(usage_error(cat(entry.where, " has no flags of its own"), "write its flags below the name"));
    }
    PooledName model{entry.key, given};
    model.arguments.derive("served_model_name", FlagWord{entry.key});
    for (const Field& field : *flags) {
      const std::string& key = field.key;
      const Flag* flag = find_flag(given.command(), key);
      const bool is_empty = field.words.empty() && flag != nullptr && flag->type != FlagType::list;
      if (flag == nullptr || is_empty || key == "models" || key == "host" || key == "port" || key == "api_key") {
        throw Failure(
            usage_error(cat(entry.where, ": ", key, " is no flag of one model"), "tern deploy --help lists them"));
      }
      model.arguments.assign(*flag, field.words, Provenance::command_line, entry.where).value();
    }
    out.push_back(std::move(model));
  }
  return out;
}

// A command that has no --task_type serves language models.
bool serves_words(const Arguments& arguments) {
  return !arguments.has("task_type") || arguments.string("task_type") == "causal_lm";
}

// Where nobody said it, the model's head says what it is for. Throws Failure (usage): a flag of answers beside it.
void use_task_of(models::ModelHead head, Arguments& arguments) {
  if (head == models::ModelHead::language) return;
  arguments.derive("task_type", std::string(head == models::ModelHead::classification ? "seq_cls" : "embedding"));
  if (!arguments.has("models")) check_effects(arguments).value();  // else the flags are for others beside it
}

// Before the weights are read.
void require_labels(const session::Session& session, const Arguments& arguments) {
  const bool classifies = arguments.has("task_type") && arguments.string("task_type") == "seq_cls";
  if (!classifies || session.model.config.head == models::ModelHead::classification) return;
  throw Failure(data_error(session.path.string(), "a model with labels for --task_type seq_cls", "one without",
                           "choose a class for sequence classification, or give --adapters one that tern sft "
                           "--task_type seq_cls trained"));
}

}  // namespace

ServedModel::ServedModel(const Arguments& given, bool takes_weights)
    : arguments_(given), takes_weights_(takes_weights) {
  const engine::ServedAdapters adapters = served_adapters(arguments_);
  load_training_arguments(arguments_);
  model_ = generating_model(arguments_);
  session::SessionOptions opening = session_options(arguments_, model_);
  const bool by_head = arguments_.has("task_type") && arguments_.provenance("task_type") == Provenance::fallback;
  if (by_head) opening.heads = models::Heads::any;
  opening.images = serves_words(arguments_);
  session_ = session::open_session(opening).value();
  if (by_head) use_task_of(session_->model.config.head, arguments_);
  require_labels(*session_, arguments_);
  const bool generates = serves_words(arguments_);
  if (!generates && !adapters.named.empty()) {
    throw Failure(usage_error("--adapters NAME=DIRECTORY lets requests choose, which those for answers alone do",
                              "give the one adapter's directory without a name"));
  }
  options_ = llm_options(arguments_);
  options_.adapters = adapters;
  if (!adapters.named.empty()) options_.adapter.clear();  // requests choose
  options_.generates = generates;
  options_.images = generates;
  options_.progress = weight_progress(arguments_);
  options_.draft = generates ? open_draft(arguments_, *session_) : nullptr;
  options_.head = generates ? open_head(arguments_, *session_) : nullptr;
  use_server_seats(arguments_, options_.engine);
}
ServedModel::~ServedModel() = default;

void ServedModel::load() {
  models::LoadOptions load;
  load.max_positions = engine::LLM::model_len(*session_, options_).value();
  require_cache_dtype(*session_, options_.engine);
  load.vision_later = options_.images && !takes_weights_;
  load.vision = takes_weights_;
  load_weights(*session_, arguments_, load);
  if (takes_weights_) models::make_writable(session_->model);
  llm_ = engine::LLM::open(*session_, options_).value();
  if (llm_->generates()) session::keep_bindings(llm_->engine().runner().program());
}

server::ServerOptions ServedModel::server_options() const {
  server::ServerOptions options = cli::server_options(arguments_, *llm_, model_);
  if (takes_weights_) server::rollout::serve_trainers(options);
  return options;
}

std::vector<PooledName> pooled_names(const Arguments& given) {
  const std::string where = given.string("models");
  return is_config_name(where) ? in_file(given, where) : in_folder(given, where);
}

server::PoolOptions pool_options(const Arguments& given) {
  server::PoolOptions options;
  const auto models = std::make_shared<std::vector<PooledName>>(pooled_names(given));
  for (const PooledName& model : *models) options.names.push_back(model.name);
  options.max_loaded = given.integer("max_loaded_models");
  options.open = [models](const std::string& name) -> std::unique_ptr<server::PooledModel> {
    const auto found = std::ranges::find(*models, name, &PooledName::name);
    return std::make_unique<PooledServedModel>(found->arguments);
  };
  return options;
}

}  // namespace tern::cli
