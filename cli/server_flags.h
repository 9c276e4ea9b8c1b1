// From the flags of `tern deploy` to what the server takes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cli/flags/arguments.h"
#include "server/server.h"

namespace tern::cli {

// --adapters: a directory, put over the weights for all requests; or name=directory, each of which requests choose by
// name. Puts the bare directories in their place, where others look for them. --enable_lora, --max_loras,
// --max_lora_rank. Throws Failure (usage): several without names, a name twice.
[[nodiscard]] engine::ServedAdapters served_adapters(Arguments& arguments);

// --max_num_seqs, --max_num_batched_tokens, --target_inter_token_latency, --max_logprobs, --enable_prefix_caching,
// --swap_space, --swap_dir, --swap_dir_space.
void use_server_seats(const Arguments& arguments, engine::EngineOptions& options);

// --host, --port, --ssl_certfile, --ssl_keyfile. Throws Failure (usage) for one of the last two alone.
[[nodiscard]] server::HttpOptions http_options(const Arguments& arguments);
// The same and --request_memory, of commands that serve a model or pass its requests on.
[[nodiscard]] server::HttpOptions served_http_options(const Arguments& arguments);

// Whether only this machine reaches a server that listens there.
[[nodiscard]] bool is_loopback(const std::string& host);

// --access_log: null without one. Throws Failure (failed) where its file can't be written to.
[[nodiscard]] std::shared_ptr<server::AccessLog> access_log(const Arguments& arguments);

// --allowed_media_domains, --allowed_local_media_path, --media_url_allow_redirects, --image_fetch_timeout. Throws
// Failure (usage) for what is no host, and for a folder that isn't there.
[[nodiscard]] server::MediaOptions media_options(const Arguments& arguments);

// --api_key, --served_model_name, --system, --reasoning_parser, --tool_call_parser, --lora_resolver_dir,
// --max_queue_len, --request_timeout, --seed and those of sampling. Throws Failure (usage).
[[nodiscard]] server::ServerOptions server_options(const Arguments& arguments, const engine::LLM& llm,
                                                   const std::string& model);

}  // namespace tern::cli
