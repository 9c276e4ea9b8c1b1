#include "server/ollama/routes.h"

#include <ctime>

#include "base/strings.h"
#include "server/ids.h"
#include "server/ollama/answer_writer.h"
#include "server/ollama/requests.h"
#include "server/texts_field.h"

namespace tern::server::ollama {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

std::chrono::nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::string utc_time(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::string out(32, '\0');
  out.resize(std::strftime(out.data(), out.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return out;
}

void answer(ChatService& service, OllamaRequest asked, bool chat, const HttpRequest& request,
            const Exchange& exchange) {
  WriterOptions options;
  options.model = asked.model;
  options.created_at = utc_time(unix_time());
  options.stream = asked.stream;
  options.chat = chat;
  options.logprobs = asked.logprobs;
  options.clock = now;
  if (asked.num_ctx && *asked.num_ctx > service.max_model_len()) {
    throw Failure(data_error(R"(field "options.num_ctx")", cat("at most ", service.max_model_len()),
                             cat(*asked.num_ctx), "start the server with a longer --max_model_len"));
  }
  if (asked.load) {
    if (const auto refusal = service.unknown_model(served_name(asked.model))) {
      refuse(*exchange, refusal->error, refusal->status);
    } else {
      answer_load(options, *exchange);
    }
    return;
  }
  auto writer = answer_writer(std::move(options), exchange);
  std::shared_ptr<RequestHandle> handle;
  std::visit([&](auto& one) { one.record = request.record; }, asked.asked);
  if (auto* dialogue = std::get_if<ChatRequest>(&asked.asked)) {
    handle = service.chat(std::move(*dialogue), std::move(writer));
  } else {
    handle = service.complete(std::get<CompletionRequest>(std::move(asked.asked)), std::move(writer));
  }
  // A client that goes away is not answered any further.
  if (handle != nullptr) exchange->on_gone([handle] { handle->abort(); });
}

void tags(const ChatService& service, const std::string& started, const Exchange& exchange) {
  Json models = Json::array();
  for (const std::string& name : service.all_names()) {
    Json one = Json::object();
    one["name"] = name;
    one["model"] = name;
    one["modified_at"] = started;
    models.push_back(std::move(one));
  }
  Json out = Json::object();
  out["models"] = std::move(models);
  exchange->respond(200, "application/json; charset=utf-8", out.dump());
}

void show(const ChatService& service, const std::string& started, const HttpRequest& request,
          const Exchange& exchange) {
  JsonBody body(request.body);
  const std::string model = body.required_text("model");
  body.takes({"verbose"});  // asks for tables of the tokenizer, which are not told here
  body.finish();
  if (const auto refusal = service.unknown_model(served_name(model))) {
    refuse(*exchange, refusal->error, refusal->status);
    return;
  }
  Json abilities = Json::array({service.generates() ? "completion" : "embedding"});
  if (!service.options().formats.tool_call.empty()) abilities.push_back("tools");
  if (!service.options().formats.reasoning.empty()) abilities.push_back("thinking");
  if (service.takes_images()) abilities.push_back("vision");
  Json info = Json::object();
  info["general.architecture"] = "tern";
  info["tern.context_length"] = service.max_model_len();
  Json out = Json::object();
  out["modified_at"] = started;
  out["details"] = Json::object();
  out["model_info"] = std::move(info);
  out["capabilities"] = std::move(abilities);
  exchange->respond(200, "application/json; charset=utf-8", out.dump());
}

void embed(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  const auto begin = now();
  JsonBody body(request.body);
  const std::string model = body.required_text("model");
  const auto prompts = prompts_field(body, "input");
  if (body.boolean("truncate").value_or(false)) throw body.wrong("truncate", "false, as nothing is cut here");
  if (auto options = body.object("options")) {
    take_runner_options(*options);
    options->finish();
  }
  body.takes({"keep_alive"});  // a model stays loaded as long as its server runs
  body.finish();
  if (const auto refusal = service.not_the_model(served_name(model))) {
    refuse(*exchange, refusal->error, refusal->status);
    return;
  }
  service.pool(
      request, exchange, [prompts](const engine::LLM& llm) { return llm.embedding(prompts, llm.default_pooling()); },
      [model, begin](std::vector<engine::PooledText>&& pooled) {
        Json vectors = Json::array();
        std::int64_t tokens = 0;
        for (std::size_t i = 0; i < pooled.size(); ++i) {
          if (pooled[i].error) throw Failure(pooled[i].error->inside(cat("field \"input[", i, "]\"")));
          vectors.push_back(Json(pooled[i].values));
          tokens += pooled[i].tokens;
        }
        Json out = Json::object();
        out["model"] = model;
        out["embeddings"] = std::move(vectors);
        out["total_duration"] = (now() - begin).count();
        out["load_duration"] = 0;
        out["prompt_eval_count"] = tokens;
        return out.dump();
      });
}

}  // namespace

void add_routes(Router& router, ChatService& service, const std::string& version) {
  const std::string started = utc_time(unix_time());
  router.add("POST", "/api/chat", [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
    answer(service, parse_chat(request.body), true, request, exchange);
  });
  router.add("POST", "/api/generate",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               answer(service, parse_generate(request.body), false, request, exchange);
             });
  router.add("GET", "/api/tags", [&service, started](const HttpRequest&, const std::string&, const Exchange& exchange) {
    tags(service, started, exchange);
  });
  router.add("POST", "/api/show",
             [&service, started](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               show(service, started, request, exchange);
             });
  router.add("POST", "/api/embed",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               embed(service, request, exchange);
             });
  router.add("GET", "/api/version", [version](const HttpRequest&, const std::string&, const Exchange& exchange) {
    Json out = Json::object();
    out["version"] = version;
    exchange->respond(200, "application/json; charset=utf-8", out.dump());
  });
}

}  // namespace tern::server::ollama
