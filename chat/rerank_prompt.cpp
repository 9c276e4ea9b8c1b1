#include "chat/rerank_prompt.h"

#include "base/strings.h"

namespace tern::chat {
namespace {

constexpr std::string_view kBefore =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
constexpr std::string_view kAfter = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr const char* kOther = "choose a reranker of Qwen3's kind";

}  // namespace

Result<std::vector<std::int32_t>> rerank_prompt(const tokenizer::Tokenizer& tokenizer, const RerankPair& pair) {
  for (const std::string_view piece : {"<|im_start|>", "<|im_end|>"}) {
    if (tokenizer.piece_to_id(piece)) continue;
    return data_error("the tokenizer", cat("the token ", piece, ", which begins or ends what a reranker is asked"),
                      "none", kOther);
  }
  // Apart, as the model card does it: no token spans two parts.
  std::vector<std::int32_t> ids = tokenizer.encode(kBefore, false);
  const std::string asked = cat("<Instruct>: ", pair.instruction.value_or(std::string(kRetrieval)),
                                "\n<Query>: ", pair.query, "\n<Document>: ", pair.document);
  for (const auto& part : {tokenizer.encode(asked, false), tokenizer.encode(kAfter, false)})
    ids.insert(ids.end(), part.begin(), part.end());
  return ids;
}

Result<Verdicts> verdict_ids(const tokenizer::Tokenizer& tokenizer) {
  Verdicts out;
  for (const auto& [word, id] : {std::pair{"yes", &out.yes}, std::pair{"no", &out.no}}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(word, false);
    if (ids.size() != 1) {
      return data_error("the tokenizer", cat("one token for \"", word, "\", whose logit a reranker answers with"),
                        cat(ids.size(), " tokens"), kOther);
    }
    *id = ids.front();
  }
  return out;
}

}  // namespace tern::chat
