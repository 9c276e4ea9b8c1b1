#include "server/responses/routes.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "server/ids.h"
#include "server/openai/api_error.h"
#include "server/responses/responses_request.h"
#include "server/responses/responses_writer.h"

namespace tern::server::responses {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;
using Store = std::shared_ptr<ResponseStore>;

// Each item of a list has a name, by which clients go on behind it.
Json named_items(Json items, const std::string& id) {
  const std::string end = id.substr(id.find('_') + 1);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].contains("type")) items[i]["type"] = "message";
    if (!items[i].contains("id")) items[i]["id"] = cat("item_", end, "_", i);
  }
  return items;
}

void create(ChatService& service, const Store& store, const HttpRequest& request, const Exchange& exchange) {
  ResponsesRequest asked = parse_responses(request.body, *store);
  asked.chat.record = request.record;
  WriterOptions options;
  options.id = random_id("resp_");
  options.model = asked.chat.model.empty() ? service.model_names().front() : asked.chat.model;
  options.created = unix_time();
  options.stream = asked.stream;
  options.logprobs = asked.logprobs;
  options.echoed = std::move(asked.echoed);
  if (asked.store) {
    options.completed = [store, input = named_items(std::move(asked.input), options.id)](const Json& response) {
      store->put(response["id"].text(), {response, input});
    };
  }
  auto handle = service.chat(std::move(asked.chat), responses_writer(std::move(options), exchange));
  // A client that goes away is not answered any further.
  if (handle != nullptr) exchange->on_gone([handle] { handle->abort(); });
}

Failure bad_query(std::string_view name, std::string_view expected, std::string_view found) {
  return Failure(data_error(cat("field \"", name, "\""), expected, found, "send it as the API's reference says"));
}

struct Page {
  bool newest_first = true;
  std::size_t limit = 20;
  std::string after;
};

Page page_of(const std::string& query) {
  Page page;
  for (const std::string_view one : split(query, '&')) {
    if (one.empty()) continue;
    const auto equals = std::min(one.find('='), one.size());
    const std::string_view name = one.substr(0, equals), value = one.substr(std::min(equals + 1, one.size()));
    if (name == "order" && (value == "asc" || value == "desc")) {
      page.newest_first = value == "desc";
    } else if (name == "limit") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), page.limit);
      const bool whole = error == std::errc() && end == value.data() + value.size();
      if (!whole || page.limit < 1 || page.limit > 100) throw bad_query("limit", "an integer from 1 to 100", value);
    } else if (name == "after") {
      page.after = value;
    } else {
      throw bad_query(name, "order (asc or desc), limit or after", one);
    }
  }
  return page;
}

Json listed(const StoredResponse& stored, const Page& page) {
  std::vector<Json> items(stored.input.begin(), stored.input.end());
  if (page.newest_first) std::reverse(items.begin(), items.end());
  std::size_t begin = 0;
  if (!page.after.empty()) {
    while (begin < items.size() && !(items[begin]["id"] == page.after)) ++begin;
    if (begin == items.size()) throw bad_query("after", "the id of an item", page.after);
    ++begin;
  }
  const std::size_t end = std::min(items.size(), begin + page.limit);
  Json out = Json::object();
  out["object"] = "list";
  out["data"] = Json::array();
  for (std::size_t i = begin; i < end; ++i) out["data"].push_back(items[i]);
  out["first_id"] = begin == end ? Json("") : items[begin]["id"];
  out["last_id"] = begin == end ? Json("") : items[end - 1]["id"];
  out["has_more"] = end < items.size();
  return out;
}

}  // namespace

void answer_stored(ResponseStore& store, const HttpRequest& request, const std::string& rest, HttpExchange& exchange) {
  const auto slash = std::min(rest.find('/'), rest.size());
  const std::string id = rest.substr(0, slash), below = rest.substr(slash);
  const auto stored = store.get(id);
  const bool reads = request.method == "GET";
  const bool cancels = request.method == "POST" && below == "/cancel";
  const bool known = cancels || (reads && below == "/input_items") || (request.method != "POST" && below.empty());
  if (!known) {
    openai::refuse(exchange,
                   failed_error(cat("there is no ", request.method, " ", request.path),
                                "ask for the response, its input_items or its cancel"),
                   404);
  } else if (stored == nullptr) {
    openai::refuse(exchange,
                   failed_error(cat("no response \"", id, "\" is stored"),
                                "ask for one with \"store\" true; the last 1,000 are kept"),
                   404);
  } else if (cancels) {
    openai::refuse(exchange,
                   usage_error("only a response in the background can be cancelled, and none runs there",
                               "close the connection to end an answer"),
                   400);
  } else if (!reads) {
    store.erase(id);
    Json out = Json::object();
    out["id"] = id;
    out["object"] = "response";
    out["deleted"] = true;
    exchange.respond(200, "application/json", out.dump());
  } else if (below.empty()) {
    if (!request.query.empty()) throw bad_query(request.query, "no query", "one");
    exchange.respond(200, "application/json", stored->response.dump());
  } else {
    exchange.respond(200, "application/json", listed(*stored, page_of(request.query)).dump());
  }
}

void add_routes(Router& router, ChatService& service, const Store& store) {
  router.add("POST", "/v1/responses",
             [&service, store](const HttpRequest& request, const std::string&, const Exchange& exchange) {
               create(service, store, request, exchange);
             });
  for (const char* method : {"GET", "DELETE", "POST"}) {
    router.add(method, "/v1/responses/*",
               [store](const HttpRequest& request, const std::string& rest, const Exchange& exchange) {
                 answer_stored(*store, request, rest, *exchange);
               });
  }
}

}  // namespace tern::server::responses
