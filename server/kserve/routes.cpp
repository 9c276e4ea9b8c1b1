#include "server/kserve/routes.h"

#include <array>

#include "base/strings.h"
#include "io/json.h"
#include "server/kserve/infer_request.h"
#include "server/kserve/infer_writer.h"

namespace tern::server::kserve {
namespace {

using io::Json;
using Exchange = std::shared_ptr<HttpExchange>;
using Form = WriterOptions::Form;

constexpr const char* kJson = "application/json";

// "NAME", "NAME/infer", "NAME/versions/1/infer", where a name may have slashes itself.
struct ModelPath {
  std::string model, verb, version;
};

ModelPath path_of(std::string_view rest) {
  constexpr std::array<std::string_view, 4> kVerbs = {"/ready", "/infer", "/generate", "/generate_stream"};
  ModelPath out;
  for (const std::string_view verb : kVerbs) {
    if (!rest.ends_with(verb)) continue;
    out.verb = verb.substr(1);
    rest.remove_suffix(verb.size());
    break;
  }
  constexpr std::string_view kVersions = "/versions/";
  if (const auto at = rest.rfind(kVersions); at != std::string_view::npos) {
    out.version = rest.substr(at + kVersions.size());
    rest = rest.substr(0, at);
  }
  out.model = rest;
  return out;
}

Json tensors_json(const std::vector<TensorSpec>& specs, bool inputs) {
  Json out = Json::array();
  for (const TensorSpec& spec : specs) {
    Json one = Json::object();
    one["name"] = spec.name;
    one["datatype"] = spec.datatype;
    one["shape"] = Json::array();
    one["shape"].push_back(spec.columns);
    if (inputs && spec.optional) one["optional"] = true;
    out.push_back(std::move(one));
  }
  return out;
}

void describe_model(const std::string& model, const Exchange& exchange) {
  Json out = Json::object();
  out["name"] = model;
  out["versions"] = Json::array();
  out["versions"].push_back(kModelVersion);
  out["platform"] = "tern";
  out["inputs"] = tensors_json(input_tensors(), true);
  out["outputs"] = tensors_json(output_tensors(), false);
  exchange->respond(200, kJson, out.dump());
}

// `what` is "live" or "ready".
void tell_health(const ChatService& service, const char* what, const std::string& model, const Exchange& exchange) {
  if (const auto why = service.dead()) {
    refuse(*exchange, *why, 503);
    return;
  }
  Json out = Json::object();
  if (!model.empty()) out["name"] = model;
  out[what] = true;
  exchange->respond(200, kJson, out.dump());
}

void answer(ChatService& service, const ModelPath& path, const HttpRequest& request, const Exchange& exchange) {
  WriterOptions options;
  options.form = path.verb == "infer" ? Form::infer : path.verb == "generate" ? Form::generate : Form::generate_stream;
  InferRequest asked = options.form == Form::infer
                           ? parse_infer(request.body, request.header("inference-header-content-length"))
                           : parse_generate(request.body);
  if (options.form == Form::generate && asked.stream) {
    throw Failure(data_error(R"(field "stream")", "false, as this route gives one answer", "true",
                             "ask generate_stream for a stream"));
  }
  if (asked.stream && asked.completion.n > 1) {
    throw Failure(data_error(R"(field "sampling_parameters.n")", "1 where the answer is streamed",
                             cat(asked.completion.n), "ask for one answer, or for no stream"));
  }
  options.model = path.model;
  options.id = std::move(asked.id);
  if (asked.prepend_input) options.prompt = std::get<std::string>(asked.completion.prompt);
  options.stream = asked.stream;
  options.n = asked.completion.n;
  options.outputs = std::move(asked.outputs);
  asked.completion.model = path.model;
  asked.completion.sampling.top_logprobs = 0;  // so that tokens are counted
  auto handle = service.complete(std::move(asked.completion), infer_writer(std::move(options), exchange));
  // A client that goes away is not answered any further.
  if (handle != nullptr) exchange->on_gone([handle] { handle->abort(); });
}

void model_route(ChatService& service, const HttpRequest& request, const std::string& rest, const Exchange& exchange) {
  const ModelPath path = path_of(rest);
  const bool reads = path.verb.empty() || path.verb == "ready";
  const char* method = reads ? "GET" : "POST";
  if (request.method != method && !(reads && request.method == "HEAD")) {
    refuse(*exchange, failed_error(cat(request.path, " takes ", method, ", not ", request.method), "use that"), 405,
           {{"Allow", method}});
    return;
  }
  if (const auto unknown = service.unknown_model(path.model)) {
    refuse(*exchange, unknown->error, unknown->status);
    return;
  }
  if (!path.version.empty() && path.version != kModelVersion) {
    refuse(*exchange,
           data_error(cat("version of model \"", path.model, "\""), kModelVersion, path.version, "leave it out"), 404);
    return;
  }
  if (path.verb.empty()) {
    describe_model(path.model, exchange);
  } else if (path.verb == "ready") {
    tell_health(service, "ready", path.model, exchange);
  } else {
    answer(service, path, request, exchange);
  }
}

void describe_server(const std::string& version, const Exchange& exchange) {
  Json out = Json::object();
  out["name"] = "tern";
  out["version"] = version;
  out["extensions"] = Json::array();
  for (const char* extension : {"binary_tensor_data", "generate", "model_repository"}) {
    out["extensions"].push_back(extension);
  }
  exchange->respond(200, kJson, out.dump());
}

void list_models(const ChatService& service, const Exchange& exchange) {
  Json out = Json::array();
  for (const std::string& name : service.all_names()) {
    Json one = Json::object();
    one["name"] = name;
    one["version"] = kModelVersion;
    one["state"] = "READY";
    one["reason"] = "";
    out.push_back(std::move(one));
  }
  exchange->respond(200, kJson, out.dump());
}

}  // namespace

void add_routes(Router& router, ChatService& service, const std::string& version) {
  for (const char* what : {"live", "ready"}) {
    router.add(
        Route{.method = "GET",
              .path = cat("/v2/health/", what),
              .handler = [&service, what](const HttpRequest&, const std::string&,
                                          const Exchange& exchange) { tell_health(service, what, "", exchange); },
              .open = true,
              .quick = true});
  }
  for (const char* path : {"/v2", "/v2/"}) {
    router.add("GET", path, [version](const HttpRequest&, const std::string&, const Exchange& exchange) {
      describe_server(version, exchange);
    });
  }
  router.add(
      "POST", "/v2/repository/index",
      [&service](const HttpRequest&, const std::string&, const Exchange& exchange) { list_models(service, exchange); });
  for (const char* method : {"GET", "POST"}) {
    router.add(method, "/v2/models/*",
               [&service](const HttpRequest& request, const std::string& rest, const Exchange& exchange) {
                 model_route(service, request, rest, exchange);
               });
  }
}

}  // namespace tern::server::kserve
