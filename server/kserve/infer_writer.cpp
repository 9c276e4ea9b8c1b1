#include "server/kserve/infer_writer.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "server/sse.h"

namespace tern::server::kserve {
namespace {

using io::Json;
using Form = WriterOptions::Form;

void put_word(std::string& out, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift & 0xFFU);
}

Json error_json(const Error& error) {
  Json out = Json::object();
  out["error"] = error.line();
  return out;
}

const char* reason_of(StopKind kind) {
  switch (kind) {
    case StopKind::length:
      return "length";
    case StopKind::aborted:
      return "abort";
    default:
      return "stop";
  }
}

// A tensor's numbers or texts.
struct OutputValues {
  const char* datatype = "BYTES";
  std::vector<std::string> texts;
  std::vector<float> reals;
  std::vector<std::uint32_t> counts;

  [[nodiscard]] std::size_t size() const { return texts.size() + reals.size() + counts.size(); }
  [[nodiscard]] Json list() const {
    Json out = Json::array();
    for (const std::string& text : texts) out.push_back(text);
    for (const float real : reals) out.push_back(real);
    for (const std::uint32_t count : counts) out.push_back(count);
    return out;
  }
  // Little-endian; of BYTES each with its length before it.
  [[nodiscard]] std::string bytes() const {
    std::string out;
    for (const std::string& text : texts) {
      put_word(out, static_cast<std::uint32_t>(text.size()));
      out += text;
    }
    for (const float real : reals) put_word(out, std::bit_cast<std::uint32_t>(real));
    for (const std::uint32_t count : counts) put_word(out, count);
    return out;
  }
};

class Writer : public AnswerSink {
 public:
  Writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange)
      : options_(std::move(options)), exchange_(std::move(exchange)) {
    answers_.resize(static_cast<std::size_t>(options_.n));
    for (Said& answer : answers_) answer.text = options_.prompt;
  }

  void piece(AnswerPiece&& piece) override {
    Said& said = answers_[static_cast<std::size_t>(piece.choice)];
    said.tokens += static_cast<std::uint32_t>(piece.tokens.size());
    if (!options_.stream) {
      said.text += piece.text;
    } else if (!piece.text.empty()) {
      Json event = head();
      event["text_output"] = std::move(piece.text);
      send(event);
    }
  }

  void ended(const AnswerEnd& end) override { answers_[static_cast<std::size_t>(end.choice)].end = end; }

  void finished(const TokenUsage& usage) override {
    prompt_tokens_ = static_cast<std::uint32_t>(usage.prompt_tokens);
    switch (options_.form) {
      case Form::infer:
        return respond_tensors();
      case Form::generate:
        exchange_->respond(200, "application/json", fields().dump());
        return;
      case Form::generate_stream:
        if (!options_.stream || options_.outputs.size() > 1) send(fields());
        begin();
        exchange_->finish();
    }
  }

  void failed(const Error& error, int status) override {
    if (!begun_) {
      refuse(*exchange_, error, status);
      return;
    }
    send(error_json(error));
    exchange_->finish();
  }

 private:
  struct Said {
    std::string text;
    std::uint32_t tokens = 0;
    AnswerEnd end;
  };

  void begin() {
    if (!std::exchange(begun_, true)) exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
  }

  void send(const Json& event) {
    begin();
    exchange_->send(cat("data: ", event.dump(), "\n\n"));
  }

  [[nodiscard]] Json head() const {
    Json out = Json::object();
    if (!options_.id.empty()) out["id"] = options_.id;
    out["model_name"] = options_.model;
    out["model_version"] = kModelVersion;
    return out;
  }

  [[nodiscard]] OutputValues values_of(const std::string& name) const {
    OutputValues out;
    if (name == "num_input_tokens") {
      out.datatype = "UINT32";
      out.counts.push_back(prompt_tokens_);
      return out;
    }
    for (const Said& said : answers_) {
      if (name == "text_output") {
        out.texts.push_back(options_.stream ? "" : said.text);
      } else if (name == "finish_reason") {
        out.texts.emplace_back(reason_of(said.end.kind));
      } else if (name == "num_output_tokens") {
        out.datatype = "UINT32";
        out.counts.push_back(said.tokens);
      } else {
        out.datatype = "FP32";
        out.reals.push_back(static_cast<float>(said.end.mean_logprob * said.tokens));
      }
    }
    return out;
  }

  // As Triton's generate extension has them: a tensor of one element is that element.
  [[nodiscard]] Json fields() const {
    Json out = head();
    for (const OutputWish& wish : options_.outputs) {
      const Json list = values_of(wish.name).list();
      out[wish.name] = list.size() == 1 ? list[0] : list;
    }
    return out;
  }

  void respond_tensors() {
    Json out = head();
    Json tensors = Json::array();
    std::string binary;
    bool any = false;
    for (const OutputWish& wish : options_.outputs) {
      const OutputValues values = values_of(wish.name);
      Json tensor = Json::object();
      tensor["name"] = wish.name;
      tensor["datatype"] = values.datatype;
      tensor["shape"] = Json::array();
      tensor["shape"].push_back(values.size());
      if (wish.binary) {
        any = true;
        const std::string bytes = values.bytes();
        tensor["parameters"]["binary_data_size"] = bytes.size();
        binary += bytes;
      } else {
        tensor["data"] = values.list();
      }
      tensors.push_back(std::move(tensor));
    }
    out["outputs"] = std::move(tensors);
    const std::string json = out.dump();
    if (!any) return exchange_->respond(200, "application/json", json);
    exchange_->respond(200, "application/octet-stream", json + binary,
                       {{"Inference-Header-Content-Length", std::to_string(json.size())}});
  }

  WriterOptions options_;
  std::shared_ptr<HttpExchange> exchange_;
  std::vector<Said> answers_;
  std::uint32_t prompt_tokens_ = 0;
  bool begun_ = false;
};

}  // namespace

std::shared_ptr<AnswerSink> infer_writer(WriterOptions options, std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Writer>(std::move(options), std::move(exchange));
}

void refuse(HttpExchange& exchange, const Error& error, int status, Headers headers) {
  if (status == 429 || status == 503) headers.emplace_back("Retry-After", "1");
  exchange.respond(status, "application/json", error_json(error).dump(), std::move(headers));
}

}  // namespace tern::server::kserve
