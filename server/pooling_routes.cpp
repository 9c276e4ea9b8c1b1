#include "server/pooling_routes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "models/config.h"
#include "server/ids.h"
#include "server/json_answer.h"
#include "server/json_body.h"
#include "server/openai/api_error.h"
#include "server/texts_field.h"

namespace tern::server {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

// The end of the body: no field is left, and `model` is the one that is served. False: that was refused.
bool is_for_us(const ChatService& service, JsonBody& body, HttpExchange& exchange) {
  const std::string model = body.text("model").value_or("");
  body.finish();
  const auto refusal = service.not_the_model(model);
  if (refusal) openai::refuse(exchange, refusal->error, refusal->status);
  return !refusal;
}

void require_plain_numbers(JsonBody& body) {
  if (body.text("encoding_format").value_or("float") != "float") throw body.wrong("encoding_format", "float");
}

// Whether the outputs are to be probabilities, or the like; none: as the model has it. vLLM's name, and its older ones.
std::optional<bool> use_activation(JsonBody& body) {
  std::optional<bool> told;
  for (const char* key : {"use_activation", "activation", "softmax"}) {
    const auto given = body.boolean(key);
    if (given && told && given != told) throw body.wrong(key, "the same as the newer use_activation");
    if (given) told = given;
  }
  return told;
}

// Throws the first text's error, which says which one it is.
std::int64_t require_all(const std::vector<engine::PooledText>& texts, std::string_view key) {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].error) throw Failure(texts[i].error->inside(cat("field \"", key, "[", i, "]\"")));
    tokens += texts[i].tokens;
  }
  return tokens;
}

Json head(const ChatService& service, const char* id, const char* object) {
  Json out = Json::object();
  out["id"] = random_id(id);
  if (object != nullptr) {
    out["object"] = object;
    out["created"] = unix_time();
  }
  out["model"] = service.model_names().front();
  return out;
}

Json usage(std::int64_t tokens) {
  Json out = Json::object();
  out["prompt_tokens"] = tokens;
  out["total_tokens"] = tokens;
  out["completion_tokens"] = 0;
  out["prompt_tokens_details"] = nullptr;
  return out;
}

std::string document_text(const Json& one, JsonBody& body) {
  if (one.is_string()) return one.text();
  if (const Json* text = one.find("text"); text != nullptr && text->is_string()) return text->text();
  throw body.wrong("documents", "a list of texts");
}

void rerank(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const std::string query = body.required_text("query");
  const auto instruction = body.text("instruction");
  const Json* given = body.find("documents");
  if (given == nullptr || !given->is_array() || given->empty()) throw body.wrong("documents", "a list of texts");
  std::vector<std::string> documents;
  for (const Json& one : *given) documents.push_back(document_text(one, body));
  const auto top = body.integer("top_n", 0).value_or(0);
  const bool shown = body.boolean("return_documents").value_or(true);
  const bool activated = use_activation(body).value_or(true);
  body.takes({"user"});
  if (!is_for_us(service, body, *exchange)) return;
  std::vector<engine::RerankPair> pairs;
  for (const std::string& document : documents) pairs.push_back({query, document, instruction});
  std::vector<engine::PooledText> scores;
  service.run([&](engine::LLM& llm) { scores = llm.rerank(pairs, activated); });
  const std::int64_t tokens = require_all(scores, "documents");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a].values[0] > scores[b].values[0]; });
  if (top > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  Json out = head(service, "rerank-", nullptr);
  out["usage"] = usage(tokens);
  out["results"] = Json::array();
  for (const std::size_t at : order) {
    Json one = Json::object();
    one["index"] = at;
    if (shown) one["document"]["text"] = documents[at];
    one["relevance_score"] = scores[at].values[0];
    out["results"].push_back(std::move(one));
  }
  respond(exchange, out);
}

// One text with each of many, or as many with as many. vLLM's newer names of the two are queries and documents.
void score(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const bool newer = body.find("queries") != nullptr || body.find("documents") != nullptr;
  const std::string_view one_key = newer ? "queries" : "text_1", other_key = newer ? "documents" : "text_2";
  std::vector<std::string> first = body.texts(one_key);
  const std::vector<std::string> second = body.texts(other_key);
  if (first.empty()) throw body.wrong(one_key, "a text or a list of texts");
  if (second.empty()) throw body.wrong(other_key, "a text or a list of texts");
  require_plain_numbers(body);
  const bool activated = use_activation(body).value_or(true);
  body.takes({"user"});
  if (!is_for_us(service, body, *exchange)) return;
  if (first.size() == 1) first.resize(second.size(), first[0]);
  if (first.size() != second.size()) {
    throw body.wrong(other_key, cat(first.size(), " texts, as \"", one_key, "\" has"));
  }
  std::vector<engine::RerankPair> pairs;
  for (std::size_t i = 0; i < first.size(); ++i) pairs.push_back({first[i], second[i]});
  std::vector<engine::PooledText> scores;
  service.run([&](engine::LLM& llm) { scores = llm.rerank(pairs, activated); });
  const std::int64_t tokens = require_all(scores, other_key);
  Json out = head(service, "score-", "list");
  out["data"] = Json::array();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    Json one = Json::object();
    one["index"] = i;
    one["object"] = "score";
    one["score"] = scores[i].values[0];
    out["data"].push_back(std::move(one));
  }
  out["usage"] = usage(tokens);
  respond(exchange, out);
}

