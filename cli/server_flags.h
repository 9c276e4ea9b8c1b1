// From the flags of `tern deploy` to what the server takes.
#pragma once

#include <filesystem>
#include <string>

#include "cli/flags/arguments.h"
#include "server/server.h"

namespace tern::cli {

struct ServedAdapter {
  std::string name;            // under which it is asked for; "": the model's own names
  std::filesystem::path path;  // "": none
};
// --adapters: a directory, or name=directory. Puts the bare directory in its place, where others look for it. Throws
// Failure (usage) for several.
[[nodiscard]] ServedAdapter served_adapter(Arguments& arguments);

// --max_num_seqs, --max_num_batched_tokens, --max_logprobs, --enable_prefix_caching.
void use_server_seats(const Arguments& arguments, engine::EngineOptions& options);

// --host, --port, --ssl_certfile, --ssl_keyfile. Throws Failure (usage) for one of the last two alone.
[[nodiscard]] server::HttpOptions http_options(const Arguments& arguments);

// --api_key, --served_model_name, --system, --reasoning_parser,
// --tool_call_parser, --max_queue_len, --seed and those of sampling. Throws Failure (usage).
[[nodiscard]] server::ServerOptions server_options(const Arguments& arguments, const engine::LLM& llm,
                                                   const std::string& model, const ServedAdapter& adapter);

}  // namespace tern::cli
