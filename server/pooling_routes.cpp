#include "server/pooling_routes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "base/strings.h"
#include "io/json.h"
#include "models/config.h"
#include "server/ids.h"
#include "server/json_answer.h"
#include "server/json_body.h"
#include "server/numbers_json.h"
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

Json head(const std::string& model, const char* id, const char* object) {
  Json out = Json::object();
  out["id"] = random_id(id);
  if (object != nullptr) {
    out["object"] = object;
    out["created"] = unix_time();
  }
  out["model"] = model;
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

// `top` 0: all of them; `documents` empty: they are not shown.
std::string ranked(const std::vector<engine::PooledText>& scores, const std::string& model, std::size_t top,
                   const std::vector<std::string>& documents) {
  const std::int64_t tokens = require_all(scores, "documents");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a].values[0] > scores[b].values[0]; });
  if (top > 0) order.resize(std::min(order.size(), top));
  Json out = head(model, "rerank-", nullptr);
  out["usage"] = usage(tokens);
  out["results"] = Json::array();
  for (const std::size_t at : order) {
    Json one = Json::object();
    one["index"] = at;
    if (!documents.empty()) one["document"]["text"] = documents[at];
    one["relevance_score"] = scores[at].values[0];
    out["results"].push_back(std::move(one));
  }
  return out.dump();
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
  if (!shown) documents.clear();
  service.pool(
      request, exchange, [pairs, activated](const engine::LLM& llm) { return llm.ranking(pairs, activated); },
      [model = service.model_names().front(), top, documents](std::vector<engine::PooledText>&& scores) {
        return ranked(scores, model, static_cast<std::size_t>(top), documents);
      });
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
  if (body.text("encoding_format").value_or("float") != "float") throw body.wrong("encoding_format", "float");
  const bool activated = use_activation(body).value_or(true);
  body.takes({"user"});
  if (!is_for_us(service, body, *exchange)) return;
  if (first.size() == 1) first.resize(second.size(), first[0]);
  if (first.size() != second.size()) {
    throw body.wrong(other_key, cat(first.size(), " texts, as \"", one_key, "\" has"));
  }
  std::vector<engine::RerankPair> pairs;
  for (std::size_t i = 0; i < first.size(); ++i) pairs.push_back({first[i], second[i]});
  service.pool(
      request, exchange, [pairs, activated](const engine::LLM& llm) { return llm.ranking(pairs, activated); },
      [model = service.model_names().front(), other_key](std::vector<engine::PooledText>&& scores) {
        const std::int64_t tokens = require_all(scores, other_key);
        Json out = head(model, "score-", "list");
        out["data"] = Json::array();
        for (std::size_t i = 0; i < scores.size(); ++i) {
          Json one = Json::object();
          one["index"] = i;
          one["object"] = "score";
          one["score"] = scores[i].values[0];
          out["data"].push_back(std::move(one));
        }
        out["usage"] = usage(tokens);
        return out.dump();
      });
}

// What vLLM makes of logits, by the model's problem type: of one label a sigmoid, too.
void activate(std::span<float> logits, std::string_view problem_type) {
  if (problem_type == "regression") return;
  if (problem_type == "multi_label_classification" || logits.size() == 1) {
    for (float& one : logits) one = 1 / (1 + std::exp(-one));
    return;
  }
  const float most = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& one : logits) sum += one = std::exp(one - most);
  for (float& one : logits) one /= sum;
}

// The labels' logits of each text, or of each of its tokens, or what is made of them.
engine::PoolingJob classification(const engine::LLM& llm, const AskedTexts& asked, bool activates, bool each) {
  engine::PoolingJob job = llm.classification(prompts_for(llm, asked), each);
  if (!activates) return job;
  job.finish = [each, problem = llm.session().model.config.problem_type](std::vector<engine::PooledText>&& texts) {
    for (engine::PooledText& text : texts) {
      const std::size_t width =
          text.values.size() / static_cast<std::size_t>(each && text.tokens > 0 ? text.tokens : 1);
      for (std::size_t at = 0; at < text.values.size(); at += width) {
        activate(std::span(text.values).subspan(at, width), problem);
      }
    }
    return std::move(texts);
  };
  return job;
}

