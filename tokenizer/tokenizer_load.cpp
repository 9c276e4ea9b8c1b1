// The ways to a Tokenizer.
#include "io/mapped_file.h"
#include "tokenizer/gguf/tokenizer_gguf.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/tokenizer_config.h"
#include "tokenizer/tokenizer_json.h"

namespace tern::tokenizer {

namespace {

std::string read_file(const std::filesystem::path& path) { return io::read_text_file(path).value(); }

// The model's own roles, where the configuration names none.
void keep_roles(const TokenizerConfig& model, TokenizerConfig& config) {
  if (config.bos.content.empty()) config.bos = model.bos;
  if (config.eos.content.empty()) config.eos = model.eos;
  if (config.unk.content.empty()) config.unk = model.unk;
  if (config.pad.content.empty()) config.pad = model.pad;
}

std::shared_ptr<TokenizerImpl> load_directory(const std::filesystem::path& directory,
                                              const std::vector<std::string>& new_special_tokens) {
  const auto exists = [&](const char* name) {
    std::error_code error;
    return std::filesystem::is_regular_file(directory / name, error);
  };
  TokenizerConfig config;
  const auto json_path = directory / "tokenizer_config.json";
  if (exists("tokenizer_config.json")) read_tokenizer_config(read_file(json_path), json_path.string(), config);
  const auto map_path = directory / "special_tokens_map.json";
  if (exists("special_tokens_map.json")) read_special_tokens_map(read_file(map_path), map_path.string(), config);
  if (exists("chat_template.jinja")) config.chat_template = read_file(directory / "chat_template.jinja");
  const auto processors = directory / "chat_template.json";  // of models that also see
  if (config.chat_template.empty() && exists("chat_template.json"))
    read_tokenizer_config(read_file(processors), processors.string(), config);
  std::shared_ptr<TokenizerImpl> impl;
  if (exists("tokenizer.json")) {
    const auto path = directory / "tokenizer.json";
    impl = read_tokenizer_json(read_file(path), path.string());
  } else if (exists("tokenizer.model")) {
    const auto path = directory / "tokenizer.model";
    const SentencePieceFile file = parse_sentencepiece(read_file(path), path.string());
    impl = make_sentencepiece_tokenizer(file, config, path.string());
    keep_roles(impl->config, config);
  } else if (exists("sentencepiece.bpe.model") && config.tokenizer_class.starts_with("XLMRoberta")) {
    const auto path = directory / "sentencepiece.bpe.model";
    const SentencePieceFile file = with_fairseq_ids(parse_sentencepiece(read_file(path), path.string()), path.string());
    impl = make_sentencepiece_tokenizer(file, config, path.string());
    keep_roles(impl->config, config);
  } else {
    throw Failure(data_error(directory.string(), "tokenizer.json or tokenizer.model", "neither",
                             "name a model directory that has its tokenizer's files"));
  }
  impl->config = std::move(config);
  if (!new_special_tokens.empty() && !exists("tokenizer.json")) {
    throw Failure(data_error(directory.string(), "tokenizer.json, which can get new special tokens",
                             "a SentencePiece model alone",
                             "save the tokenizer with transformers, which writes tokenizer.json, or drop the flag"));
  }
  if (!new_special_tokens.empty()) impl->add_special_tokens(new_special_tokens);
  impl->resolve_roles();
  return impl;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_directory(const std::filesystem::path& directory,
                                            const std::vector<std::string>& new_special_tokens) {
  return catching([&] { return Tokenizer(load_directory(directory, new_special_tokens)); });
}

Result<Tokenizer> Tokenizer::from_json(std::string_view json, std::string where) {
  return catching([&] { return Tokenizer(read_tokenizer_json(json, where)); });
}

Result<Tokenizer> Tokenizer::from_sentencepiece(std::string_view model, std::string where) {
  return catching([&] {
    return Tokenizer(make_sentencepiece_tokenizer(parse_sentencepiece(model, where), TokenizerConfig{}, where));
  });
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return catching([&] { return Tokenizer(make_gguf_tokenizer(vocabulary)); });
}

}  // namespace tern::tokenizer
