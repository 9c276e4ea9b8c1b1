#include "server/openai/embeddings.h"

#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "io/json.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"
#include "server/texts_field.h"

namespace tern::server::openai {
namespace {

using io::Json;

std::string base64(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);  // as OpenAI's clients read it
  const std::size_t size = values.size() * sizeof(float);
  std::string out(4 * ((size + 2) / 3) + 1, '\0');
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes, static_cast<int>(size));
  out.resize(static_cast<std::size_t>(length));
  return out;
}

// The first numbers of a vector that was trained to be cut (Matryoshka), of length 1 again where it was.
void cut(std::vector<float>& values, std::int64_t dimensions, bool normalize) {
  values.resize(static_cast<std::size_t>(dimensions));
  if (!normalize) return;
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  for (float& value : values) value = static_cast<float>(value / std::sqrt(squares));
}

Json vector_json(const std::vector<float>& values, bool as_text) {
  if (as_text) return base64(values);
  Json out = Json::array();
  for (const float value : values) out.push_back(value);
  return out;
}

}  // namespace

void answer_embeddings(ChatService& service, const HttpRequest& request, HttpExchange& exchange) {
  JsonBody body(request.body);
  const auto model = body.text("model").value_or("");
  const AskedTexts asked = texts_fields(body);
  const std::string format = body.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") throw body.wrong("encoding_format", "float or base64");
  const auto dimensions = body.integer("dimensions", 1);
  body.finish();
  if (const auto refusal = service.not_the_model(model)) {
    refuse(exchange, refusal->error, refusal->status);
    return;
  }
  std::vector<engine::PooledText> pooled;
  bool normalize = true;
  service.run([&](engine::LLM& llm) {
    engine::EmbedOptions options = llm.default_pooling();
    normalize = options.normalize;
    const auto prompts = prompts_for(llm, asked, std::exchange(options.prompt, ""));
    pooled = llm.embed(prompts, options);
  });
  Json data = Json::array();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < pooled.size(); ++i) {
    if (pooled[i].error) throw Failure(pooled[i].error->inside(cat("field \"", asked.key, "[", i, "]\"")));
    if (const auto size = static_cast<std::int64_t>(pooled[i].values.size()); dimensions.value_or(0) > size) {
      throw body.wrong("dimensions", cat("at most ", size, ", as the model gives"));
    }
    if (dimensions) cut(pooled[i].values, *dimensions, normalize);
    Json one = Json::object();
    one["object"] = "embedding";
    one["index"] = i;
    one["embedding"] = vector_json(pooled[i].values, format == "base64");
    data.push_back(std::move(one));
    tokens += pooled[i].tokens;
  }
  Json out = Json::object();
  out["object"] = "list";
  out["data"] = std::move(data);
  out["model"] = service.model_names().front();
  out["usage"]["prompt_tokens"] = tokens;
  out["usage"]["total_tokens"] = tokens;
  exchange.respond(200, "application/json", out.dump());
}

}  // namespace tern::server::openai
