#include "cli/server_flags.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/generation_flags.h"
#include "cli/session_flags.h"
#include "cli/version.h"
#include "hub/url.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

// What people call it: the folder's name, the file's without its ending, the last part of a hub id.
std::string short_name(std::string model) {
  if (model.ends_with(".gguf")) return fs::path(model).stem().string();
  while (model.size() > 1 && model.back() == '/') model.pop_back();
  return fs::path(model).filename().string();
}

chat::AnswerFormats answer_formats(const Arguments& arguments, const engine::LLM& llm) {
  chat::AnswerFormats formats;
  if (const auto& chat_template = llm.session().text->chat_template;
      chat_template && llm_options(arguments).use_chat_template) {
    formats = chat::formats_of_template(chat_template->source());
  }
  if (const auto given = arguments.maybe_string("reasoning_parser")) formats.reasoning = *given;
  if (const auto given = arguments.maybe_string("tool_call_parser")) formats.tool_call = *given;
  (void)chat::make_answer_parser({.formats = formats}).value();
  return formats;
}

// As a URL's host is compared: without a port, brackets or a dot at the end.
bool is_host_name(const std::string& domain) {
  const bool is_ipv6 = domain.find(':') != domain.rfind(':');
  const auto url = hub::parse_url(cat("http://", is_ipv6 ? "[" : "", domain, is_ipv6 ? "]" : "", "/"));
  return url &&
         std::ranges::equal(url->host, domain, [](unsigned char a, unsigned char b) { return a == std::tolower(b); });
}

}  // namespace

engine::ServedAdapters served_adapters(Arguments& arguments) {
  engine::ServedAdapters served;
  const FlagWord given = arguments.list("adapters");
  FlagWord bare;
  for (const std::string& word : given) {
    std::error_code ignored;
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || fs::exists(word, ignored)) {
      bare.push_back(word);
      continue;
    }
    const std::string name = word.substr(0, equals);
    if (std::ranges::any_of(served.named, [&](const auto& other) { return other.name == name; })) {
      throw Failure(usage_error(cat("--adapters has two adapters under the name ", name), "give each its own"));
    }
    served.named.push_back({name, word.substr(equals + 1)});
  }
  if (bare.size() > 1 || (!bare.empty() && !served.named.empty())) {
    throw Failure(usage_error("--adapters takes one directory, or several that have a name each",
                              "write name=directory for each; a request chooses by its `model`"));
  }
  for (const auto& adapter : served.named) bare.push_back(adapter.path.string());
  if (!served.named.empty()) arguments.derive("adapters", bare);
  served.at_run_time = arguments.boolean("enable_lora") || arguments.has("lora_resolver_dir");
  served.max_loras = arguments.maybe_integer("max_loras");
  served.max_lora_rank = arguments.maybe_integer("max_lora_rank");
  return served;
}

void use_server_seats(const Arguments& arguments, engine::EngineOptions& options) {
  options.max_num_seqs = arguments.integer("max_num_seqs");
  options.enable_prefix_caching = arguments.boolean("enable_prefix_caching");
  const auto gib = [&](const char* flag) {
    return static_cast<std::uint64_t>(std::llround(arguments.real(flag) * (1 << 30)));
  };
  options.swap.bytes = gib("swap_space");
  options.swap.dir = arguments.maybe_string("swap_dir").value_or("");
  options.swap.dir_bytes = gib("swap_dir_space");
  options.top_logprobs = arguments.integer("max_logprobs");
  options.max_num_batched_tokens =
      arguments.maybe_integer("max_num_batched_tokens").value_or(options.max_num_batched_tokens);
  options.target_inter_token_latency = arguments.real("target_inter_token_latency");
}

server::HttpOptions http_options(const Arguments& arguments) {
  server::HttpOptions options;
  options.host = arguments.string("host");
  options.port = static_cast<std::uint16_t>(arguments.integer("port"));
  options.ssl_certfile = arguments.maybe_string("ssl_certfile").value_or("");
  options.ssl_keyfile = arguments.maybe_string("ssl_keyfile").value_or("");
  if (options.ssl_certfile.empty() != options.ssl_keyfile.empty()) {
    throw Failure(usage_error("--ssl_certfile and --ssl_keyfile need each other", "give both"));
  }
  return options;
}

server::HttpOptions served_http_options(const Arguments& arguments) {
  server::HttpOptions options = http_options(arguments);
  options.max_bodies_bytes = static_cast<std::size_t>(arguments.integer("request_memory"));
  return options;
}

bool is_loopback(const std::string& host) { return host == "127.0.0.1" || host == "::1" || host == "localhost"; }

server::MediaOptions media_options(const Arguments& arguments) {
  server::MediaOptions media;
  media.allowed_domains = arguments.list("allowed_media_domains");
  for (const std::string& domain : media.allowed_domains) {
    if (domain == "*" || is_host_name(domain)) continue;
    throw Failure(usage_error(cat("--allowed_media_domains takes names of hosts, not ", domain),
                              "write each as images.example.com, or * alone for any"));
  }
  media.allowed_local_path = arguments.maybe_string("allowed_local_media_path").value_or("");
  std::error_code ignored;
  if (!media.allowed_local_path.empty() && !fs::is_directory(media.allowed_local_path, ignored)) {
    throw Failure(usage_error(cat("--allowed_local_media_path ", media.allowed_local_path.string(), " is no folder"),
                              "name the folder that has the images"));
  }
  media.allow_redirects = arguments.boolean("media_url_allow_redirects");
  media.timeout = std::chrono::milliseconds(std::llround(arguments.real("image_fetch_timeout") * 1000));
  return media;
}

std::shared_ptr<server::AccessLog> access_log(const Arguments& arguments) {
  const std::string where = arguments.string("access_log");
  if (where == "false") return nullptr;
  return server::AccessLog::open(where == "true" ? "" : where).value();
}

server::ServerOptions server_options(const Arguments& arguments, const engine::LLM& llm, const std::string& model) {
  server::ServerOptions options;
  options.api_key = arguments.maybe_string("api_key").value_or("");
  options.version = version_number();
  options.request_timeout = std::chrono::milliseconds(std::llround(arguments.real("request_timeout") * 1000));
  server::ServiceOptions& service = options.service;
  service.model_names = arguments.list("served_model_name");
  if (service.model_names.empty()) service.model_names.push_back(short_name(model));
  service.sleep_on_idle = std::chrono::seconds(arguments.maybe_integer("sleep_on_idle").value_or(0));
  service.loads_adapters = arguments.boolean("enable_lora");
  service.lora_resolver_dir = arguments.maybe_string("lora_resolver_dir").value_or("");
  service.sampling = sampling_params(arguments, llm.default_sampling());
  service.formats = answer_formats(arguments, llm);
  service.system = system_message(arguments);
  service.media = media_options(arguments);
  service.max_queue_len = arguments.integer("max_queue_len");
  if (arguments.was_set("seed")) service.seed = service.sampling.seed;
  return options;
}

}  // namespace tern::cli
