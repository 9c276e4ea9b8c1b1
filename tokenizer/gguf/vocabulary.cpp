#include "tokenizer/gguf/vocabulary.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include "base/strings.h"
#include "io/mapped_file.h"
#include "tokenizer/gguf/pre.h"
#include "tokenizer/tokenizer_parts.h"

namespace tern::tokenizer {
namespace {

namespace fs = std::filesystem;

enum TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Every place where the splits that models use part ways: contractions in both cases, runs of digits, spaces and
// newlines, slashes, letters by case, marks, scripts, emoji.
constexpr std::string_view kProbe =
    "Hello World's I'LL we've they'Re don't x=3.14159 12 123 1234 1234567 in 2024, v1.2.3\n\n \n\t\tif (a[i] != b) "
    "{ return foo_Bar(camelCase, HTTPServer, XMLhttp); } // path/to/file\r\n\r\n   trailing   \n  "
    "na\xC3\xAFve caf\xC3\xA9 e\xCC\x81t\xC3\xA9 \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 "
    "\xCE\x95\xCE\xBB\xCE\xBB \xE4\xBD\xA0\xE5\xA5\xBD\xE4\xB8\x96\xE7\x95\x8C "
    "\xE3\x81\x93\xE3\x82\x93\xE3\x81\xAB\xE3\x81\xA1\xE3\x81\xAF \xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 "
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 \xD9\x85\xD8\xB1\xD8\xAD\xD8\xA8\xD8\xA7 "
    "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD \xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xE2\x80\x9Cquotes"
    "\xE2\x80\x9D \xE2\x80\x94 $5 + 7% ~tilde~ `code` ##  !!!... ___ \xC2\xB2\xC2\xBD \xE2\x85\xA3 "
    "\xE0\xA5\xA7\xE0\xA5\xA8\xE0\xA5\xA9 end";

// A pre-tokenizer's parts in a line, by which the usual ones are told.
std::string signature(const TapeField& json) {
  const std::string type(json.at("type").text());
  if (type == "Sequence") {
    std::string out;
    for (const TapeField& part : json.at("pretokenizers").items()) {
      out += cat(out.empty() ? "" : " + ", signature(part));
    }
    return out;
  }
  if (type == "Digits") return json.boolean("individual_digits", false) ? "Digits, each" : "Digits";
  if (type == "ByteLevel") return json.boolean("use_regex", true) ? "ByteLevel" : "bytes";
  if (type == "Split") {
    const TapeField pattern = json.at("pattern");
    const auto regex = pattern.find("Regex");
    return cat("Split ", regex ? regex->text() : pattern.at("String").text());
  }
  return type;
}

// Names in the order of likelihood: by the signature, then whatever llama.cpp knows, one name for each split.
std::vector<std::string> candidates(const std::string& signature, bool ignore_merges) {
  static const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ + bytes)";
  static const std::string head = R"(Split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  static const std::string older = R"(Split (?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))";
  std::vector<std::string> out;
  if (signature == "ByteLevel") out.emplace_back("gpt-2");
  if (signature == "Digits, each + ByteLevel") out.emplace_back("smollm");
  if (signature == cat(head, R"(\p{N}{1,3})", tail)) out.emplace_back(ignore_merges ? "llama-bpe" : "dbrx");
  if (signature == cat(head, R"(\p{N})", tail)) out.emplace_back("qwen2");
  for (const std::string_view name : gguf_pre_names()) {
    if (!name.empty() && std::find(out.begin(), out.end(), name) == out.end()) out.emplace_back(name);
  }
  return out;
}

// The mend of a tokenizer that a GGUF file cannot say.
constexpr const char* kKeep = "keep the model as safetensors";

class Maker {
 public:
  Maker(const fs::path& directory, std::int64_t vocab_size)
      : file_((directory / "tokenizer.json").string()),
        text_(io::read_text_file(file_).value()),
        json_(io::parse_tape(parser_, text_, file_, kCorrectFile)),
        tokenizer_(Tokenizer::from_directory(directory).value()),
        vocab_size_(vocab_size) {}

