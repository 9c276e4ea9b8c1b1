// What a step of a head hands to its program, written in place.
#pragma once

#include <span>

#include "engine/head_runner.h"
#include "graph/program.h"
#include "nn/token_inputs.h"

namespace tern::engine {

// Beside the inputs of nn::declare_tokens, whose `ids` are those that stand at the pairs' places.
inline constexpr const char* kNextIds = "next_ids";      // [tokens] i32: of the tokens behind them
inline constexpr const char* kStateRows = "state_rows";  // [tokens] i32: rows of the states

// Writes the inputs of the program's next launch; gives its counts. Parts draw only in a program that has rows.
[[nodiscard]] graph::Counts fill_head_inputs(graph::Program& program, const nn::PagedCapacity& cache,
                                             std::span<const HeadPart> parts);

}  // namespace tern::engine
