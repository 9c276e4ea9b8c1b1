#include "server/rollout/trl_routes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/base64.h"
#include "base/strings.h"
#include "server/openai/api_error.h"
#include "server/openai/messages.h"
#include "server/rollout/batch.h"
#include "server/rollout/weight_transfer.h"
#include "server/texts_field.h"

namespace tern::server::rollout {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;

// The likeliest tokens and the token itself, the likeliest first: what vLLM tells of a place.
std::vector<const TokenText*> told_of(const TokenText& token) {
  std::vector<const TokenText*> out;
  bool has_own = false;
  for (const TokenText& one : token.likeliest) {
    out.push_back(&one);
    has_own = has_own || one.id == token.id;
  }
  if (!has_own) out.push_back(&token);
  std::stable_sort(out.begin(), out.end(),
                   [](const TokenText* a, const TokenText* b) { return a->logprob > b->logprob; });
  return out;
}

struct Columns {
  Json logprobs = Json::array();
  Json ids = Json::array();
};
Columns columns_of(const TokenText& token) {
  Columns out;
  for (const TokenText* one : told_of(token)) {
    out.logprobs.push_back(number_json(one->logprob));
    out.ids.push_back(one->id);
  }
  return out;
}

Json ids_json(const std::vector<TokenText>& tokens) {
  Json out = Json::array();
  for (const TokenText& token : tokens) out.push_back(token.id);
  return out;
}

Json generated_json(const std::vector<RolledPrompt>& prompts, bool logprobs, bool lists, const std::string& version) {
  Json out = Json::object();
  for (const char* key : {"prompt_ids", "completion_ids", "logprobs", "logprob_token_ids"}) out[key] = Json::array();
  for (const RolledPrompt& prompt : prompts) {
    out["prompt_ids"].push_back(Json(prompt.ids));
    for (const RolledAnswer& answer : prompt.answers) {
      out["completion_ids"].push_back(ids_json(answer.tokens));
      Json numbers = Json::array(), ids = Json::array();
      for (const TokenText& token : answer.tokens) {
        if (!lists) {
          numbers.push_back(number_json(token.logprob));
          continue;
        }
        Columns columns = columns_of(token);
        numbers.push_back(std::move(columns.logprobs));
        ids.push_back(std::move(columns.ids));
      }
      out["logprobs"].push_back(std::move(numbers));
      out["logprob_token_ids"].push_back(std::move(ids));
    }
  }
  if (!logprobs) out["logprobs"] = Json();
  if (!logprobs || !lists) out["logprob_token_ids"] = Json();
  out["weight_version"] = version;
  return out;
}

void answer(ChatService& service, const std::shared_ptr<WeightTransfer>& weights, std::vector<engine::TokenIds> prompts,
            const GenerationFields& fields, const Exchange& exchange) {
  const bool logprobs = fields.sampling.top_logprobs.has_value();
  const auto write = [weights, logprobs, lists = fields.lists](std::vector<RolledPrompt>&& rolled) {
    return generated_json(rolled, logprobs, lists, weights->version());
  };
  answer_batch(service, std::move(prompts), fields, write, exchange);
}

void require_no_images(JsonBody& body) {
  const Json* images = body.find("images");
  if (images == nullptr) return;
  const bool none = images->is_array() && std::all_of(images->begin(), images->end(), [](const Json& of_prompt) {
                      return of_prompt.is_null() || (of_prompt.is_array() && of_prompt.empty());
                    });
  if (!none) throw body.wrong("images", "none: /v1/chat/completions takes them");
}

void generate(ChatService& service, const std::shared_ptr<WeightTransfer>& weights, const HttpRequest& request,
              const Exchange& exchange) {
  JsonBody body(request.body);
  const GenerationFields fields = trl_fields(body);
  require_no_images(body);
  std::vector<engine::TokenIds> prompts;
  for (const engine::Prompt& prompt : prompts_field(body, "prompts")) {
    prompts.push_back(service.prompt_ids(prompt).value());
  }
  if (const auto kept = body.integer("truncate_prompt_tokens", -1); kept && *kept != 0) {
    const auto most = static_cast<std::size_t>(*kept < 0 ? service.max_model_len() - 1 : *kept);
    for (engine::TokenIds& ids : prompts) {
      if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
    }
  }
  body.finish();
  answer(service, weights, std::move(prompts), fields, exchange);
}

void chat(ChatService& service, const std::shared_ptr<WeightTransfer>& weights, const HttpRequest& request,
          const Exchange& exchange) {
  JsonBody body(request.body);
  const GenerationFields fields = trl_fields(body);
  const Json* conversations = body.find("messages");
  if (conversations == nullptr || !conversations->is_array()) throw body.wrong("messages", "a list of conversations");
  std::string kwargs;
  if (const auto given = body.object("chat_template_kwargs"); given && !given->json().empty()) {
    kwargs = given->json().dump();
  }
  const Json* tools = body.find("tools");
  body.finish();
  std::vector<engine::TokenIds> prompts;
  std::size_t at = 0;
  for (const Json& conversation : *conversations) {
    Json one = Json::object();
    one["messages"] = conversation;
    if (tools != nullptr) one["tools"] = *tools;
    JsonBody own(one, cat("messages[", at++, "]"));
    ChatRequest asked;
    asked.dialogue = openai::dialogue_fields(own);
    asked.template_kwargs = kwargs;
    // As vLLM's LLM.chat: an answer that the model has begun isn't gone on with.
    prompts.push_back(service.prompt_ids(asked).value());
  }
  answer(service, weights, std::move(prompts), fields, exchange);
}

template <typename T>
std::string base64_of(const std::vector<T>& numbers) {
  static_assert(std::endian::native == std::endian::little);
  return encode_base64({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
}

// The numbers of a batch in rectangles: [sequences, longest completion, top].
Json binary_logprobs(const std::vector<RolledPrompt>& prompts, const std::vector<std::int64_t>& lengths,
                     std::int64_t top) {
  std::vector<std::int64_t> counts;
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    counts.push_back(static_cast<std::int64_t>(prompts[i].ids.size()) - lengths[i]);
    longest = std::max(longest, counts.back());
  }
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const auto places = prompts.size() * static_cast<std::size_t>(longest);
  const auto width = static_cast<std::size_t>(top);
  std::vector<float> logprobs(places * width, kNone), actual(places, kNone);
  std::vector<std::int32_t> ids(places * width, 0), actual_ids(places, 0);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (std::int64_t t = 0; t < counts[i]; ++t) {
      const std::int64_t position = lengths[i] + t;
      if (position == 0) continue;  // nothing stands before it
      const TokenText& token = prompts[i].logprobs[static_cast<std::size_t>(position)];
      const std::size_t place = i * static_cast<std::size_t>(longest) + static_cast<std::size_t>(t);
      actual[place] = token.logprob;
      actual_ids[place] = token.id;
      const auto told = told_of(token);
      for (std::size_t k = 0; k < std::min(told.size(), width); ++k) {
        logprobs[place * width + k] = told[k]->logprob;
        ids[place * width + k] = told[k]->id;
      }
    }
  }
  Json out = Json::object();
  out["logprobs_b64"] = base64_of(logprobs);
  out["token_ids_b64"] = base64_of(ids);
  out["actual_logprobs_b64"] = base64_of(actual);
  out["actual_token_ids_b64"] = base64_of(actual_ids);
  out["shape"] = Json(std::vector<std::int64_t>{static_cast<std::int64_t>(prompts.size()), longest, top});
  out["completion_lengths"] = Json(counts);
  return out;
}

Json listed_logprobs(const std::vector<RolledPrompt>& prompts, const std::vector<std::int64_t>& lengths) {
  Json out = Json::object();
  out["logprobs"] = Json::array();
  out["logprob_token_ids"] = Json::array();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Json numbers = Json::array(), ids = Json::array();
    for (auto at = static_cast<std::size_t>(lengths[i]); at < prompts[i].ids.size(); ++at) {
      Columns columns;
      if (at > 0) columns = columns_of(prompts[i].logprobs[at]);
      numbers.push_back(std::move(columns.logprobs));
      ids.push_back(std::move(columns.ids));
    }
    out["logprobs"].push_back(std::move(numbers));
    out["logprob_token_ids"].push_back(std::move(ids));
  }
  return out;
}

