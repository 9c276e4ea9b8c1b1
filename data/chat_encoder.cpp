#include "data/chat_encoder.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/strings.h"
#include "chat/agent_template.h"
#include "chat/template_messages.h"
#include "data/channel.h"
#include "io/checksum.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace tern::data {

using Json = io::Json;

struct ChatEncoder::State {
  tokenizer::Tokenizer tokenizer;
  std::optional<chat::ChatTemplate> chat_template;
  ChatEncoderOptions options;
  Json kwargs;
  tokenizer::TokenId eos = -1;
  std::optional<chat::AgentTemplate> agent = {};
  ColumnSpec channel = channel_column();

  struct Shown;
  void add_chat(EncodedRow& out, const Row& row, const std::vector<Message>& messages) const;
  void add_plain(EncodedRow& out, const std::vector<Message>& messages) const;
  void add(EncodedRow& out, Sample sample) const {
    if (!sample.weights.empty()) sample.weights.front() = 0;
    for (float& weight : sample.weights) {
      if (options.binary_weights && weight > 0) weight = 1;
    }
    append_truncated(out, std::move(sample), options.max_length, options.truncation);
  }
};

namespace {

// The Error of something inside the row, with the row's place before it.
Error in_row(const Row& row, Error error) {
  error.kind = ErrorKind::data;
  return error.inside(cat(row.file, ":", row.line));
}

std::string hash(const std::string& text) { return cat("xxh3_64 ", io::xxh3_64(std::as_bytes(std::span(text)))); }

std::string_view word_of(chat::LossScale scale) {
  switch (scale) {
    case chat::LossScale::every_turn:
      return "default";
    case chat::LossScale::last_round:
      return "last_round";
    case chat::LossScale::all:
      return "all";
  }
  return {};
}

std::string_view word_of(Truncation truncation) {
  switch (truncation) {
    case Truncation::remove:
      return "delete";
    case Truncation::left:
      return "left";
    case Truncation::right:
      return "right";
    case Truncation::split:
      return "split";
  }
  return {};
}

bool learned(const Message& message) { return message.role == "assistant" || message.role == "tool_call"; }

}  // namespace

// What the template sees of a row's messages; stays where it was made.
struct ChatEncoder::State::Shown {
  Shown(const State& state, const Row& row, const std::vector<Message>& messages, bool answered)
      : dialogue(chat::template_messages(messages).value()) {
    input.values = &dialogue;
    if (!row.tools_json.empty()) {
      tools = io::parse_json(row.tools_json, "tools").value();
      input.tools = &tools;
    }
    if (state.agent) dialogue = state.agent->apply(dialogue, std::exchange(input.tools, nullptr), answered);
    if (!state.kwargs.empty()) input.kwargs = &state.kwargs;
    const tokenizer::TokenizerConfig& config = state.tokenizer.config();
    input.bos_token = config.bos.content;
    input.eos_token = config.eos.content;
    input.unk_token = config.unk.content;
    input.pad_token = config.pad.content;
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

  jinja::Values dialogue;
  Json tools;
  chat::ChatInput input;
};

void ChatEncoder::State::add_chat(EncodedRow& out, const Row& row, const std::vector<Message>& messages) const {
  const Shown shown(*this, row, messages, true);
  const chat::ChatInput& input = shown.input;
  auto supervised =
      chat::supervised_samples(*chat_template, tokenizer, input, {options.loss_scale, {}, options.loss_rules}).value();
  out.split_turns = supervised.samples.size() > 1;
  for (auto& sample : supervised.samples) add(out, {std::move(sample.ids), std::move(sample.weights)});
}

void ChatEncoder::State::add_plain(EncodedRow& out, const std::vector<Message>& messages) const {
  chat::SupervisedText joined;
  std::size_t last_user = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) last_user = messages[i].role == "user" ? i : last_user;
  float last_weight = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool round = options.loss_scale != chat::LossScale::last_round || i >= last_user;
    float weight = options.loss_scale == chat::LossScale::all || (learned(message) && round) ? 1.0F : 0.0F;
    if (message.loss && learned(message)) weight = static_cast<float>(*message.loss);
    const std::size_t begin = joined.text.size();
    joined.text += message.content;
    const std::string query = i == 0 ? std::string() : messages[i - 1].content;
    for (const auto& part : options.loss_rules.parts(query, message.content)) {
      const float share = learned(message) ? weight * part.weight : weight;
      if (share > 0 && part.begin < part.end) joined.spans.push_back({begin + part.begin, begin + part.end, share});
    }
    last_weight = weight;
  }
  auto encoding = tokenizer.encode_with_offsets(joined.text, true);
  Sample sample{std::move(encoding.ids), chat::token_weights(joined, encoding.offsets)};
  if (eos >= 0) {
    if (sample.ids.empty() || sample.ids.back() != eos) {
      sample.ids.push_back(eos);
      sample.weights.push_back(0);
    }
    sample.weights.back() = last_weight;
  }
  add(out, std::move(sample));
}

