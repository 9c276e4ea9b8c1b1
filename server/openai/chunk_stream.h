// How OpenAI's two answers go out: whole, or as chunks that end with [DONE].
#pragma once

#include <memory>

#include "io/json.h"
#include "server/chat_sink.h"
#include "server/http.h"
#include "server/openai/chat_completions.h"

namespace tern::server::openai {

class ChunkStream {
 public:
  // `object` is what a chunk says that it is.
  ChunkStream(const WriterOptions& options, const char* object, std::shared_ptr<HttpExchange> exchange);

  // What an answer begins with: id, object, created, model.
  [[nodiscard]] io::Json head(const char* object) const;
  // What each of its chunks begins with.
  [[nodiscard]] io::Json head() const { return head(object_); }
  // A chunk with one choice; `chunk` is its head, with what else stands there.
  void send_choice(io::Json chunk, io::Json choice);
  void respond(const io::Json& whole);
  // The usage, where it is asked for, and [DONE].
  void finish(const TokenUsage& usage);
  // As the whole answer, or behind the chunks that have gone out.
  void fail(const Error& error, int status);

 private:
  void begin();
  void send(const io::Json& chunk);

  std::string id_, model_;
  std::int64_t created_;
  bool include_usage_;
  const char* object_;
  std::shared_ptr<HttpExchange> exchange_;
  bool begun_ = false;
};

}  // namespace tern::server::openai
