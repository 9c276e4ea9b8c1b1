// Tokenizers from GGUF metadata, with llama.cpp's ids.
#include "tokenizer/gguf/tokenizer_gguf.h"

#include <algorithm>
#include <cfloat>

#include "base/strings.h"
#include "tokenizer/bpe.h"
#include "tokenizer/fim_tokens.h"
#include "tokenizer/gguf/llama_split.h"
#include "tokenizer/gguf/pre.h"
#include "tokenizer/gguf/roles.h"
#include "tokenizer/sentencepiece/spm_model.h"
#include "tokenizer/sentencepiece/spm_normalizer.h"
#include "tokenizer/unicode/utf8.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_models.h"

namespace tern::tokenizer {

namespace {

// What llama.cpp assumes for a kind of vocabulary where the file is silent.
struct Defaults {
  std::optional<TokenId> bos, eos, unk, pad, sep;
  bool add_bos = false, add_eos = false, always_bos = false;
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
    roles_ = gguf_token_roles(file_);
    impl_->longest_added_first = true;
    if (file_.model == "gpt2" || file_.model == "gemma4" || file_.model == "whitespace") {
      build_bpe();
    } else if (file_.model == "llama") {
      build_spm();
    } else if (file_.model == "bert") {
      build_bert();
    } else if (file_.model == "t5") {
      build_unigram();
    } else {
      throw wrong("tokenizer.ggml.model", "gpt2, gemma4, whitespace, llama, bert or t5", cat('"', file_.model, '"'));
    }
    return impl_;
  }

