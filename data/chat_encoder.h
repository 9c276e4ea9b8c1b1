// The encoder of supervised training: dialogues through the model's chat template, or plain text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "chat/supervised.h"
#include "data/encode.h"
#include "tokenizer/tokenizer.h"

namespace tern::data {

struct ChatEncoderOptions {
  std::uint32_t max_length = 0;  // tokens; 0: no limit
  Truncation truncation = Truncation::remove;
  chat::LossScale loss_scale = chat::LossScale::every_turn;
  chat::LossRules loss_rules;   // of parts of answers
  bool binary_weights = false;  // every weight above 0 counts 1
  // false (`tern pt`): the contents are joined as they are, the tokenizer's own first tokens put before them and its
  // end token behind.
  bool use_chat_template = true;
  std::string template_kwargs;     // JSON object of the template's variables: {"enable_thinking": false}
  std::string agent_template;      // how tools are written (chat/agent_template.h); "": the template's own way
  bool channels = false;           // samples tell their row's channel (data/channel.h)
  std::string new_special_tokens;  // that the tokenizer has beside its files'
  // What tells this tokenizer and template from others (tokenizer_identity()): caches depend on it.
  std::string identity;
};

class ChatEncoder final : public RowEncoder {
 public:
  // Errors: no chat template where one is to be used; template_kwargs that is no JSON object; an agent_template that
  // there is none of, or that the chat template cannot carry.
  [[nodiscard]] static Result<std::shared_ptr<const ChatEncoder>> create(
      tokenizer::Tokenizer tokenizer, std::optional<chat::ChatTemplate> chat_template, ChatEncoderOptions options);
  ~ChatEncoder() override;

  [[nodiscard]] Result<EncodedRow> encode(const Row& row) const override;
  // One dialogue of the row, its `messages` or its `rejected`.
  [[nodiscard]] Result<EncodedRow> encode(const Row& row, const std::vector<Message>& messages) const;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] Settings settings() const override;
  [[nodiscard]] std::span<const ColumnSpec> columns() const override;

  // What `tern infer` makes of the same: a dialogue as the model is asked it, up to the beginning of an answer where
  // its last message is none, or a text with the tokens that the tokenizer adds. Nothing is cut. Errors (data): a
  // message that cannot be rendered.
  [[nodiscard]] Result<std::vector<std::int32_t>> ask(const Row& row, const std::vector<Message>& messages) const;
  [[nodiscard]] std::vector<std::int32_t> text_ids(std::string_view text) const;
  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const;
  [[nodiscard]] const ChatEncoderOptions& options() const;

 private:
  struct State;
  explicit ChatEncoder(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// Of the files that make a tokenizer and its template: those of a Hugging Face directory, or the head of a GGUF file.
[[nodiscard]] Result<std::string> tokenizer_identity(const std::filesystem::path& model);
// The same with the source of a template that stands in the place of the model's own: it makes other samples of the
// same rows.
[[nodiscard]] Result<std::string> tokenizer_identity(const std::filesystem::path& model,
                                                     const chat::ChatTemplate& chat_template);

}  // namespace tern::data
