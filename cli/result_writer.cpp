#include "cli/result_writer.h"

#include <cerrno>
#include <iostream>

#include "base/strings.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::cli {

using Json = io::Json;

ResultWriter::ResultWriter(const Options& options, const tokenizer::Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  if (!options_.path) return;
  file_.open(*options_.path, std::ios::app);
  if (!file_) throw Failure(io::write_error(*options_.path, errno));
}

void ResultWriter::write(const ResultRow& row) {
  const engine::Answer& answer = row.answer;
  Json logprobs;
  if (options_.logprobs && !answer.error) {
    logprobs["content"] = Json::array();
    for (const engine::DrawnToken& token : answer.tokens) {
      logprobs["content"].push_back(
          {{"token", tokenizer_.id_to_piece(token.id)}, {"id", token.id}, {"logprob", token.logprob}});
    }
  }
  Json messages = Json::array();
  for (const auto& message : row.prompt.messages) {
    Json json = {{"role", message.role}, {"content", message.content}};
    if (!message.members_json.empty()) {
      const Json further = io::parse_json(message.members_json, message.role).value();
      for (const auto& [key, value] : further.items()) json[key] = value;
    }
    messages.push_back(std::move(json));
  }
  Json result;
  result["response"] = answer.error ? Json(nullptr) : Json(answer.text);
  result["labels"] = row.label.empty() ? Json(nullptr) : Json(row.label);
  result["logprobs"] = std::move(logprobs);
  result["messages"] = std::move(messages);
  if (!row.prompt.tools_json.empty()) result["tools"] = io::parse_json(row.prompt.tools_json, "tools").value();
  if (answer.error) result["error"] = answer.error->line();
  std::ostream& out = options_.path ? file_ : std::cout;
  out << result.dump() << '\n' << std::flush;
  if (out) return;
  throw Failure(failed_error(cat("the answers could not be written to ", options_.path.value_or("standard output")),
                             "check the space left"));
}

}  // namespace tern::cli