 private:
  [[nodiscard]] Failure wrong(std::string_view key, std::string expected, std::string found) const {
    return Failure(
        data_error(cat(file_.where, ": ", key), std::move(expected), std::move(found), "convert the model again"));
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

  // Tokens that are looked for in the text before all else.
  void add_specials() {
    for (std::size_t id = 0; id < file_.tokens.size(); ++id) {
      const GgufTokenRole& role = roles_[id];
      if (!role.control && !role.unknown && !role.user_defined) continue;
      AddedToken token;
      token.content = file_.tokens[id].empty() ? cat("[EMPTY_", id, "]") : file_.tokens[id];
      token.special = role.control || role.unknown;
      token.lstrip = role.lstrip;
      token.rstrip = role.rstrip;
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
    const bool bert = file_.model == "bert";  // which llama.cpp surrounds whatever the file says
    if ((bert || defaults.always_bos || file_.add_bos.value_or(defaults.add_bos)) && bos) single.push_back(piece(*bos));
    single.push_back({true, {}, {}});
    if (bert) {
      if (sep) single.push_back(piece(*sep));
    } else if (file_.add_eos.value_or(defaults.add_eos) && eos) {
      single.push_back(piece(*eos));
    }
    impl_->post_processors.push_back(make_template(std::move(single), pair(bos, eos, sep)));
    const auto role = [&](std::optional<TokenId> id) {
      return id ? RoleToken{file_.tokens[static_cast<std::size_t>(*id)], *id} : RoleToken{};
    };
    TokenizerConfig& config = impl_->config;
    config.chat_template = file_.chat_template;
    config.named_chat_templates = file_.named_chat_templates;
    for (std::size_t i = 0; i < file_.fim_ids.size(); ++i) {
      const auto id = checked(file_.fim_ids[i], std::nullopt);
      if (id) config.extra.emplace_back(cat(kFimKey, i), cat(*id));
    }
    impl_->finish();
    config.bos = role(bos);
    config.eos = role(eos);
    config.unk = role(checked(file_.unk_id, defaults.unk));
    config.pad = role(checked(file_.pad_id, defaults.pad));
    // Tokens found in the text stand for themselves, not for the bytes of some alphabet.
    if (!byte_level_) return;
    for (const AddedToken& token : impl_->added().all()) {
      std::string mapped;
      for (const char c : token.content) append_char(mapped, byte_to_char(static_cast<unsigned char>(c)));
      impl_->override_decoded(token.id, std::move(mapped));
    }
  }

  // How two texts are read together: BERT's kind has its separator behind each, and types; RoBERTa's has the end twice
  // between them. No other vocabulary joins texts.
  [[nodiscard]] std::vector<TemplatePiece> pair(std::optional<TokenId> bos, std::optional<TokenId> eos,
                                                std::optional<TokenId> sep) const {
    const bool bert = file_.model == "bert";
    const bool surrounds = bert || (file_.add_bos.value_or(false) && file_.add_eos.value_or(false));
    const std::optional<TokenId> end = bert ? sep : eos;
    if (!surrounds || !bos || !end) return {};
    const auto text = [&](TokenId id) { return file_.tokens[static_cast<std::size_t>(id)]; };
    const auto piece = [&](TokenId id, std::int32_t type) {
      return TemplatePiece{false, {id}, {text(id)}, false, type};
    };
    const std::int32_t second = bert ? 1 : 0;
    std::vector<TemplatePiece> out = {piece(*bos, 0), {true, {}, {}}, piece(*end, 0)};
    if (!bert && text(*bos) != "[CLS]") out.push_back(piece(*end, 0));
    out.push_back({true, {}, {}, true, second});
    out.push_back(piece(*end, second));
    return out;
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
    options.whole_newlines = pre->gemma4;
    auto model =
        std::make_unique<BpeModel>(vocabulary(), merges(), options, cat(file_.where, ": tokenizer.ggml.merges"));
    byte_level_ = pre->bytes;
    const bool map_bytes = pre->bytes && !model->takes_bytes();
    impl_->model = std::move(model);
    if (pre->escape_spaces) impl_->normalizers.push_back(make_replace(" ", true, "\xE2\x96\x81", file_.where));
    if (file_.model == "whitespace") {
      if (file_.lowercase.value_or(name != "whitespace")) impl_->normalizers.push_back(make_llama_lowercase());
      impl_->pre_tokenizers.push_back(make_char_split({kWhite}, SplitBehavior::removed));
    }
    for (const std::string& pattern : pre->patterns) {
      impl_->pre_tokenizers.push_back(make_llama_split(pattern, "tokenizer.ggml.pre"));
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
    defaults.always_bos = pre->gemma4;
    if (file_.model != "gemma4") {
      defaults.eos = 11;  // Falcon's, from when no other model had this kind
      if (!pre->no_bos) defaults.bos = 11;
    }
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
    finish({1, 2, 0, std::nullopt, std::nullopt, true});
  }

  void build_bert() {
    WordPieceOptions options;
    const auto unk = checked(file_.unk_id, 100);
    if (unk) options.unk_token = file_.tokens[static_cast<std::size_t>(*unk)];
    options.continuing_subword_prefix = "";
    options.word_prefix = "\xE2\x96\x81";
    options.max_input_chars_per_word = SIZE_MAX;
    impl_->model = std::make_unique<WordPieceModel>(vocabulary(), std::move(options));
    const bool lowercase = file_.lowercase.value_or(true);
    impl_->normalizers.push_back(make_llama_bert_normalizer(lowercase, file_.strip_accents.value_or(lowercase)));
    impl_->pre_tokenizers.push_back(make_char_split({kWhite}, SplitBehavior::removed));
    impl_->pre_tokenizers.push_back(make_llama_bert_split());
    impl_->decoders.push_back(make_replace_decoder("\xE2\x96\x81", true, " ", file_.where));
    impl_->decoders.push_back(make_fuse_decoder());
    impl_->decoders.push_back(make_strip_decoder(U' ', 1, 0));
    add_specials();
    finish({101, std::nullopt, 100, 0, 102, true});
  }

  void build_unigram() {
    UnigramOptions options;
    const auto unk = checked(file_.unk_id, 2);
    if (unk) options.unk_id = *unk;
    options.joined_unknowns = false;
    std::vector<double> scores(file_.scores.begin(), file_.scores.end());
    scores.resize(file_.tokens.size());
    double lowest = FLT_MAX;
    SpmNormalizerOptions normal;
    for (std::size_t id = 0; id < scores.size(); ++id) {
      const std::int32_t kind = file_.token_types.empty() ? kGgufNormal : file_.token_types[id];
      if (kind == kGgufNormal) lowest = std::min(lowest, scores[id]);
      options.hidden.push_back(kind != kGgufNormal && kind != kGgufUserDefined && kind != kGgufUnused);
      if (kind == kGgufUserDefined) normal.symbols.push_back(file_.tokens[id]);
      if (roles_[id].user_defined) scores[id] = 0;  // preferred to any sum of log probabilities
    }
    options.unk_score = static_cast<float>(lowest) - 10.0F;
    impl_->model = std::make_unique<UnigramModel>(vocabulary(), std::move(scores), std::move(options), file_.where);
    const bool prefix = file_.add_space_prefix.value_or(false);
    normal.charsmap = file_.precompiled_charsmap;
    normal.add_dummy_prefix = prefix;
    normal.remove_extra_whitespaces = file_.remove_extra_whitespaces.value_or(false);
    normal.llama = true;
    impl_->normalizers.push_back(make_spm_normalizer(normal, file_.where));
    add_spaced_decoders(prefix);
    add_specials();
    Defaults defaults{std::nullopt, 1, 2, 0, std::nullopt};
    defaults.add_eos = true;
    finish(defaults);
  }

  const GgufVocabulary& file_;
  std::shared_ptr<TokenizerImpl> impl_;
  std::vector<GgufTokenRole> roles_;
  bool byte_level_ = false;
};

std::optional<TokenId> read_id(const checkpoint::Gguf& file, std::string_view name) {
  const std::string key = cat("tokenizer.ggml.", name, "_token_id");
  if (file.find(key) == nullptr) return std::nullopt;
  const std::int64_t id = file.integer(key).value();
  return id >= 0 && id <= INT32_MAX ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
}

std::optional<bool> read_flag(const checkpoint::Gguf& file, const std::string& key) {
  return file.find(key) == nullptr ? std::nullopt : std::optional(file.boolean(key).value());
}

std::vector<std::string> read_texts(const checkpoint::Gguf& file, const std::string& key) {
  if (file.find(key) == nullptr) return {};
  const std::vector<std::string_view> texts = file.texts(key).value();
  return {texts.begin(), texts.end()};
}

// `get` is GgufValue::numbers or GgufValue::integers: types read as numbers could be NaN.
template <typename T, typename Wide>
std::vector<T> read_numbers(const checkpoint::Gguf& file, const std::string& key,
                            std::optional<std::vector<Wide>> (checkpoint::GgufValue::*get)() const) {
  const checkpoint::GgufValue* value = file.find(key);
  if (value == nullptr) return {};
  const auto numbers = (value->*get)();
  if (!numbers)
    throw Failure(
        data_error(cat(file.path(), ": ", key), "an array of numbers", "another value", "convert the model again"));
  std::vector<T> out;
  out.reserve(numbers->size());
  constexpr Wide kMost = 2'000'000'000;
  for (const Wide number : *numbers) out.push_back(static_cast<T>(std::clamp(number, -kMost, kMost)));
  return out;
}

GgufVocabulary read_vocabulary(const checkpoint::Gguf& file) {
  GgufVocabulary out;
  out.where = file.path();
  out.model = file.text("tokenizer.ggml.model").value();
  out.pre = file.text_or("tokenizer.ggml.pre", "").value();
  out.tokens = read_texts(file, "tokenizer.ggml.tokens");
  out.merges = read_texts(file, "tokenizer.ggml.merges");
  out.scores = read_numbers<float>(file, "tokenizer.ggml.scores", &checkpoint::GgufValue::numbers);
  out.token_types = read_numbers<std::int32_t>(file, "tokenizer.ggml.token_type", &checkpoint::GgufValue::integers);
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
  out.lowercase = read_flag(file, "tokenizer.ggml.normalizer.lowercase");
  out.strip_accents = read_flag(file, "tokenizer.ggml.normalizer.strip_accents");
  out.name = file.text_or("general.name", "").value();
  out.architecture = file.text_or("general.architecture", "").value();
  constexpr std::array kFim{"fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep"};
  constexpr std::array kOldFim{"prefix", "suffix", "middle"};
  for (std::size_t i = 0; i < kFim.size(); ++i) out.fim_ids[i] = read_id(file, kFim[i]);
  for (std::size_t i = 0; i < kOldFim.size(); ++i) {
    if (const auto id = read_id(file, kOldFim[i])) out.fim_ids[i] = id;
  }
  if (const checkpoint::GgufValue* map = file.find("tokenizer.ggml.precompiled_charsmap");
      map != nullptr && map->is_array()) {
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

void add_special_tokens(GgufVocabulary& vocabulary, const std::vector<std::string>& contents) {
  constexpr std::int32_t kNormal = 1, kControl = 3;
  vocabulary.token_types.resize(vocabulary.tokens.size(), kNormal);
  for (const std::string& content : contents) {
    const auto known = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), content);
    if (known != vocabulary.tokens.end()) {
      vocabulary.token_types[static_cast<std::size_t>(known - vocabulary.tokens.begin())] = kControl;
      continue;
    }
    vocabulary.tokens.push_back(content);
    vocabulary.token_types.push_back(kControl);
    if (!vocabulary.scores.empty()) vocabulary.scores.push_back(0);
  }
}

std::shared_ptr<TokenizerImpl> make_gguf_tokenizer(const GgufVocabulary& vocabulary) {
  return Builder(vocabulary).build();
}

Result<GgufVocabulary> read_gguf_vocabulary(const checkpoint::Gguf& file) {
  return catching([&] { return read_vocabulary(file); });
}

}  // namespace tern::tokenizer