// What vLLM makes of logits, by the model's problem type: of one label a sigmoid, too.
std::vector<float> activated(std::vector<float> logits, const models::ModelConfig& config) {
  if (config.problem_type == "regression") return logits;
  if (config.problem_type == "multi_label_classification" || logits.size() == 1) {
    for (float& one : logits) one = 1 / (1 + std::exp(-one));
    return logits;
  }
  const float most = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& one : logits) sum += one = std::exp(one - most);
  for (float& one : logits) one /= sum;
  return logits;
}

std::vector<engine::PooledText> classified(engine::LLM& llm, const AskedTexts& asked, bool activates) {
  auto texts = llm.classify(prompts_for(llm, asked));
  if (!activates) return texts;
  for (engine::PooledText& text : texts) {
    if (!text.error) text.values = activated(std::move(text.values), llm.session().model.config);
  }
  return texts;
}

Json numbers(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(value);
  return out;
}

void classify(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const AskedTexts asked = texts_fields(body);
  const bool activates = use_activation(body).value_or(true);
  if (!is_for_us(service, body, *exchange)) return;
  std::vector<engine::PooledText> texts;
  std::vector<std::string> labels;
  service.run([&](engine::LLM& llm) {
    texts = classified(llm, asked, activates);
    labels = llm.session().model.config.labels;
  });
  const std::int64_t tokens = require_all(texts, asked.key);
  Json out = head(service, "classify-", "list");
  out["data"] = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float>& shares = texts[i].values;
    const auto best = static_cast<std::size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
    Json one = Json::object();
    one["index"] = i;
    one["label"] = best < labels.size() ? labels[best] : cat("LABEL_", best);
    one["probs"] = numbers(shares);
    one["num_classes"] = shares.size();
    out["data"].push_back(std::move(one));
  }
  out["usage"] = usage(tokens);
  respond(exchange, out);
}

// What the model is for, of the two that are made of whole texts: probabilities of labels, or a vector.
std::vector<engine::PooledText> pooled(engine::LLM& llm, const AskedTexts& asked, const std::string& task,
                                       std::optional<bool> activates) {
  const bool labels = llm.session().model.config.head == models::ModelHead::classification;
  if (task == "classify" || (task.empty() && labels)) return classified(llm, asked, activates.value_or(true));
  engine::EmbedOptions options = llm.default_pooling();
  options.normalize = activates.value_or(options.normalize);
  const auto prompts = prompts_for(llm, asked, std::exchange(options.prompt, ""));
  return llm.embed(prompts, options);
}

void pooling(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const AskedTexts asked = texts_fields(body);
  require_plain_numbers(body);
  const std::string task = body.text("task").value_or("");
  if (!task.empty() && task != "classify" && task != "embed") {
    throw body.wrong("task", "classify or embed, as texts are read as a whole here");
  }
  const std::optional<bool> activates = use_activation(body);
  if (!is_for_us(service, body, *exchange)) return;
  std::vector<engine::PooledText> texts;
  service.run([&](engine::LLM& llm) { texts = pooled(llm, asked, task, activates); });
  const std::int64_t tokens = require_all(texts, asked.key);
  Json out = head(service, "pool-", "list");
  out["data"] = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json one = Json::object();
    one["index"] = i;
    one["object"] = "pooling";
    one["data"] = numbers(texts[i].values);
    out["data"].push_back(std::move(one));
  }
  out["usage"] = usage(tokens);
  respond(exchange, out);
}

using Answer = void (*)(ChatService& service, const HttpRequest& request, const Exchange& exchange);

}  // namespace

void add_pooling_routes(Router& router, ChatService& service) {
  const auto add = [&](const char* path, Answer answer) {
    router.add("POST", path,
               [&service, answer](const HttpRequest& request, const std::string&, const Exchange& exchange) {
                 answer(service, request, exchange);
               });
  };
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank"}) add(path, rerank);
  for (const char* path : {"/score", "/v1/score"}) add(path, score);
  add("/classify", classify);
  add("/pooling", pooling);
}

}  // namespace tern::server