ChatEncoder::ChatEncoder(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatEncoder::~ChatEncoder() = default;

Result<std::shared_ptr<const ChatEncoder>> ChatEncoder::create(tokenizer::Tokenizer tokenizer,
                                                               std::optional<chat::ChatTemplate> chat_template,
                                                               ChatEncoderOptions options) {
  return catching([&] {
    if (options.use_chat_template && !chat_template) {
      throw Failure(data_error("the model's tokenizer", "a chat template", "none",
                               "give --template, or --use_chat_template false to train on plain text"));
    }
    if (!options.use_chat_template && !options.agent_template.empty()) {
      throw Failure(usage_error("--agent_template writes into a chat template, and none is used", "remove it"));
    }
    if (options.identity.empty()) throw std::logic_error("a chat encoder without its tokenizer's identity");
    Json kwargs = Json::object();
    if (!options.template_kwargs.empty()) {
      kwargs = io::parse_json(options.template_kwargs, "template variables").value();
      if (!kwargs.is_object())
        throw Failure(usage_error(cat("the template variables are a JSON ", kwargs.type_name(), ", not an object"),
                                  R"(write them as {"enable_thinking": false})"));
    }
    const tokenizer::TokenId eos = tokenizer.config().eos.id;
    auto state = std::make_unique<State>(
        State{std::move(tokenizer), std::move(chat_template), std::move(options), std::move(kwargs), eos});
    if (!state->options.agent_template.empty()) {
      state->agent = chat::AgentTemplate::create(state->options.agent_template, state->chat_template.value()).value();
    }
    return std::shared_ptr<const ChatEncoder>(new ChatEncoder(std::move(state)));
  });
}

Result<EncodedRow> ChatEncoder::encode(const Row& row) const {
  if (!row.text) return encode(row, row.messages);
  return encode(row, {{"assistant", *row.text, {}, {}}});
}

Result<EncodedRow> ChatEncoder::encode(const Row& row, const std::vector<Message>& messages) const {
  if (row.images.size() + row.videos.size() + row.audios.size() > 0) {
    const std::string_view field = !row.images.empty() ? "images" : !row.videos.empty() ? "videos" : "audios";
    return data_error(cat(row.file, ":", row.line, ": field \"", field, "\""), "text only, as the model reads no media",
                      "media", "take the column out, or choose a model that reads it");
  }
  auto out = catching([&] {
    EncodedRow encoded;
    if (state_->options.use_chat_template) {
      state_->add_chat(encoded, row, messages);
    } else {
      state_->add_plain(encoded, messages);
    }
    if (state_->options.channels) {
      const auto channel = channel_of(row).value();
      for (Sample& sample : encoded.samples) sample.columns = {channel_bytes(channel.value_or(""))};
    }
    return encoded;
  });
  if (!out) return in_row(row, out.error());
  return out;
}

Result<std::vector<std::int32_t>> ChatEncoder::ask(const Row& row, const std::vector<Message>& messages) const {
  auto out = catching([&] {
    if (!state_->options.use_chat_template) {
      std::string joined;
      for (const Message& message : messages) joined += message.content;
      return text_ids(joined);
    }
    const bool answered = !messages.empty() && learned(messages.back());
    State::Shown shown(*state_, row, messages, answered);
    shown.input.add_generation_prompt = !answered;
    return state_->tokenizer.encode(state_->chat_template->render(shown.input).value(), false);
  });
  if (!out) return in_row(row, out.error());
  return out;
}

std::vector<std::int32_t> ChatEncoder::text_ids(std::string_view text) const {
  return state_->tokenizer.encode(text, true);
}

const tokenizer::Tokenizer& ChatEncoder::tokenizer() const { return state_->tokenizer; }
const ChatEncoderOptions& ChatEncoder::options() const { return state_->options; }

Settings ChatEncoder::settings() const {
  const ChatEncoderOptions& encoding = state_->options;
  const bool templated = encoding.use_chat_template && state_->chat_template.has_value();
  // A template that stands in the place of the model's own is told as one.
  const std::string tokenizer = encoding.identity.substr(0, encoding.identity.find('\n'));
  return {{"template", templated ? hash(state_->chat_template->source()) : std::string()},
          {"enable_thinking", encoding.template_kwargs},
          {"agent_template", encoding.agent_template},
          {"loss_scale", cat(word_of(encoding.loss_scale), encoding.loss_rules.text())},
          {"is_binary_loss_scale", encoding.binary_weights ? "true" : ""},
          {"max_length", cat(encoding.max_length)},
          {"truncation_strategy", std::string(word_of(encoding.truncation))},
          {"tokenizer of --model", hash(tokenizer)},
          {"new_special_tokens", encoding.new_special_tokens}};
}

std::span<const ColumnSpec> ChatEncoder::columns() const {
  return state_->options.channels ? std::span(&state_->channel, 1) : std::span<const ColumnSpec>();
}

std::string ChatEncoder::fingerprint() const {
  const ChatEncoderOptions& options = state_->options;
  return cat("chat 2|", options.identity, "|", options.new_special_tokens, "|", options.max_length, "|",
             static_cast<int>(options.truncation), "|", static_cast<int>(options.loss_scale), options.loss_rules.text(),
             options.binary_weights ? "b" : "", options.channels ? "c" : "", "|", options.use_chat_template, "|",
             options.template_kwargs, "|", options.agent_template, "|", state_->eos, "|",
             state_->tokenizer.config().bos.content, "|",
             state_->chat_template ? state_->chat_template->source() : std::string());
}

Result<std::string> tokenizer_identity(const std::filesystem::path& model) {
  return catching([&] {
    std::error_code ignored;
    if (!std::filesystem::is_directory(model, ignored)) {
      constexpr std::size_t kHead = std::size_t{64} << 20;  // a GGUF's vocabulary lies before its tensors
      const auto file = io::MappedFile::open(model).value();
      const auto head = file->bytes().first(std::min(file->bytes().size(), kHead));
      std::string identity = io::xxh3_64(head);
      file->intact().value();
      return identity;
    }
    std::string identity;
    static constexpr std::array kFiles{"tokenizer.json",          "tokenizer.model",     "tokenizer_config.json",
                                       "special_tokens_map.json", "chat_template.jinja", "chat_template.json"};
    for (const auto* name : kFiles) {
      if (std::filesystem::exists(model / name, ignored)) {
        identity += cat(name, "=", io::xxh3_64_of_file(model / name).value(), ";");
      }
    }
    if (identity.empty()) {
      throw Failure(data_error(model.string(), "tokenizer.json or tokenizer.model", "neither",
                               "name a model directory that has its tokenizer's files"));
    }
    return identity;
  });
}

Result<std::string> tokenizer_identity(const std::filesystem::path& model, const chat::ChatTemplate& chat_template) {
  auto identity = tokenizer_identity(model);
  if (!identity) return identity;
  return cat(*identity, "\n", chat_template.source());
}

}  // namespace tern::data
