// The answers of tern infer as rows of JSON.
#pragma once

#include <fstream>
#include <optional>
#include <string>

#include "engine/llm.h"
#include "io/json.h"

namespace tern::cli {

struct ResultRow {
  const engine::Dialogue& prompt;
  const std::string& label;  // the answer that the row came with; "": none
  const engine::Answer& answer;
};

// The dialogue's messages, and its images, as rows have them: arrays of JSON.
[[nodiscard]] std::string messages_json(const engine::Dialogue& dialogue);
[[nodiscard]] std::string images_json(const engine::Dialogue& dialogue);

// Keeps other runs of tern from writing a file at the same time.
class ResultLock {
 public:
  // Throws Failure where another run has it. What is no plain file, or lies where there are no locks, is not locked.
  explicit ResultLock(const std::optional<std::string>& path);
  ~ResultLock();
  ResultLock(const ResultLock&) = delete;
  ResultLock& operator=(const ResultLock&) = delete;

 private:
  int fd_ = -1;
};

class ResultWriter {
 public:
  struct Options {
    std::optional<std::string> path;  // none: standard output
    bool logprobs = false;            // of each token
  };
  // Rows join those that the file has. Throws Failure where it cannot be written, or another run writes it. `tokenizer`
  // outlives the writer.
  ResultWriter(const Options& options, const tokenizer::Tokenizer& tokenizer);

  // {"response", "labels", "logprobs", "messages"}, "images" and "tools" where there are any, and "error" where there
  // is no answer: `response` is then null. Throws Failure where the row could not be written.
  void write(const ResultRow& row);
  // The same of what a task made of the row.
  struct Result {
    io::Json response;
    io::Json logprobs;
  };
  void write(const engine::Dialogue& prompt, const std::string& label, Result result,
             const std::optional<Error>& error);

 private:
  Options options_;
  const tokenizer::Tokenizer& tokenizer_;
  std::ofstream file_;
  std::optional<ResultLock> lock_;
};

}  // namespace tern::cli
