#include "server/openai/chunk_stream.h"

#include <utility>

#include "base/strings.h"
#include "server/openai/answer_json.h"
#include "server/openai/api_error.h"
#include "server/sse.h"

namespace tern::server::openai {

using io::Json;

ChunkStream::ChunkStream(const WriterOptions& options, const char* object, std::shared_ptr<HttpExchange> exchange)
    : id_(options.id),
      model_(options.model),
      created_(options.created),
      include_usage_(options.stream.include_usage),
      object_(object),
      exchange_(std::move(exchange)) {}

Json ChunkStream::head(const char* object) const {
  Json out = Json::object();
  out["id"] = id_;
  out["object"] = object;
  out["created"] = created_;
  out["model"] = model_;
  return out;
}

void ChunkStream::begin() {
  if (std::exchange(begun_, true)) return;
  exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
}

void ChunkStream::send(const Json& chunk) {
  begin();
  exchange_->send(cat("data: ", chunk.dump(), "\n\n"));
}

void ChunkStream::send_choice(Json chunk, Json choice) {
  chunk["choices"].push_back(std::move(choice));
  send(chunk);
}

void ChunkStream::respond(const Json& whole) { exchange_->respond(200, "application/json", whole.dump()); }

void ChunkStream::finish(const TokenUsage& usage) {
  if (include_usage_) {
    Json chunk = head(object_);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_json(usage);
    send(chunk);
  }
  begin();
  exchange_->send("data: [DONE]\n\n");
  exchange_->finish();
}

void ChunkStream::fail(const Error& error, int status) {
  if (!begun_) {
    refuse(*exchange_, error, status);
    return;
  }
  exchange_->send(cat("data: ", error_body(error, status), "\n\ndata: [DONE]\n\n"));
  exchange_->finish();
}

}  // namespace tern::server::openai
