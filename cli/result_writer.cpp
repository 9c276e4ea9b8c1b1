#include "cli/result_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iostream>

#include "base/strings.h"
#include "io/json.h"
#include "io/system_error.h"

namespace tern::cli {

using Json = io::Json;

namespace {

Json json_of(const engine::TokenLogprob& token, const tokenizer::Tokenizer& tokenizer) {
  return {{"token", tokenizer.id_to_piece(token.id)}, {"id", token.id}, {"logprob", token.logprob}};
}

Json messages_of(const engine::Dialogue& dialogue) {
  Json messages = Json::array();
  for (const auto& message : dialogue.messages) {
    Json json = {{"role", message.role}, {"content", message.content}};
    if (!message.members_json.empty()) {
      const Json further = io::parse_json(message.members_json, message.role).value();
      for (const auto& [key, value] : further.items()) json[key] = value;
    }
    messages.push_back(std::move(json));
  }
  return messages;
}

}  // namespace

std::string messages_json(const engine::Dialogue& dialogue) { return messages_of(dialogue).dump(); }
std::string images_json(const engine::Dialogue& dialogue) { return Json(dialogue.images).dump(); }

ResultLock::ResultLock(const std::optional<std::string>& path) {
  std::error_code error;
  if (!path || !std::filesystem::is_regular_file(*path, error)) return;
  fd_ = ::open(path->c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  throw Failure(failed_error(cat("another run is writing to ", *path), "wait until it ends, or choose another file"));
}

ResultLock::~ResultLock() {
  if (fd_ >= 0) ::close(fd_);
}

ResultWriter::ResultWriter(const Options& options, const tokenizer::Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer) {
  if (!options_.path) return;
  file_.open(*options_.path, std::ios::app);
  if (!file_) throw Failure(io::write_error(*options_.path, errno));
  lock_.emplace(options_.path);
}

void ResultWriter::write(const ResultRow& row) {
  const engine::Answer& answer = row.answer;
  Json logprobs;
  if (options_.logprobs && !answer.error) {
    logprobs["content"] = Json::array();
    for (const engine::DrawnToken& token : answer.tokens) {
      Json shown = json_of(token, tokenizer_);
      if (!token.top.empty()) shown["top_logprobs"] = Json::array();
      for (const engine::TokenLogprob& likely : token.top) shown["top_logprobs"].push_back(json_of(likely, tokenizer_));
      logprobs["content"].push_back(std::move(shown));
    }
  }
  write(row.prompt, row.label, {answer.text, std::move(logprobs)}, answer.error);
}

void ResultWriter::write(const engine::Dialogue& prompt, const std::string& label, Result made,
                         const std::optional<Error>& error) {
  Json result;
  result["response"] = error ? Json(nullptr) : std::move(made.response);
  result["labels"] = label.empty() ? Json(nullptr) : Json(label);
  result["logprobs"] = std::move(made.logprobs);
  result["messages"] = messages_of(prompt);
  if (!prompt.images.empty()) result["images"] = prompt.images;
  if (!prompt.tools_json.empty()) result["tools"] = io::parse_json(prompt.tools_json, "tools").value();
  if (error) result["error"] = error->line();
  std::ostream& out = options_.path ? file_ : std::cout;
  out << result.dump() << '\n' << std::flush;
  if (out) return;
  throw Failure(failed_error(cat("the answers could not be written to ", options_.path.value_or("standard output")),
                             "check the space left"));
}

}  // namespace tern::cli
