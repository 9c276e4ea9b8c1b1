// What every run with a model begins with: a runtime, the checkpoint, its text, its weights.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "chat/model_text.h"
#include "models/adapter.h"
#include "models/label_head.h"
#include "models/loader.h"
#include "models/rope_override.h"
#include "session/model_names.h"
#include "session/runtime.h"

namespace tern::session {

struct SessionOptions {
  RuntimeOptions runtime;
  std::string model;    // a directory, a .gguf file, a bundled short name or a hub id
  std::string mmproj;   // of a GGUF: the file of its vision tower; "": with `images` the one that lies beside it
  bool images = false;  // the run may show the model some
  HubOptions hub;
  models::Heads heads = models::Heads::language;
  std::optional<models::LabelHead> label_head;      // of a classification; a language model gets a new one
  std::string model_type;                           // "": as the model says; another than it says is an error (usage)
  std::string chat_template;                        // file of a template in the place of the model's own; "": its own
  std::vector<std::string> new_special_tokens;      // beside the tokenizer's own, with rows of the model for them
  models::RopeOverride rope;                        // positions scaled otherwise than the model says
  std::optional<tern_dtype> dtype;                  // of the model (model_dtype.h); none: as the model says
  std::optional<models::QuantiseOptions> quantise;  // what weights become while they are loaded
  std::optional<tern_dtype> activations;            // what intermediates are kept in; none: as the device says
  bool int8 = false;                                // products of many rows by quantised weights in 8 bits
};

struct Session {
  Session() = default;
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::unique_ptr<Runtime> runtime;
  std::filesystem::path path;  // of the model
  std::shared_ptr<checkpoint::CheckpointSource> source;
  std::optional<chat::ModelText> text;
  models::LoadedModel model;  // its config and, from open_model on, its dtype come before its weights
  std::optional<models::QuantiseOptions> quantise;  // as the options have it, after open_model
  nn::Numerics numerics;                            // after open_model; what is needed of ops is for the run to say
};

// Opens model, text and device, in this order: bad data is refused before a device is touched. Weights are not read.
// Errors: what is wrong with the model (data), the device (device) or the options (usage).
[[nodiscard]] Result<std::unique_ptr<Session>> open_session(const SessionOptions& options);

// The same in two halves, for a run that looks at its data in between: path, text and config first, which need neither
// weights nor a device; then the checkpoint and, where the caller has not opened it meanwhile, the runtime.
[[nodiscard]] Result<std::unique_ptr<Session>> open_text(const SessionOptions& options);
[[nodiscard]] Status open_model(Session& session, const SessionOptions& options);

// Both for one who only plans: of a directory without weights the tensors are described (CheckpointSource::describe),
// and the device is only described where its backend can; a hub's weights are not fetched. `needs_text`: without it a
// model may lack its tokenizer, and has no text then. Errors as open_session; (data) a quantised model without weights,
// which alone say how they are stored.
[[nodiscard]] Result<std::unique_ptr<Session>> open_described(const SessionOptions& options, bool needs_text);

// Reads the weights onto the device in the session's dtype and quantisation, whatever the options say of these, and
// tells what was loaded. Errors (data): a tensor; (device): no memory.
[[nodiscard]] Status load_weights(Session& session, const models::LoadOptions& options);

// The same for a vision tower's weights, where load_weights left them for later (LoadOptions::vision_later).
[[nodiscard]] Status load_vision_weights(Session& session, const models::LoadOptions& options);

// Tells where each op of the program runs: in full where one runs on the host, else as a debug line. With `file`, the
// table is kept there. Throws Failure where it cannot be written.
void keep_bindings(const graph::Program& program, const std::filesystem::path& file = {});

}  // namespace tern::session
