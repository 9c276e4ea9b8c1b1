// Tokenizers from GGUF metadata, with llama.cpp's ids.
#include "text/tokenizer_gguf.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/bpe.h"
#include "text/gguf_pre.h"
#include "text/spm_model.h"
#include "text/unigram.h"
#include "text/utf8.h"
#include "text/word_models.h"

namespace tern::text {

namespace {

enum TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Tokens that end a turn or mark a place in code: llama.cpp takes them for control tokens whatever the file says.
constexpr std::array kAlwaysControl{std::string_view("<|eot_id|>"),
                                    std::string_view("<|im_end|>"),
                                    std::string_view("<|end|>"),
                                    std::string_view("<|return|>"),
                                    std::string_view("<|call|>"),
                                    std::string_view("<|flush|>"),
                                    std::string_view("<|calls|>"),
                                    std::string_view("<end_of_turn>"),
                                    std::string_view("<|endoftext|>"),
                                    std::string_view("</s>"),
                                    std::string_view("<|eom_id|>"),
                                    std::string_view("<EOT>"),
                                    std::string_view("_<EOT>"),
                                    std::string_view("[EOT]"),
                                    std::string_view("[EOS]"),
                                    std::string_view("<|end_of_text|>"),
                                    std::string_view("<end_of_utterance>"),
                                    std::string_view("<eos>"),
                                    std::string_view("<turn|>"),
                                    std::string_view("<｜end▁of▁sentence｜>"),
                                    std::string_view("[e~["),
                                    std::string_view("<|fim_prefix|>"),
                                    std::string_view("<|fim_suffix|>"),
                                    std::string_view("<|fim_middle|>"),
                                    std::string_view("<|fim_pad|>"),
                                    std::string_view("<|repo_name|>"),
                                    std::string_view("<|file_sep|>")};
// Always shown, as gpt-oss's channels are part of its text.
constexpr std::array kAlwaysShown{std::string_view("<|channel|>"), std::string_view("<|message|>"),
                                  std::string_view("<|start|>"), std::string_view("<|constrain|>")};

template <typename List>
bool contains(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// What llama.cpp assumes for a kind of vocabulary where the file is silent.
struct Defaults {
  std::optional<TokenId> bos, eos, unk, pad, sep;
  bool add_bos = false, add_eos = false, add_sep = false, add_space_prefix = false;
};

class Builder {
 public:
  explicit Builder(const GgufVocabulary& vocabulary) : file_(vocabulary), impl_(std::make_shared<TokenizerImpl>()) {}

  std::shared_ptr<TokenizerImpl> build() {
    impl_->where = file_.where;
    impl_->has_decoder = true;
    impl_->replace_each_byte = true;
    if (file_.tokens.empty()) throw wrong("tokenizer.ggml.tokens", "a vocabulary", "none");
    if (!file_.token_types.empty() && file_.token_types.size() < file_.tokens.size()) {
      throw wrong("tokenizer.ggml.token_type", cat(file_.tokens.size(), " entries"), cat(file_.token_types.size()));
    }
    if (!file_.scores.empty() && file_.scores.size() < file_.tokens.size()) {
      throw wrong("tokenizer.ggml.scores", cat(file_.tokens.size(), " entries"), cat(file_.scores.size()));
    }
    if (file_.model == "gpt2" || file_.model == "gemma4") {
      build_bpe();
    } else if (file_.model == "llama") {
      build_spm();
    } else if (file_.model == "bert") {
      build_bert();
    } else if (file_.model == "t5") {
      build_unigram();
    } else {
      throw wrong("tokenizer.ggml.model", "gpt2, gemma4, llama, bert or t5", cat('"', file_.model, '"'));
    }
    return impl_;
  }

 private:
  [[nodiscard]] Failure wrong(std::string_view key, std::string expected, std::string found,
                              Site site = Site::current()) const {
    return Failure(data_error(cat(file_.where, ": ", key), std::move(expected), std::move(found),
                              "convert the model again", site));
  }

  [[nodiscard]] Vocabulary vocabulary() const {
    Vocabulary all;
    for (std::size_t id = 0; id < file_.tokens.size(); ++id) {
      const std::string& text = file_.tokens[id];
      if (valid_prefix(text) != text.size()) {
        throw wrong(cat("tokenizer.ggml.tokens[", id, "]"), "UTF-8", "other bytes");
      }
      all.emplace_back(text.empty() ? cat("[EMPTY_", id, "]") : text, static_cast<TokenId>(id));
    }
    return all;
  }

  [[nodiscard]] std::int32_t type(std::size_t id) const {
    const std::string& text = file_.tokens[id];
    if (contains(kAlwaysShown, text)) return kUserDefined;
    if (contains(kAlwaysControl, text)) return kControl;
    return file_.token_types.empty() ? static_cast<std::int32_t>(kNormal) : file_.token_types[id];
  }

  // Tokens that are looked for in the text before all else; `with_users` false leaves the user-defined ones to the
  // model.
  void add_specials() {
    for (std::size_t id = 0; id < file_.tokens.size(); ++id) {
      const std::int32_t kind = type(id);
      if ((kind != kControl && kind != kUnknown && kind != kUserDefined) || file_.tokens[id].empty()) continue;
      AddedToken token;
      token.content = file_.tokens[id];
      token.special = kind != kUserDefined;
      impl_->add_token(std::move(token));
    }
  }

  std::optional<TokenId> checked(std::optional<TokenId> given, std::optional<TokenId> otherwise) const {
    const auto inside = [&](std::optional<TokenId> id) {
      return id && *id >= 0 && static_cast<std::size_t>(*id) < file_.tokens.size();
    };
    if (inside(given)) return given;
    return inside(otherwise) ? otherwise : std::nullopt;
  }

  // BOS before, SEP or EOS after, and the roles in the configuration.
  void finish(const Defaults& defaults) {
    const auto bos = checked(file_.bos_id, defaults.bos);
    const auto eos = checked(file_.eos_id, defaults.eos);
    const auto sep = checked(file_.sep_id, defaults.sep);
    const auto piece = [&](TokenId id) {
      return TemplatePiece{false, {id}, {file_.tokens[static_cast<std::size_t>(id)]}};
    };
    std::vector<TemplatePiece> single;
    if (file_.add_bos.value_or(defaults.add_bos) && bos) single.push_back(piece(*bos));
    single.push_back({true, {}, {}});
    if (file_.model == "bert") {
      if (file_.add_sep.value_or(defaults.add_sep) && sep) single.push_back(piece(*sep));
    } else if (file_.add_eos.value_or(defaults.add_eos) && eos) {
      single.push_back(piece(*eos));
    }
    impl_->post_processors.push_back(make_template(std::move(single)));
    const auto role = [&](std::optional<TokenId> id) {
      return id ? RoleToken{file_.tokens[static_cast<std::size_t>(*id)], *id} : RoleToken{};
    };
    TokenizerConfig& config = impl_->config;
    config.chat_template = file_.chat_template;
    config.named_chat_templates = file_.named_chat_templates;
    impl_->finish();
    config.bos = role(bos);
    config.eos = role(eos);
    config.unk = role(checked(file_.unk_id, defaults.unk));
    config.pad = role(checked(file_.pad_id, defaults.pad));
    // Tokens found in the text stand for themselves, not for the bytes of some alphabet.
    if (file_.model != "gpt2") return;
    for (const AddedToken& token : impl_->added().all()) {
      std::string mapped;
      for (const char c : token.content) append_char(mapped, byte_to_char(static_cast<unsigned char>(c)));
      impl_->override_decoded(token.id, std::move(mapped));
    }
  }

  [[nodiscard]] BpeModel::Merges merges() const {
    BpeModel::Merges all;
    for (std::size_t i = 0; i < file_.merges.size(); ++i) {
      const std::string& line = file_.merges[i];
      const std::size_t blank = line.find(' ', 1);
      if (blank == std::string::npos) {
        throw wrong(cat("tokenizer.ggml.merges[", i, "]"), "two tokens with a space between", cat('"', line, '"'));
      }
      all.emplace_back(line.substr(0, blank), line.substr(blank + 1));
    }
    return all;
  }

  void build_bpe() {
    const std::string name = file_.model == "gemma4" ? "gemma4" : file_.pre;
    const GgufPre* pre = find_gguf_pre(name);
    if (pre == nullptr) {
      std::vector<std::string> known;
      for (const std::string_view candidate : gguf_pre_names()) known.emplace_back(candidate);
      const std::string near = nearest(name, known);
      throw wrong("tokenizer.ggml.pre", "a pre-tokenizer that is known here",
                  cat('"', name, '"', near.empty() ? "" : cat("; the nearest is \"", near, '"')));
    }
    BpeOptions options;
    options.ignore_merges = pre->ignore_merges;
    options.byte_fallback = !pre->bytes;
    options.wants_bytes = pre->bytes;
    options.keep_unknown = true;
    auto model =
        std::make_unique<BpeModel>(vocabulary(), merges(), options, cat(file_.where, ": tokenizer.ggml.merges"));
    const bool map_bytes = pre->bytes && !model->takes_bytes();
    impl_->model = std::move(model);
    if (pre->escape_spaces) impl_->normalizers.push_back(make_replace(" ", true, "\xE2\x96\x81", file_.where));
    for (const std::string& pattern : pre->patterns) {
      impl_->pre_tokenizers.push_back(
          make_regex_split(pattern, false, SplitBehavior::isolated, false, "tokenizer.ggml.pre"));
    }
    if (map_bytes) impl_->pre_tokenizers.push_back(make_byte_level(false, false, true));
    if (pre->bytes) {
      impl_->decoders.push_back(make_byte_level_decoder());
    } else {
      add_spaced_decoders(false);
    }
    add_specials();
    Defaults defaults;
    defaults.add_bos = pre->add_bos;
    finish(defaults);
  }

  void add_spaced_decoders(bool strip_first) {
    impl_->decoders.push_back(make_replace_decoder("\xE2\x96\x81", true, " ", file_.where));
    impl_->decoders.push_back(make_byte_fallback_decoder());
    impl_->decoders.push_back(make_fuse_decoder());
    if (strip_first) impl_->decoders.push_back(make_strip_decoder(U' ', 1, 0));
  }

  void build_spm() {
    const TokenId unk = checked(file_.unk_id, 0).value_or(0);
    impl_->model = std::make_unique<SpmModel>(vocabulary(), file_.scores, unk);
    const bool prefix = file_.add_space_prefix.value_or(true);
    // Each stretch of text between special tokens starts with a space of its own, as llama.cpp has it.
    if (prefix) impl_->normalizers.push_back(make_prepend("\xE2\x96\x81"));
    impl_->normalizers.push_back(make_replace(" ", true, "\xE2\x96\x81", file_.where));
    add_spaced_decoders(prefix);
    add_specials();
    finish({1, 2, 0, std::nullopt, std::nullopt, true, false, false, true});
  }

  void build_bert() {
    WordPieceOptions options;
    const auto unk = checked(file_.unk_id, 100);
    if (unk) options.unk_token = file_.tokens[static_cast<std::size_t>(*unk)];
    options.continuing_subword_prefix = "";
    options.word_prefix = "\xE2\x96\x81";
    options.max_input_chars_per_word = SIZE_MAX;
    impl_->model = std::make_unique<WordPieceModel>(vocabulary(), std::move(options));
    BertOptions bert;
    impl_->normalizers.push_back(make_bert_normalizer(bert));
    impl_->pre_tokenizers.push_back(make_char_split({kWhite}, SplitBehavior::removed));
    impl_->pre_tokenizers.push_back(make_char_split({kPunctuation}, SplitBehavior::isolated));
    impl_->decoders.push_back(make_replace_decoder("\xE2\x96\x81", true, " ", file_.where));
    impl_->decoders.push_back(make_fuse_decoder());
    impl_->decoders.push_back(make_strip_decoder(U' ', 1, 0));
    add_specials();
    finish({101, std::nullopt, 100, 0, 102, true, false, true, false});
  }

  void build_unigram() {
    UnigramOptions options;
    const auto unk = checked(file_.unk_id, 2);
    if (unk) options.unk_id = *unk;
    std::vector<double> scores(file_.scores.begin(), file_.scores.end());
    scores.resize(file_.tokens.size());
    for (std::size_t id = 0; id < scores.size(); ++id) {
      const std::int32_t kind = type(id);
      options.hidden.push_back(kind != kNormal && kind != kUserDefined && kind != kUnused);
      if (kind == kUserDefined) scores[id] = 0;  // preferred to any sum of log probabilities
    }
    impl_->model = std::make_unique<UnigramModel>(vocabulary(), std::move(scores), std::move(options), file_.where);
    if (!file_.precompiled_charsmap.empty()) {
      impl_->normalizers.push_back(make_precompiled(file_.precompiled_charsmap, file_.where, true));
    }
    if (file_.remove_extra_whitespaces.value_or(false)) {
      impl_->normalizers.push_back(make_replace("\\A +| +\\z", false, "", file_.where));
      impl_->normalizers.push_back(make_replace(" {2,}", false, " ", file_.where));
    }
    const bool prefix = file_.add_space_prefix.value_or(false);
    if (prefix) impl_->normalizers.push_back(make_prepend("\xE2\x96\x81"));
    impl_->normalizers.push_back(make_replace(" ", true, "\xE2\x96\x81", file_.where));
    add_spaced_decoders(prefix);
    add_specials();
    Defaults defaults{std::nullopt, 1, 2, 0, std::nullopt};
    defaults.add_eos = true;
    finish(defaults);
  }

  const GgufVocabulary& file_;
  std::shared_ptr<TokenizerImpl> impl_;
};

std::optional<TokenId> read_id(const io::Gguf& file, std::string_view name) {
  const std::string key = cat("tokenizer.ggml.", name, "_token_id");
  if (file.find(key) == nullptr) return std::nullopt;
  const std::int64_t id = file.integer(key).value();
  return id >= 0 && id <= INT32_MAX ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
}

std::optional<bool> read_flag(const io::Gguf& file, const std::string& key) {
  return file.find(key) == nullptr ? std::nullopt : std::optional(file.boolean(key).value());
}

std::vector<std::string> read_texts(const io::Gguf& file, const std::string& key) {
  if (file.find(key) == nullptr) return {};
  const std::vector<std::string_view> texts = file.texts(key).value();
  return {texts.begin(), texts.end()};
}

template <typename T>
std::vector<T> read_numbers(const io::Gguf& file, const std::string& key) {
  const io::GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto numbers = value->numbers();
  if (!numbers) throw Failure(data_error(cat(file.path(), ": ", key), "an array of numbers", "another value"));
  std::vector<T> out;
  out.reserve(numbers->size());
  for (const double number : *numbers) out.push_back(static_cast<T>(std::clamp(number, -2e9, 2e9)));
  return out;
}

GgufVocabulary read_vocabulary(const io::Gguf& file) {
  GgufVocabulary out;
  out.where = file.path();
  out.model = file.text("tokenizer.ggml.model").value();
  out.pre = file.text_or("tokenizer.ggml.pre", "").value();
  out.tokens = read_texts(file, "tokenizer.ggml.tokens");
  out.merges = read_texts(file, "tokenizer.ggml.merges");
  out.scores = read_numbers<float>(file, "tokenizer.ggml.scores");
  out.token_types = read_numbers<std::int32_t>(file, "tokenizer.ggml.token_type");
  out.bos_id = read_id(file, "bos");
  out.eos_id = read_id(file, "eos");
  out.unk_id = read_id(file, "unknown");
  out.pad_id = read_id(file, "padding");
  out.sep_id = read_id(file, "seperator");  // spelled so in the format
  out.cls_id = read_id(file, "cls");
  out.mask_id = read_id(file, "mask");
  out.add_bos = read_flag(file, "tokenizer.ggml.add_bos_token");
  out.add_eos = read_flag(file, "tokenizer.ggml.add_eos_token");
  out.add_sep = read_flag(file, "tokenizer.ggml.add_sep_token");
  out.add_space_prefix = read_flag(file, "tokenizer.ggml.add_space_prefix");
  out.remove_extra_whitespaces = read_flag(file, "tokenizer.ggml.remove_extra_whitespaces");
  if (const io::GgufValue* map = file.find("tokenizer.ggml.precompiled_charsmap"); map != nullptr && map->is_array()) {
    out.precompiled_charsmap.assign(reinterpret_cast<const char*>(map->raw.data()), map->raw.size());
  }
  constexpr std::string_view kTemplate = "tokenizer.chat_template";
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(kTemplate) || !value.text()) continue;
    if (key == kTemplate) {
      out.chat_template = std::string(*value.text());
    } else if (key[kTemplate.size()] == '.') {
      out.named_chat_templates.emplace_back(key.substr(kTemplate.size() + 1), std::string(*value.text()));
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<TokenizerImpl> make_gguf_tokenizer(const GgufVocabulary& vocabulary) {
  return Builder(vocabulary).build();
}

Result<GgufVocabulary> read_gguf_vocabulary(const io::Gguf& file) {
  return catching([&] { return read_vocabulary(file); });
}

}  // namespace tern::text