std::string classified(const std::vector<engine::PooledText>& texts, const std::string& model, std::string_view key,
                       const std::vector<std::string>& labels) {
  const std::int64_t tokens = require_all(texts, key);
  Json out = head(model, "classify-", "list");
  out["data"] = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float>& shares = texts[i].values;
    const auto best = static_cast<std::size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
    Json one = Json::object();
    one["index"] = i;
    one["label"] = best < labels.size() ? labels[best] : cat("LABEL_", best);
    one["probs"] = numbers_json(shares, false);
    one["num_classes"] = shares.size();
    out["data"].push_back(std::move(one));
  }
  out["usage"] = usage(tokens);
  return out.dump();
}

void classify(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const AskedTexts asked = texts_fields(body);
  const bool activates = use_activation(body).value_or(true);
  if (!is_for_us(service, body, *exchange)) return;
  const auto labels = std::make_shared<std::vector<std::string>>();
  service.pool(
      request, exchange,
      [asked, activates, labels](const engine::LLM& llm) {
        *labels = llm.session().model.config.labels;
        return classification(llm, asked, activates, false);
      },
      [model = service.model_names().front(), key = asked.key, labels](std::vector<engine::PooledText>&& texts) {
        return classified(texts, model, key, *labels);
      });
}

struct PoolingForm {
  std::string task;  // "": what the model is for, of texts as a whole: probabilities of labels, or a vector
  std::optional<bool> activates;
  bool as_text = false;
  [[nodiscard]] bool each() const { return task.starts_with("token_"); }
};

engine::PoolingJob pooling_job(const engine::LLM& llm, const AskedTexts& asked, const PoolingForm& form) {
  const bool labels = llm.session().model.config.head == models::ModelHead::classification;
  if (form.task.ends_with("classify") || (form.task.empty() && labels)) {
    return classification(llm, asked, form.activates.value_or(true), form.each());
  }
  engine::EmbedOptions options = llm.default_pooling();
  options.normalize = form.activates.value_or(options.normalize);
  if (form.each()) options.pooling = engine::Pooling::each;
  const auto prompts = prompts_for(llm, asked, std::exchange(options.prompt, ""));
  return llm.embedding(prompts, options);
}

// Of each token a row, where that was asked; as text all of them one after the other.
Json pooled_json(const engine::PooledText& text, const PoolingForm& form) {
  if (!form.each() || form.as_text) return numbers_json(text.values, form.as_text);
  Json rows = Json::array();
  const std::size_t width = text.values.size() / static_cast<std::size_t>(text.tokens);
  for (std::size_t at = 0; at < text.values.size(); at += width) {
    rows.push_back(numbers_json(std::span(text.values).subspan(at, width), false));
  }
  return rows;
}

void pooling(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const AskedTexts asked = texts_fields(body);
  PoolingForm form;
  form.as_text = wants_base64(body);
  form.task = body.text("task").value_or("");
  constexpr std::array<std::string_view, 5> kTasks = {"", "classify", "embed", "token_classify", "token_embed"};
  if (std::ranges::find(kTasks, form.task) == kTasks.end()) {
    throw body.wrong("task", "classify, embed, token_classify or token_embed");
  }
  form.activates = use_activation(body);
  if (!is_for_us(service, body, *exchange)) return;
  service.pool(
      request, exchange, [asked, form](const engine::LLM& llm) { return pooling_job(llm, asked, form); },
      [model = service.model_names().front(), key = asked.key, form](std::vector<engine::PooledText>&& texts) {
        const std::int64_t tokens = require_all(texts, key);
        Json out = head(model, "pool-", "list");
        out["data"] = Json::array();
        for (std::size_t i = 0; i < texts.size(); ++i) {
          Json one = Json::object();
          one["index"] = i;
          one["object"] = "pooling";
          one["data"] = pooled_json(texts[i], form);
          out["data"].push_back(std::move(one));
        }
        out["usage"] = usage(tokens);
        return out.dump();
      });
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