  GgufVocabulary make() {
    out_.where = file_;
    const TapeField model = json_.at("model");
    if (model.text("type", "BPE") != "BPE" || !model.find("merges")) {
      throw Failure(data_error(file_, "a tokenizer of type BPE, which a GGUF file can hold",
                               model.text("type", "another"), kKeep));
    }
    const bool byte_fallback = model.boolean("byte_fallback", false);
    put_tokens(byte_fallback);
    put_roles();
    put_templates();
    if (byte_fallback) {
      out_.model = "llama";
      out_.pre = "default";
      put_scores(model);
      settle_space_prefix();
    } else {
      out_.model = "gpt2";
      put_merges(model);
      settle_pre(model.boolean("ignore_merges", false));
    }
    return std::move(out_);
  }

 private:
  void put_tokens(bool byte_fallback) {
    const auto size = std::max<std::int64_t>(vocab_size_, tokenizer_.vocab_size());
    std::unordered_map<std::string, bool> added;  // content: special
    if (const auto rows = json_.find("added_tokens")) {
      for (const TapeField& token : rows->items()) {
        added[std::string(token.at("content").text())] = token.boolean("special", false);
      }
    }
    const std::string unknown = json_.at("model").text("unk_token", "");
    for (std::int64_t i = 0; i < size; ++i) {
      const auto id = static_cast<TokenId>(i);
      std::string piece(id < tokenizer_.vocab_size() ? tokenizer_.id_to_piece(id) : std::string_view());
      std::int32_t type = kNormal;
      if (piece.empty()) {
        piece = cat("[PAD", i, "]");
        type = kUnused;
      } else if (byte_fallback && piece == unknown) {
        type = kUnknown;
      } else if (const auto found = added.find(piece); found != added.end()) {
        type = found->second ? kControl : kUserDefined;
      } else if (byte_fallback && piece.size() == 6 && piece.starts_with("<0x") && piece.back() == '>') {
        type = kByte;
      }
      out_.tokens.push_back(std::move(piece));
      out_.token_types.push_back(type);
    }
  }

  // What the post-processor adds must be what a GGUF can say: BOS before, EOS after.
  void put_roles() {
    const TokenizerConfig& config = tokenizer_.config();
    const auto role = [&](const RoleToken& token) { return token.id >= 0 ? std::optional(token.id) : std::nullopt; };
    out_.bos_id = role(config.bos);
    out_.eos_id = role(config.eos);
    out_.unk_id = role(config.unk);
    out_.pad_id = role(config.pad);
    std::vector<TokenId> with = tokenizer_.encode("a", true);
    const std::vector<TokenId> without = tokenizer_.encode("a", false);
    out_.add_bos = with.size() > without.size() && config.bos.id >= 0 && with.front() == config.bos.id;
    if (*out_.add_bos) with.erase(with.begin());
    out_.add_eos = with.size() > without.size() && config.eos.id >= 0 && with.back() == config.eos.id;
    if (*out_.add_eos) with.pop_back();
    if (with != without) {
      throw Failure(json_.place()
                        .field("post_processor")
                        .error("one that adds bos_token before and eos_token after", "other tokens",
                               "name bos_token and eos_token in tokenizer_config.json"));
    }
  }

  void put_templates() {
    out_.chat_template = tokenizer_.config().chat_template;
    out_.named_chat_templates = tokenizer_.config().named_chat_templates;
  }

  template <typename Take>
  void each_merge(const TapeField& model, const Take& take) const {
    for (const simdjson::dom::element row : model.at("merges").array()) {
      std::string_view line;
      if (row.get(line) == simdjson::SUCCESS) {
        if (!line.starts_with("#version")) take(std::string(line));
        continue;
      }
      simdjson::dom::array pair;
      std::string_view left;
      std::string_view right;
      if (row.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
          pair.at(1).get(right) != simdjson::SUCCESS) {
        throw std::logic_error(file_ + ": a merge that the tokenizer took");
      }
      take(cat(left, " ", right));
    }
  }

  void put_merges(const TapeField& model) {
    each_merge(model, [&](std::string merge) { out_.merges.push_back(std::move(merge)); });
  }

