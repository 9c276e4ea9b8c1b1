#include <mutex>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "server/llamacpp/infill.h"
#include "server/openai/api_error.h"
#include "server/sse.h"

namespace tern::server::llamacpp {
namespace {

using io::Json;

Json timings_json(std::int64_t prompt, double prompt_ms, std::int64_t predicted, double predicted_ms) {
  Json out = Json::object();
  const auto put = [&](const std::string& name, std::int64_t tokens, double ms) {
    out[name + "_n"] = tokens;
    out[name + "_ms"] = ms;
    out[name + "_per_token_ms"] = tokens > 0 ? ms / static_cast<double>(tokens) : 0.0;
    out[name + "_per_second"] = ms > 0 ? 1e3 * static_cast<double>(tokens) / ms : 0.0;
  };
  put("prompt", prompt, prompt_ms);
  put("predicted", predicted, predicted_ms);
  return out;
}

class Writer : public InfillWriter {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), exchange_(std::move(exchange)), begin_(options_.clock()), first_(begin_) {}

  void ends_by(std::function<void()> stop) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!over_) {
        stop_ = std::move(stop);
        return;
      }
    }
    stop();
  }

  void piece(AnswerPiece&& piece) override {
    if (!std::exchange(begun_drawing_, true)) first_ = options_.clock();
    if (cut_ || options_.silent) return;
    std::string shown;
    for (const char c : piece.text) {
      if (!take(c, shown)) break;
    }
    const bool late =
        options_.most_ms > 0 && has_new_line_ && options_.clock() - first_ > milliseconds(options_.most_ms);
    if (late && !cut_) {
      shown += std::exchange(held_, {});
      cut_ = true;
    }
    show(std::move(shown));
    if (cut_) end_early();
  }

  void ended(const AnswerEnd& end) override {
    end_ = end;
    if (!cut_) show(std::exchange(held_, {}));
  }

  void finished(const TokenUsage& usage) override {
    forget_stop();
    Json out = whole(usage);
    if (options_.stream) {
      send(out);
      exchange_->finish();
    } else {
      exchange_->respond(200, "application/json", chosen(out).dump());
    }
  }

  void failed(const Error& error, int status) override {
    forget_stop();
    if (!streaming_) {
      openai::refuse(*exchange_, error, status);
      return;
    }
    exchange_->send(cat("data: ", openai::error_body(error, status), "\n\n"));
    exchange_->finish();
  }

 private:
  using milliseconds = std::chrono::milliseconds;

  // Holds a line back until its blanks are known to be enough. False: it ends the answer.
  bool take(char c, std::string& shown) {
    const bool blank = c == ' ' || c == '\t';
    if (!held_.empty()) {
      if (blank) {
        held_ += c;
        return true;
      }
      const std::string line = std::exchange(held_, {});
      cut_ = static_cast<std::int64_t>(line.size()) - 1 < options_.n_indent;
      if (cut_) return false;
      shown += line;
    }
    (c == '\n' && options_.n_indent > 0 ? held_ : shown) += c;
    has_new_line_ = has_new_line_ || c == '\n';
    return true;
  }

  void show(std::string text) {
    content_ += text;
    if (!options_.stream || text.empty()) return;
    Json out = Json::object();
    out["index"] = 0;
    out["content"] = std::move(text);
    out["tokens"] = Json::array();
    out["stop"] = false;
    out["id_slot"] = -1;
    send(out);
  }

  void send(const Json& event) {
    if (!std::exchange(streaming_, true)) exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
    exchange_->send(cat("data: ", event.dump(), "\n\n"));
  }

  void end_early() {
    std::function<void()> stop;
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
      stop = std::exchange(stop_, nullptr);
    }
    if (stop) stop();
  }

  // What the request is ended by keeps it, and the request keeps this.
  void forget_stop() {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    stop_ = nullptr;
  }

  [[nodiscard]] const char* stop_type() const {
    if (cut_ || end_.kind == StopKind::length) return "limit";
    if (!end_.stop_text.empty()) return "word";
    return end_.kind == StopKind::aborted ? "none" : "eos";
  }

  Json whole(const TokenUsage& usage) {
    const auto ms = [](std::chrono::nanoseconds time) {
      return std::chrono::duration<double, std::milli>(time).count();
    };
    const std::int64_t predicted = options_.silent ? 0 : usage.completion_tokens;
    Json out = Json::object();
    out["index"] = 0;
    out["content"] = options_.stream ? std::string() : content_;
    out["tokens"] = Json::array();
    out["id_slot"] = -1;
    out["stop"] = true;
    out["model"] = options_.model;
    out["tokens_predicted"] = predicted;
    out["tokens_evaluated"] = usage.prompt_tokens;
    out["has_new_line"] = content_.find('\n') != std::string::npos;
    out["truncated"] = false;
    out["stop_type"] = options_.silent ? "limit" : stop_type();
    out["stopping_word"] = end_.stop_text;
    out["tokens_cached"] = usage.cached_tokens;
    out["timings"] = timings_json(usage.prompt_tokens - usage.cached_tokens, ms(first_ - begin_), predicted,
                                  options_.silent ? 0 : ms(options_.clock() - first_));
    return out;
  }

  // The fields that are asked for; one below another stands beside the others, under its whole path.
  [[nodiscard]] Json chosen(const Json& whole) const {
    if (!options_.fields) return whole;
    Json out = Json::object();
    for (const std::string& path : *options_.fields) {
      const Json* at = &whole;
      for (const std::string_view key : split(path, '/')) {
        at = at != nullptr && at->is_object() ? at->find(key) : nullptr;
      }
      if (at != nullptr && at != &whole) out[path] = *at;
    }
    return out;
  }

  WriterOptions options_;
  std::shared_ptr<HttpExchange> exchange_;
  std::chrono::nanoseconds begin_, first_;
  bool begun_drawing_ = false, streaming_ = false;
  std::string content_;
  std::string held_;  // a line's end and the blanks that follow it
  bool has_new_line_ = false;
  bool cut_ = false;  // the answer is over, whatever else is drawn
  AnswerEnd end_;
  std::mutex mutex_;
  bool over_ = false;
  std::function<void()> stop_;
};

}  // namespace

std::shared_ptr<InfillWriter> infill_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

}  // namespace tern::server::llamacpp
