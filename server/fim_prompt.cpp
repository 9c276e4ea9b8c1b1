#include "server/fim_prompt.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/fim_tokens.h"

namespace tern::server {
namespace {

constexpr const char* kProject = "myproject\n";  // llama.cpp's, as it knows no name either
constexpr const char* kFile = "filename\n";
constexpr const char* kSnippet = "\n\n--- snippet ---\n\n";

void append(engine::TokenIds& out, const engine::TokenIds& more) { out.insert(out.end(), more.begin(), more.end()); }

}  // namespace

Result<FimPrompt> fim_prompt(const tokenizer::Tokenizer& tokenizer, const FimRequest& request) {
  const auto tokens = tokenizer::fim_tokens(tokenizer);
  if (!tokens) {
    return data_error("model", "one that was trained to fill gaps, as code models are",
                      "one without tokens for a prefix, a suffix and a middle",
                      "ask it to go on with a text, or serve a model like Qwen2.5-Coder");
  }
  const auto text = [&](const std::string& part) { return tokenizer.encode(part, false, false); };
  engine::TokenIds files;
  if (!request.files.empty()) {
    if (tokens->repository) {
      files.push_back(*tokens->repository);
      append(files, text(kProject));
    }
    for (const FimFile& file : request.files) {
      if (tokens->separator) {
        files.push_back(*tokens->separator);
        append(files, text(cat(file.name, "\n")));
      } else {
        append(files, text(kSnippet));
      }
      append(files, text(file.text));
    }
    if (tokens->separator) {
      files.push_back(*tokens->separator);
      append(files, text(kFile));
    }
  }
  engine::TokenIds prefix{tokens->prefix}, suffix{tokens->suffix};
  append(prefix, text(request.prefix));
  append(suffix, text(request.suffix));
  FimPrompt out;
  const engine::TokenIds around = tokenizer.encode("", true);
  if (!around.empty() && around.front() == tokenizer.config().bos.id) out.ids.push_back(around.front());
  if (request.most_tokens > 0) {
    const auto room =
        request.most_tokens - static_cast<std::int64_t>(out.ids.size() + prefix.size() + suffix.size() + 1);
    const auto more = static_cast<std::int64_t>(files.size()) - std::max<std::int64_t>(room, 0);
    if (more > 0) files.erase(files.begin(), files.begin() + more);
  }
  append(out.ids, files);
  append(out.ids, tokens->middle ? prefix : suffix);
  append(out.ids, tokens->middle ? suffix : prefix);
  if (tokens->middle) out.ids.push_back(*tokens->middle);
  out.stop_token_ids = tokens->ends;
  return out;
}

}  // namespace tern::server