  // sentencepiece merges the pair of the highest score: minus the rank of the first merge that makes a token.
  void put_scores(const TapeField& model) {
    std::unordered_map<std::string, float> ranks;
    float rank = 0;
    each_merge(model, [&](std::string merge) {
      merge.erase(merge.find(' '), 1);
      ranks.emplace(std::move(merge), rank);
      rank += 1;
    });
    for (std::size_t id = 0; id < out_.tokens.size(); ++id) {
      const auto found = ranks.find(out_.tokens[id]);
      const bool plain = out_.token_types[id] == kNormal;
      out_.scores.push_back(!plain ? 0.0F : found == ranks.end() ? -rank : -found->second);
    }
  }

  [[nodiscard]] bool gives_the_same_ids() const {
    const auto made = Tokenizer::from_gguf(out_);
    return made && made->encode(kProbe, true) == tokenizer_.encode(kProbe, true);
  }

  void settle_space_prefix() {
    for (const bool prefix : {true, false}) {
      out_.add_space_prefix = prefix;
      if (gives_the_same_ids()) return;
    }
    throw Failure(data_error(file_, "a tokenizer whose ids sentencepiece's way of merging gives", "other ids", kKeep));
  }

  void settle_pre(bool ignore_merges) {
    const auto pre = json_.find("pre_tokenizer");
    const std::string parts = pre ? signature(*pre) : "none";
    std::vector<std::vector<std::string>> tried;
    for (const std::string& name : candidates(parts, ignore_merges)) {
      const GgufPre* known = find_gguf_pre(name);
      if (known == nullptr || !known->bytes || known->ignore_merges != ignore_merges) continue;
      if (std::find(tried.begin(), tried.end(), known->patterns) != tried.end()) continue;
      tried.push_back(known->patterns);
      out_.pre = name;
      if (gives_the_same_ids()) return;
    }
    throw Failure(json_.place().field("pre_tokenizer").error("a split that llama.cpp knows", parts, kKeep));
  }

  std::string file_;
  std::string text_;
  simdjson::dom::parser parser_;
  TapeField json_;
  Tokenizer tokenizer_;
  std::int64_t vocab_size_;
  GgufVocabulary out_;
};

}  // namespace

Result<GgufVocabulary> make_gguf_vocabulary(const fs::path& directory, std::int64_t vocab_size) {
  return catching([&] { return Maker(directory, vocab_size).make(); });
}

void set_gguf_vocabulary(const GgufVocabulary& vocabulary, checkpoint::GgufMetadata& metadata) {
  const auto key = [](const char* name) { return cat("tokenizer.ggml.", name); };
  metadata.set(key("model"), vocabulary.model);
  if (!vocabulary.pre.empty()) metadata.set(key("pre"), vocabulary.pre);
  metadata.set(key("tokens"), vocabulary.tokens);
  if (!vocabulary.scores.empty()) metadata.set(key("scores"), vocabulary.scores);
  metadata.set(key("token_type"), vocabulary.token_types);
  if (!vocabulary.merges.empty()) metadata.set(key("merges"), vocabulary.merges);
  const auto id = [&](const char* name, const std::optional<TokenId>& value) {
    if (value) metadata.set(key(name), static_cast<std::uint32_t>(*value));
  };
  id("bos_token_id", vocabulary.bos_id);
  id("eos_token_id", vocabulary.eos_id);
  id("unknown_token_id", vocabulary.unk_id);
  id("padding_token_id", vocabulary.pad_id);
  const auto flag = [&](const char* name, const std::optional<bool>& value) {
    if (value) metadata.set(key(name), *value);
  };
  flag("add_bos_token", vocabulary.add_bos);
  flag("add_eos_token", vocabulary.add_eos);
  flag("add_space_prefix", vocabulary.add_space_prefix);
  if (!vocabulary.chat_template.empty()) metadata.set("tokenizer.chat_template", vocabulary.chat_template);
  std::vector<std::string> names;
  for (const auto& [name, source] : vocabulary.named_chat_templates) {
    names.push_back(name);
    metadata.set(cat("tokenizer.chat_template.", name), source);
  }
  if (!names.empty()) metadata.set("tokenizer.chat_templates", names);
}

}  // namespace tern::tokenizer
