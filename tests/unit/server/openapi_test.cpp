// /openapi.json against the routes that the server has, and against what they read.
#include "server/openapi/openapi.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/openapi/fragments.h"
#include "tests/unit/server/tiny_server.h"

namespace tern::test {
namespace {

using io::Json;

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A path of the document with a word in the place of each "{name}".
std::string with_words(std::string path) {
  for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
    path.replace(at, path.find('}', at) - at + 1, "word");
  }
  return path;
}

bool answers(const server::Route& route, const std::string& method, const std::string& path) {
  if (route.method != method) return false;
  if (route.path.back() != '*') return route.path == path;
  return path.starts_with(route.path.substr(0, route.path.size() - 1));
}

// Every object of properties in `json`, with those that it demands.
const Json& resolved(const Json& document, const Json& schema) {
  const Json* name = schema.find("$ref");
  if (name == nullptr) return schema;
  const std::string path = name->text();
  return document["components"]["schemas"][path.substr(path.rfind('/') + 1)];
}

// A value that a schema takes, as small as can be.
Json smallest(const Json& document, const Json& given) {
  const Json& schema = resolved(document, given);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const Json* several = schema.find(key)) return smallest(document, (*several)[0]);
  }
  if (const Json* words = schema.find("enum")) return (*words)[0];
  const Json* type = schema.find("type");
  if (type == nullptr) return "x";
  const std::string kind = type->is_array() ? (*type)[0].text() : type->text();
  if (kind == "string") return "x";
  if (kind == "integer" || kind == "number") return schema.contains("minimum") ? schema["minimum"] : Json(1);
  if (kind == "boolean") return false;
  if (kind == "array") {
    Json out = Json::array();
    if (schema.contains("items")) out.push_back(smallest(document, schema["items"]));
    return out;
  }
  Json out = Json::object();
  if (const Json* members = schema.find("properties");
      members != nullptr && members->contains("role") && members->contains("content"))
    out["content"] = "x";
  if (const Json* required = schema.find("required")) {
    for (const Json& name : *required) out[name.text()] = smallest(document, schema["properties"][name.text()]);
  }
  return out;
}

TEST(OpenApi, HasEveryRouteAndNoOther) {
  TinyServer server;
  const HttpReply reply = ask(server.port(), "GET", "/openapi.json");
  ASSERT_EQ(reply.status, 200);
  const Json document = io::parse_json(reply.body, "openapi").value();
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<const server::Route*> told;
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      bool there = false;
      for (const server::Route& route : server.server().routes().router().routes()) {
        if (!answers(route, upper(method), with_words(path))) continue;
        told.insert(&route);
        there = true;
        const Json* security = operation.find("security");
        EXPECT_EQ(route.open, security != nullptr && security->empty()) << method << " " << path;
      }
      EXPECT_TRUE(there) << method << " " << path << " has no route";
    }
  }
  for (const server::Route& route : server.server().routes().router().routes()) {
    if (route.path.starts_with("/pages/")) continue;  // what the pages are made of
    EXPECT_TRUE(told.contains(&route)) << route.method << " " << route.path << " is not in the document";
  }
}

// No reference leads nowhere.
TEST(OpenApi, NamesOnlyWhatItHas) {
  const std::string text = server::openapi_document("1", server::pool_openapi());
  const Json document = io::parse_json(text, "openapi").value();
  const std::string begin = "\"$ref\":\"#/components/";
  int count = 0;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const std::size_t from = at + begin.size(), slash = text.find('/', from), end = text.find('"', slash);
    const std::string kind = text.substr(from, slash - from), name = text.substr(slash + 1, end - slash - 1);
    EXPECT_TRUE(document["components"][kind].contains(name)) << kind << " " << name;
    ++count;
  }
  EXPECT_GT(count, 100);
}

// Each field of each request is one that its route reads: none is refused as unknown, and one more is.
TEST(OpenApi, FieldsAreThoseThatRoutesRead) {
  TinyServer::Options options;
  options.max_positions = 256;  // answers are short
  options.server.service.loads_adapters = true;
  TinyServer server(options);
  const Json document = io::parse_json(server::openapi_document("1"), "openapi").value();
  int fields = 0;
  for (const auto& [path, methods] : document["paths"].items()) {
    const Json* post = methods.find("post");
    if (post == nullptr || !post->contains("requestBody")) continue;
    const Json& named = resolved(document, (*post)["requestBody"]["content"]["application/json"]["schema"]);
    std::vector<Json> forms;
    if (const Json* several = named.find("anyOf")) {
      for (const Json& one : *several) forms.push_back(one);
    } else {
      forms.push_back(named);
    }
    for (const Json& form : forms) {
      const Json least = smallest(document, form);
      for (const auto& [name, schema] : form["properties"].items()) {
        Json body = least;
        body[name] = smallest(document, schema);
        if (body.contains("model")) body["model"] = "another";  // refused, but not before its fields are read
        const HttpReply reply = server.post(path, body.dump());
        EXPECT_EQ(reply.body.find("a field of this route"), std::string::npos)
            << path << " " << body.dump() << reply.body;
        EXPECT_NE(reply.status, 500) << path << " " << body.dump() << reply.body;
        ++fields;
      }
      Json more = least;
      more["no_such_field"] = 1;
      const HttpReply refused = server.post(path, more.dump());
      EXPECT_EQ(refused.status, 400) << path;
      EXPECT_NE(refused.body.find("no_such_field"), std::string::npos) << path << refused.body;
    }
  }
  EXPECT_GT(fields, 200);
}

}  // namespace
}  // namespace tern::test
