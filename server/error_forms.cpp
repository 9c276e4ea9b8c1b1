#include "server/error_forms.h"

#include <array>
#include <utility>

#include "server/anthropic/messages_writer.h"
#include "server/kserve/infer_writer.h"
#include "server/ollama/answer_writer.h"
#include "server/openai/api_error.h"

namespace tern::server {
namespace {

struct ErrorForm {
  std::string_view prefix;  // of the paths
  ErrorWriter writer;
};
// The first that fits counts.
constexpr std::array kForms = {ErrorForm{"/v1/messages", anthropic::refuse}, ErrorForm{"/api/", ollama::refuse},
                               ErrorForm{"/v2/rerank", openai::refuse}, ErrorForm{"/v2", kserve::refuse}};

// Keeps what is written.
class KeptAnswer : public HttpExchange {
 public:
  void respond(int /*status*/, std::string_view type, std::string text, Headers /*headers*/) override {
    content_type = type;
    body = std::move(text);
  }
  void begin(int /*status*/, std::string_view /*content_type*/, Headers /*headers*/) override {}
  void send(std::string /*chunk*/) override {}
  void finish() override {}
  void abandon() override {}
  void on_gone(std::function<void()> /*gone*/) override {}

  std::string body, content_type;
};

}  // namespace

ErrorWriter error_form(std::string_view path) {
  for (const ErrorForm& form : kForms) {
    if (path.starts_with(form.prefix)) return form.writer;
  }
  return openai::refuse;
}

std::pair<std::string, std::string> http_error_body(int status, std::string_view message, std::string_view path) {
  KeptAnswer kept;
  error_form(path)(kept, failed_error(message, ""), status, {});
  return {std::move(kept.body), std::move(kept.content_type)};
}

}  // namespace tern::server
