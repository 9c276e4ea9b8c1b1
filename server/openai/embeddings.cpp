#include "server/openai/embeddings.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "io/json.h"
#include "server/json_body.h"
#include "server/numbers_json.h"
#include "server/openai/api_error.h"
#include "server/texts_field.h"

namespace tern::server::openai {
namespace {

using io::Json;

// The first numbers of a vector that was trained to be cut (Matryoshka), of length 1 again where it was.
void cut(std::vector<float>& values, std::int64_t dimensions, bool normalize) {
  values.resize(static_cast<std::size_t>(dimensions));
  if (!normalize) return;
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  for (float& value : values) value = static_cast<float>(value / std::sqrt(squares));
}

struct EmbeddingsForm {
  std::string key;  // the field that the texts came by
  std::string model;
  bool as_text = false;
  std::optional<std::int64_t> dimensions;
  bool normalize = true;
};

std::string embeddings_body(std::vector<engine::PooledText>&& pooled, const EmbeddingsForm& form) {
  Json data = Json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < pooled.size(); ++i) {
    if (pooled[i].error) throw Failure(pooled[i].error->inside(cat("field \"", form.key, "[", i, "]\"")));
    if (const auto size = static_cast<std::int64_t>(pooled[i].values.size()); form.dimensions.value_or(0) > size) {
      throw Failure(data_error("field \"dimensions\"", cat("at most ", size, ", as the model gives"),
                               cat(*form.dimensions), "ask for fewer, or leave it out"));
    }
    if (form.dimensions) cut(pooled[i].values, *form.dimensions, form.normalize);
    Json one = Json::object();
    one["object"] = "embedding";
    one["index"] = i;
    one["embedding"] = numbers_json(pooled[i].values, form.as_text);
    data.push_back(std::move(one));
    tokens += pooled[i].tokens;
  }
  Json out = Json::object();
  out["object"] = "list";
  out["data"] = std::move(data);
  out["model"] = form.model;
  out["usage"]["prompt_tokens"] = tokens;
  out["usage"]["total_tokens"] = tokens;
  return out.dump();
}

}  // namespace

void answer_embeddings(ChatService& service, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange) {
  JsonBody body(request.body);
  const auto model = body.text("model").value_or("");
  const AskedTexts asked = texts_fields(body);
  const bool as_text = wants_base64(body);
  const auto dimensions = body.integer("dimensions", 1);
  body.finish();
  if (const auto refusal = service.not_the_model(model)) {
    refuse(*exchange, refusal->error, refusal->status);
    return;
  }
  const auto normalized = std::make_shared<bool>(true);
  service.pool(
      request, exchange,
      [asked, normalized](const engine::LLM& llm) {
        engine::EmbedOptions options = llm.default_pooling();
        *normalized = options.normalize;
        const auto prompts = prompts_for(llm, asked, std::exchange(options.prompt, ""));
        return llm.embedding(prompts, options);
      },
      [key = asked.key, model = service.model_names().front(), as_text, dimensions,
       normalized](std::vector<engine::PooledText>&& pooled) {
        return embeddings_body(std::move(pooled), {key, model, as_text, dimensions, *normalized});
      });
}

}  // namespace tern::server::openai