void sequence_logprobs(ChatService& service, const HttpRequest& request, const Exchange& exchange) {
  JsonBody body(request.body);
  const Json* given = body.find("sequences");
  if (given == nullptr || !given->is_array() || (!given->empty() && !(*given)[0].is_array())) {
    throw body.wrong("sequences", "a list of lists of token ids");
  }
  std::vector<engine::TokenIds> sequences;
  if (!given->empty()) {
    for (const engine::Prompt& one : prompts_field(body, "sequences"))
      sequences.push_back(service.prompt_ids(one).value());
  }
  const std::vector<std::int64_t> lengths = body.integers("prompt_lengths");
  if (lengths.size() != sequences.size()) throw body.wrong("prompt_lengths", "one number a sequence");
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > static_cast<std::int64_t>(sequences[i].size())) {
      throw body.wrong("prompt_lengths", "numbers between 0 and the sequence's length");
    }
  }
  constexpr std::int64_t kDefaultTop = 100;  // TRL's
  const std::int64_t top = body.integer("top_logprobs", 0).value_or(kDefaultTop);
  // vLLM's temperature says nothing of a prompt's tokens either.
  if (body.number("temperature", 0, 1e9).value_or(1) != 1) {
    throw body.wrong("temperature", "1: a sequence's log-probabilities are the model's own");
  }
  const std::string format = body.text("response_format").value_or("json");
  if (format != "json" && format != "binary") throw body.wrong("response_format", "json or binary");
  body.finish();
  GenerationFields fields;
  fields.sampling.max_tokens = 1;
  fields.sampling.temperature = 0;
  fields.sampling.prompt_logprobs = top;
  const auto write = [lengths, top, format](std::vector<RolledPrompt>&& rolled) {
    return format == "binary" ? binary_logprobs(rolled, lengths, top) : listed_logprobs(rolled, lengths);
  };
  answer_batch(service, std::move(sequences), fields, write, exchange);
}

}  // namespace

void add_trl_routes(Router& router, ChatService& service, const std::shared_ptr<WeightTransfer>& weights) {
  router.add("POST", "/generate/",
             [&service, weights](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               generate(service, weights, request, exchange);
             });
  router.add("POST", "/chat/",
             [&service, weights](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               chat(service, weights, request, exchange);
             });
  router.add("POST", "/get_sequence_logprobs/",
             [&service](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               sequence_logprobs(service, request, exchange);
             });
}

}  // namespace tern::server::rollout
