// What keys and values hang on beside the tokens before them, in words that a folder of --swap_dir is named by: blocks
// of another model are another folder's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "models/speculative_head.h"
#include "session/session.h"

namespace tern::engine {

// Of a session after open_model: every byte of the checkpoint, how it's read and turned, and the adapter of all
// requests ("": none). Reads all weights once. Errors (data): a file that can't be read.
[[nodiscard]] Result<std::string> about_model(const session::Session& session, const std::filesystem::path& adapter);

// Of a head whose keys and values lie in the same blocks.
[[nodiscard]] std::string about_head(const models::SpeculativeHead& head);

// How numbers are computed. Of a context that positions are scaled for, its length counts too.
[[nodiscard]] std::string about_numerics(const nn::Numerics& numerics, std::int64_t max_model_len);

}  // namespace tern::engine
