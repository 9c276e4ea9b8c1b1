#include "server/openapi/openapi.h"

#include "io/json.h"
#include "server/openapi/fragments.h"

namespace tern::server {
namespace {

using io::Json;

// Members that are objects in both are joined, all others are new.
void join(Json& whole, const Json& part) {
  for (const auto& [key, value] : part.items()) {
    if (whole.contains(key) && value.is_object()) {
      join(whole[key], value);
    } else {
      whole[key] = value;
    }
  }
}

}  // namespace

std::string openapi_document(const std::string& version, std::string_view more) {
  Json out = Json::object();
  out["openapi"] = "3.1.0";
  out["info"]["title"] = "tern";
  out["info"]["version"] = version;
  out["info"]["description"] =
      "A model served by tern deploy. A field that a route doesn't have is a 400 that names it.";
  Json keys = Json::array();
  for (const char* scheme : {"bearer", "key"}) {
    Json one = Json::object();
    one[scheme] = Json::array();
    keys.push_back(std::move(one));
  }
  out["security"] = std::move(keys);
  for (const auto part : {plain_openapi(), pooling_openapi(), openai::openapi(), anthropic::openapi(),
                          responses::openapi(), ollama::openapi(), kserve::openapi(), llamacpp::openapi()}) {
    join(out, io::parse_json(part, "openapi").value());
  }
  if (!more.empty()) join(out, io::parse_json(more, "openapi").value());
  return out.dump();
}

void add_openapi_route(Router& router, const std::string& version, std::string_view more) {
  router.add(Route{.method = "GET",
                   .path = "/openapi.json",
                   .handler =
                       [document = openapi_document(version, more)](const HttpRequest&, const std::string&,
                                                                    const std::shared_ptr<HttpExchange>& exchange) {
                         exchange->respond(200, "application/json", document);
                       },
                   .quick = true});
}

}  // namespace tern::server
