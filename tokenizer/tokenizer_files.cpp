#include "tokenizer/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/strings.h"
#include "io/file_writer.h"
#include "io/json.h"
#include "tokenizer/gguf/tokenizer_gguf.h"

namespace tern::tokenizer {
namespace {

namespace fs = std::filesystem;
using Json = io::Json;

constexpr std::array kCompanions = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model",       "chat_template.jinja",     "chat_template.json"};

// token_type of a GGUF's tokens.
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;

// The split expressions of the vocabularies that name themselves in tokenizer.ggml.pre, as their own tokenizer.json
// files hold them.
constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json split_then_bytes(const char* expression) {
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

Json pre_tokenizer(const GgufVocabulary& vocabulary) {
  const std::string& pre = vocabulary.pre;
  if (pre == "smollm") {
    return {{"type", "Sequence"},
            {"pretokenizers", Json::array({Json{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)})}};
  }
  if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") return split_then_bytes(kLlama3Split);
  if (pre == "qwen2") return split_then_bytes(kQwen2Split);
  if (pre == "gpt-2" || pre == "default" || pre.empty()) return byte_level(true);
  throw Failure(data_error(cat(vocabulary.where, ": key \"tokenizer.ggml.pre\""),
                           "smollm, llama-bpe, qwen2 or gpt-2, whose tokenizer.json can be written", pre,
                           "put the model's own tokenizer.json beside the result"));
}

// As tokenizer.json has it; the id stands before it there, and is its key in tokenizer_config.json.
Json added_token(const std::string& content, bool is_special) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", is_special}};
}
Json with_id(TokenId id, const Json& token) {
  Json out = {{"id", id}};
  for (const auto& [key, value] : token.items()) out.append(key, value);
  return out;
}

Json added_tokens(const GgufVocabulary& vocabulary) {
  Json added = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size() && id < vocabulary.token_types.size(); ++id) {
    const std::int32_t type = vocabulary.token_types[id];
    if (type != kControl && type != kUserDefined) continue;
    added.push_back(with_id(static_cast<TokenId>(id), added_token(vocabulary.tokens[id], type == kControl)));
  }
  return added;
}

Json tokenizer_json(const GgufVocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") {
    throw Failure(data_error(cat(vocabulary.where, ": key \"tokenizer.ggml.model\""),
                             "gpt2, the byte-level kind whose tokenizer.json can be written", vocabulary.model,
                             "put the model's own tokenizer.json beside the result"));
  }
  Json vocab = Json::object();
  std::unordered_set<std::string_view> known;  // of a token that stands there twice the first id counts
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (known.insert(vocabulary.tokens[id]).second) vocab.append(vocabulary.tokens[id], id);
  }
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", vocabulary.pre == "llama-bpe"}};
  model["vocab"] = std::move(vocab);
  model["merges"] = vocabulary.merges;
  Json post = byte_level(true);
  if (vocabulary.add_bos.value_or(false) && vocabulary.bos_id) {
    const std::string& bos = vocabulary.tokens.at(static_cast<std::size_t>(*vocabulary.bos_id));
    const Json first = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
    const auto sequence = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
    const Json second = {{"SpecialToken", {{"id", bos}, {"type_id", 1}}}};
    post = {{"type", "TemplateProcessing"},
            {"single", Json::array({first, sequence("A", 0)})},
            {"pair", Json::array({first, sequence("A", 0), second, sequence("B", 1)})},
            {"special_tokens",
             {{bos, {{"id", bos}, {"ids", Json::array({*vocabulary.bos_id})}, {"tokens", Json::array({bos})}}}}}};
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer(vocabulary)},
          {"post_processor", std::move(post)},
          {"decoder", byte_level(true)},
          {"model", std::move(model)}};
}

Json tokenizer_config(const GgufVocabulary& vocabulary) {
  Json config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["add_bos_token"] = vocabulary.add_bos.value_or(false);
  config["clean_up_tokenization_spaces"] = false;
  const auto role = [&](const char* key, const std::optional<TokenId>& id) {
    if (id && static_cast<std::size_t>(*id) < vocabulary.tokens.size())
      config[key] = vocabulary.tokens[static_cast<std::size_t>(*id)];
  };
  role("bos_token", vocabulary.bos_id);
  role("eos_token", vocabulary.eos_id);
  role("unk_token", vocabulary.unk_id);
  role("pad_token", vocabulary.pad_id);
  if (!vocabulary.chat_template.empty()) config["chat_template"] = vocabulary.chat_template;
  return config;
}

void copy_companions(const fs::path& model, const fs::path& directory) {
  for (const char* name : kCompanions) {
    if (!fs::exists(model / name)) continue;
    std::error_code error;
    fs::copy_file(model / name, directory / name, fs::copy_options::overwrite_existing, error);
    if (error)
      throw Failure(failed_error(
          cat("cannot copy ", (model / name).string(), " to ", (directory / name).string(), ": ", error.message()),
          "check the folder and the disk"));
  }
}

void list_special_tokens(const std::vector<std::string>& contents, Json& json) {
  // transformers 5 has another name for the list.
  const char* const key = json.contains("extra_special_tokens") && json["extra_special_tokens"].is_array()
                              ? "extra_special_tokens"
                              : "additional_special_tokens";
  Json& list = json[key];
  for (const std::string& content : contents) {
    const bool is_listed = std::any_of(list.begin(), list.end(), [&](const Json& each) {
      return each == content || (each.is_object() && each.contains("content") && each["content"] == content);
    });
    if (!is_listed) list.push_back(content);
  }
}

// The directory's tokenizer has them, but for its files.
void add_to_files(const std::vector<std::string>& contents, const Tokenizer& tokenizer, const fs::path& directory) {
  Json file = io::read_json_file(directory / "tokenizer.json").value();
  Json& added = file["added_tokens"];
  std::vector<std::pair<TokenId, Json>> fresh;
  for (const std::string& content : contents) {
    const auto is_it = [&](const Json& each) { return each["content"] == content; };
    if (std::any_of(added.begin(), added.end(), is_it)) continue;
    fresh.emplace_back(tokenizer.piece_to_id(content).value(), added_token(content, true));
    added.push_back(with_id(fresh.back().first, fresh.back().second));
  }
  io::write_file(directory / "tokenizer.json", io::write_json(file)).value();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!fs::exists(directory / name)) continue;
    Json json = io::read_json_file(directory / name).value();
    list_special_tokens(contents, json);
    if (json.contains("added_tokens_decoder")) {
      for (const auto& [id, token] : fresh) json["added_tokens_decoder"][cat(id)] = token;
    }
    io::write_file(directory / name, io::write_json(json)).value();
  }
}

}  // namespace

Status write_tokenizer_files(const fs::path& model, const fs::path& directory,
                             const std::vector<std::string>& new_special_tokens) {
  return catching([&] {
    if (fs::is_directory(model)) {
      copy_companions(model, directory);
      if (!new_special_tokens.empty()) {
        add_to_files(new_special_tokens, Tokenizer::from_directory(model, new_special_tokens).value(), directory);
      }
      return Unit{};
    }
    const checkpoint::Gguf gguf = checkpoint::Gguf::open(model).value();
    GgufVocabulary vocabulary = read_gguf_vocabulary(gguf).value();
    add_special_tokens(vocabulary, new_special_tokens);
    io::write_file(directory / "tokenizer.json", io::write_json(tokenizer_json(vocabulary))).value();
    io::write_file(directory / "tokenizer_config.json", io::write_json(tokenizer_config(vocabulary))).value();
    return Unit{};
  });
}

}  // namespace tern::tokenizer
