#include "session/session.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/log.h"
#include "base/strings.h"
#include "graph/bind.h"
#include "io/file_writer.h"
#include "io/mapped_file.h"
#include "models/mmproj.h"
#include "models/new_tokens.h"
#include "models/vision.h"
#include "session/beside.h"
#include "session/mmproj.h"
#include "session/model_dtype.h"
#include "session/whole_numbers.h"

namespace tern::session {

Session::~Session() {
  if (runtime) end_profile(*runtime);
}

namespace {

void require_no_mmproj(const std::filesystem::path& path) {
  if (path.extension() != ".gguf") return;
  const auto gguf = checkpoint::Gguf::open(path);
  if (!gguf || !models::is_mmproj(*gguf)) return;
  throw Failure(data_error(path.string(), "a language model", "a vision tower, which goes with one",
                           "give it as --mmproj, and the language model's GGUF as --model"));
}

// Of a GGUF. A file that was found, not named, is left out with a line where it is no use.
void add_tower(Session& session, const checkpoint::CheckpointSource& source, const SessionOptions& options) {
  models::ModelConfig& config = session.model.config;
  if (source.gguf() == nullptr) {
    if (options.mmproj.empty()) return;
    throw Failure(usage_error(cat("--mmproj names the vision tower of a GGUF, and ", session.path.string(), " is none"),
                              "drop the flag"));
  }
  const std::string beside = options.images ? mmproj_beside(options.model, session.path) : "";
  const std::string& file = options.mmproj.empty() ? beside : options.mmproj;
  if (file.empty()) return;
  const auto vision = open_mmproj(file, source, config, session.text->tokenizer);
  if (vision) {
    config.vision = *vision;
    log_info(cat("vision tower: ", file));
  } else if (options.mmproj.empty()) {
    log_warn(cat("the vision tower that lies beside the model is left out: ", vision.error().line()));
  } else {
    throw Failure(vision.error());
  }
}

}  // namespace

namespace {

enum class Text { needed, if_there };

void add_new_tokens(const std::vector<std::string>& tokens, const tokenizer::Tokenizer& tokenizer,
                    models::ModelConfig& config) {
  models::add_new_tokens(config, tokens, tokenizer.vocab_size()).value();
}

std::unique_ptr<Session> open_text_of(const SessionOptions& options, const HubOptions& hub, Text text) {
  auto session = std::make_unique<Session>();
  session->path = resolve_model(options.model, hub).value();
  require_no_mmproj(session->path);
  auto found = chat::load_model_text(session->path, options.new_special_tokens);
  if (text == Text::needed || found || !options.new_special_tokens.empty()) session->text = std::move(found).value();
  if (session->text && !options.chat_template.empty()) {
    session->text->chat_template =
        chat::ChatTemplate::parse(io::read_text_file(options.chat_template).value(), options.chat_template).value();
  }
  models::ModelConfig& config = session->model.config;
  const auto source = checkpoint::CheckpointSource::open_config(session->path).value();
  config = models::read_config(source, options.heads).value();
  (void)models::override_rope(options.rope, config);  // told once, when the checkpoint is open
  if (session->text) add_new_tokens(options.new_special_tokens, session->text->tokenizer, config);
  if (options.label_head) models::add_label_head(config, *options.label_head).value();
  // A named architecture must be the one that the checkpoint holds: nothing else could be loaded from it.
  if (!options.model_type.empty() && options.model_type != config.model_type) {
    throw Failure(usage_error(
        cat("--model_type is ", options.model_type, ", and the model's own config says ", config.model_type),
        "drop the flag"));
  }
  add_tower(*session, source, options);
  return session;
}

// Takes the weights, or what they would be, in the place of what the config alone says.
Status open_source(Session& session, const SessionOptions& options, checkpoint::CheckpointSource source,
                   const accel::Device* beside = nullptr);

bool has_weights(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return true;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    const auto ending = entry.path().extension();
    if (ending == ".safetensors" || ending == ".gguf") return true;
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Session>> open_text(const SessionOptions& options) {
  return catching([&] {
    HubOptions hub = options.hub;
    hub.mmproj = options.images && options.mmproj.empty();
    return open_text_of(options, hub, Text::needed);
  });
}

Status open_model(Session& session, const SessionOptions& options) {
  return catching(
      [&] { return open_source(session, options, checkpoint::CheckpointSource::open(session.path).value()).value(); });
}

namespace {

// Of a config alone.
checkpoint::CheckpointSource describe_source(const std::filesystem::path& path, const SessionOptions& options) {
  auto source = checkpoint::CheckpointSource::open_config(path).value();
  if (source.config() != nullptr && source.config()->contains("quantization_config")) {
    throw Failure(data_error((path / "config.json").string(), "a model that is not quantised, or its weights beside it",
                             "quantization_config alone", "plan with the weights, or with the unquantised model"));
  }
  const models::ModelConfig config = models::read_config(source, options.heads).value();
  source.describe(models::described_tensors(config, model_dtype(config, source)));
  return source;
}

// How the model is kept and computed with on the device.
void choose_dtypes(Session& session, const SessionOptions& options, const tern_device_info& device) {
  session.quantise = options.quantise;
  const tern_dtype own = model_dtype(session.model.config, *session.source, options.dtype);
  session.model.dtype = run_dtype(device, own, options.dtype).value();
  if (session.model.dtype != own) {
    log_info(cat("the model is in ", dtype_info(own).torch, ", which ", device.name, " can't store: it runs in ",
                 dtype_info(session.model.dtype).torch));
  }
  session.numerics.compute = compute_dtype(device, session.model.dtype);
  session.numerics.activations = activation_dtype(device, options.activations).value();
  session.numerics.int8 = options.int8;
}

// `beside`: the device of another session, which this one has none beside; null: its own, which it opens.
Status open_source(Session& session, const SessionOptions& options, checkpoint::CheckpointSource source,
                   const accel::Device* beside) {
  return catching([&] {
    session.source = std::make_shared<checkpoint::CheckpointSource>(std::move(source));
    // Once more, as some of it hangs on what tensors there are (models/text_part.h).
    const auto tower = session.model.config.vision;
    session.model.config = models::read_config(*session.source, options.heads).value();
    if (session.text) add_new_tokens(options.new_special_tokens, session.text->tokenizer, session.model.config);
    const std::string positions = models::override_rope(options.rope, session.model.config);
    if (options.label_head) models::add_label_head(session.model.config, *options.label_head).value();
    if (!positions.empty()) log_info(positions);
    if (tower && tower->file) session.model.config.vision = tower;
    if (beside == nullptr && !session.runtime) session.runtime = open_runtime(options.runtime).value();
    choose_dtypes(session, options, beside != nullptr ? beside->info() : session.runtime->device->info());
    return Unit{};
  });
}

}  // namespace

Result<std::unique_ptr<Session>> open_described(const SessionOptions& options, bool needs_text) {
  return catching([&] {
    HubOptions hub = options.hub;
    hub.without_weights = true;
    auto session = open_text_of(options, hub, needs_text ? Text::needed : Text::if_there);
    const bool is_here = has_weights(session->path);
    session->runtime = is_here ? open_runtime(options.runtime).value() : describe_runtime(options.runtime).value();
    auto source =
        is_here ? checkpoint::CheckpointSource::open(session->path).value() : describe_source(session->path, options);
    open_source(*session, options, std::move(source)).value();
    return session;
  });
}

Result<std::unique_ptr<Session>> open_session(const SessionOptions& options) {
  return catching([&] {
    auto session = open_text(options).value();
    open_model(*session, options).value();
    return session;
  });
}

Result<std::unique_ptr<Session>> open_beside(const Session& other, const SessionOptions& options) {
  return catching([&] {
    auto session = open_text_of(options, options.hub, Text::needed);
    auto source = checkpoint::CheckpointSource::open(session->path).value();
    open_source(*session, options, std::move(source), other.runtime->device.get()).value();
    return session;
  });
}

namespace {

constexpr std::int64_t kManyRows = 64;  // more than x15 is for

void require_int8(const Session& session) {
  if (!session.numerics.int8) return;
  const tern_device_info& device = session.model.store->device()->info();
  if (device.matmul_rate[TERN_COMPUTE_INT8] <= 0) {
    throw Failure(usage_error(cat("--dynamic_quantization is int8, and ", device.name, " has no products of bytes"),
                              "leave it out"));
  }
  if (!multiplies_some_in(TERN_COMPUTE_INT8, session.model, kManyRows)) {
    throw Failure(
        usage_error(cat("--dynamic_quantization is int8, and no weights of the model are whole numbers beside ",
                        "scales that ", device.name, " multiplies by bytes, as most of GGUF's types are"),
                    "leave it out, or take a GGUF file of the model"));
  }
  log_info("where many rows multiply quantised weights, activations are rounded to 8 bits in blocks of 32");
}

Status load_onto(Session& session, const accel::DevicePtr& device, const char* called,
                 const models::LoadOptions& options) {
  return catching([&] {
    models::LoadOptions in_dtype = options;
    in_dtype.dtype = session.model.dtype;
    in_dtype.quantise = session.quantise;
    session.model = models::load_model(session.model.config, session.source, device, in_dtype).value();
    for (const std::string& note : session.model.notes) log_info(note);
    require_int8(session);
    log_info(cat(called, ": ", session.path.string(), ", ", session.model.config.architecture, ", ",
                 fixed(static_cast<double>(session.model.config.num_parameters()) / 1e6, 1),
                 "M parameters, torch_dtype ", dtype_info(session.model.dtype).torch, ", products in ",
                 dtype_name(session.numerics.compute), ", activations in ", dtype_name(session.numerics.activations)));
    return Unit{};
  });
}

}  // namespace

Status load_weights(Session& session, const models::LoadOptions& options) {
  return load_onto(session, session.runtime->device, "model", options);
}

Status load_beside(const Session& other, Session& session, const models::LoadOptions& options) {
  return load_onto(session, other.runtime->device, "draft model", options);
}

Status load_vision_weights(Session& session, const models::LoadOptions& options) {
  return catching([&] {
    models::LoadOptions in_dtype = options;
    in_dtype.dtype = session.model.dtype;
    in_dtype.quantise = session.quantise;
    std::vector<std::string>& notes = session.model.notes;
    const std::size_t told = notes.size();
    models::load_vision(session.model, in_dtype).value();
    for (std::size_t i = told; i < notes.size(); ++i) log_info(notes[i]);
    return Unit{};
  });
}

void keep_bindings(const graph::Program& program, const std::filesystem::path& file) {
  const auto& table = program.bindings();
  const bool on_host = std::any_of(table.begin(), table.end(), [](const auto& row) { return row.how == "host"; });
  const std::string text = graph::to_text(table);
  log(on_host ? LogLevel::info : LogLevel::debug, cat("where each op runs:\n", text));
  if (!file.empty()) io::write_file(file, text).value();
}

}  // namespace tern::session
