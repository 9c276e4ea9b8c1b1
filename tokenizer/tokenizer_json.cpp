// Reads tokenizer.json, the format of Hugging Face's `tokenizers`.
#include "tokenizer/tokenizer_json.h"

#include "base/strings.h"
#include "tokenizer/bpe.h"
#include "tokenizer/serde_number.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_models.h"

namespace tern::tokenizer {

namespace {

Vocabulary read_vocabulary(const TapeField& json) {
  Vocabulary vocabulary;
  const simdjson::dom::object members = json.object();
  vocabulary.reserve(members.size());
  for (const auto member : members) {
    std::int64_t id = 0;
    if (member.value.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) {
      throw Failure(json.place().error("token ids from 0 to 2147483647", cat("another value for \"", member.key, '"'),
                                       kCorrectFile));
    }
    vocabulary.emplace_back(std::string(member.key), static_cast<TokenId>(id));
  }
  return vocabulary;
}

BpeModel::Merges read_merges(const TapeField& json) {
  BpeModel::Merges merges;
  std::size_t index = 0;
  for (const simdjson::dom::element row : json.array()) {
    const std::size_t at = index++;
    std::string_view line;
    if (row.get(line) == simdjson::SUCCESS) {
      if (line.starts_with("#version")) continue;
      const std::size_t blank = line.find(' ');
      if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos) {
        throw json.item(row, at).wrong("two tokens with a space between");
      }
      merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
      continue;
    }
    simdjson::dom::array pair;
    std::string_view left;
    std::string_view right;
    if (row.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
        pair.at(1).get(right) != simdjson::SUCCESS) {
      throw json.item(row, at).wrong("two tokens");
    }
    merges.emplace_back(left, right);
  }
  return merges;
}

std::unique_ptr<TokenModel> read_bpe(const TapeField& json, bool wants_bytes) {
  BpeOptions options;
  if (const auto dropout = json.find("dropout"); dropout && dropout->number() != 0) {
    throw dropout->wrong("no dropout", "encoding would be random: set it to null");
  }
  if (const auto unk = json.find("unk_token")) options.unk_token = std::string(unk->text());
  options.continuing_subword_prefix = json.text("continuing_subword_prefix", "");
  options.end_of_word_suffix = json.text("end_of_word_suffix", "");
  options.fuse_unk = json.boolean("fuse_unk", false);
  options.byte_fallback = json.boolean("byte_fallback", false);
  options.ignore_merges = json.boolean("ignore_merges", false);
  options.wants_bytes = wants_bytes;
  return std::make_unique<BpeModel>(read_vocabulary(json.at("vocab")), read_merges(json.at("merges")),
                                    std::move(options), json.where());
}

// Files older than the "type" field are told apart by their other fields, in the reference's order.
std::string model_type(const TapeField& json) {
  if (const auto type = json.find("type")) return std::string(type->text());
  if (json.find("merges")) return "BPE";
  if (json.find("continuing_subword_prefix")) return "WordPiece";
  if (json.at("vocab").json().is_array()) return "Unigram";
  return "WordLevel";
}

std::unique_ptr<TokenModel> read_unigram(const TapeField& json) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  const TapeField rows = json.at("vocab");
  std::size_t index = 0;
  for (const simdjson::dom::element row : rows.array()) {
    simdjson::dom::array pair;
    std::string_view piece;
    double score = 0;
    if (row.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(piece) != simdjson::SUCCESS ||
        pair.at(1).get(score) != simdjson::SUCCESS) {
      throw rows.item(row, index).wrong("a piece and its score");
    }
    vocabulary.emplace_back(std::string(piece), static_cast<TokenId>(index++));
    scores.push_back(serde_number(score));
  }
  UnigramOptions options;
  if (const auto unk = json.find("unk_id")) {
    const std::int64_t id = unk->integer();
    options.unk_id = id >= 0 && id <= INT32_MAX ? static_cast<TokenId>(id) : -1;
  }
  options.byte_fallback = json.boolean("byte_fallback", false);
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options, json.where());
}

std::unique_ptr<TokenModel> read_word_piece(const TapeField& json) {
  WordPieceOptions options;
  options.unk_token = json.text("unk_token", options.unk_token);
  options.continuing_subword_prefix = json.text("continuing_subword_prefix", options.continuing_subword_prefix);
  if (const auto longest = json.find("max_input_chars_per_word")) {
    if (longest->integer() < 0) throw longest->wrong("a count of characters");
    options.max_input_chars_per_word = static_cast<std::size_t>(longest->integer());
  }
  return std::make_unique<WordPieceModel>(read_vocabulary(json.at("vocab")), std::move(options));
}

std::unique_ptr<TokenModel> read_model(const TapeField& json, bool wants_bytes) {
  const std::string type = model_type(json);
  if (type == "BPE") return read_bpe(json, wants_bytes);
  if (type == "Unigram") return read_unigram(json);
  if (type == "WordPiece") return read_word_piece(json);
  if (type == "WordLevel") {
    return std::make_unique<WordLevelModel>(read_vocabulary(json.at("vocab")), json.text("unk_token", "<unk>"));
  }
  throw Failure(
      json.place().error("a model of type BPE, Unigram, WordPiece or WordLevel", cat('"', type, '"'), kCorrectFile));
}

void read_added_tokens(const TapeField& json, TokenizerImpl& impl) {
  for (const TapeField& value : json.items()) {
    AddedToken token;
    token.content = std::string(value.at("content").text());
    token.special = value.boolean("special", false);
    token.single_word = value.boolean("single_word", false);
    token.lstrip = value.boolean("lstrip", false);
    token.rstrip = value.boolean("rstrip", false);
    token.normalized = value.boolean("normalized", !token.special);
    impl.add_token(std::move(token));
  }
}

}  // namespace

std::shared_ptr<TokenizerImpl> read_tokenizer_json(std::string_view text, const std::string& where) {
  simdjson::dom::parser parser;
  const TapeField json = io::parse_tape(parser, text, where, kCorrectFile);
  if (const auto version = json.find("version"); version && version->text() != "1.0")
    throw version->wrong("version \"1.0\"");
  auto impl = std::make_shared<TokenizerImpl>();
  impl->where = where;
  if (const auto part = json.find("normalizer")) read_normalizer(*part, impl->normalizers);
  const auto pre_tokenizer = json.find("pre_tokenizer");
  impl->model = read_model(json.at("model"), pre_tokenizer && ends_in_byte_level(*pre_tokenizer));
  const auto* bpe = dynamic_cast<const BpeModel*>(impl->model.get());
  if (pre_tokenizer) read_pre_tokenizer(*pre_tokenizer, bpe == nullptr || !bpe->takes_bytes(), impl->pre_tokenizers);
  if (const auto part = json.find("post_processor")) read_post_processor(*part, impl->post_processors);
  if (const auto part = json.find("decoder")) {
    read_decoder(*part, impl->decoders);
    impl->has_decoder = true;
  }
  if (const auto part = json.find("added_tokens")) read_added_tokens(*part, *impl);
  impl->finish();
  return impl;
}

}  // namespace tern::tokenizer
