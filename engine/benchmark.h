// How fast a model answers on a device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/llm_engine.h"
#include "session/session.h"

namespace tern::engine {

struct BenchmarkOptions {
  EngineOptions engine;  // adapters, cache; seats, lengths and compute follow from below and from the session
  std::int64_t prompt_length = 512;
  std::int64_t new_tokens = 128;
  std::int64_t batch = 1;  // sequences at once
  std::uint64_t seed = 42;
  std::function<bool()> stopped;  // asked before each step
};

// Tokens of a sequence at its end: where there are several, who comes first goes on while the last prompts are computed.
[[nodiscard]] std::int64_t longest_sequence(const models::ModelConfig& config, const BenchmarkOptions& options);

struct PhaseRate {
  const char* phase;  // "prefill" or "decode"
  std::int64_t batch = 0;
  std::int64_t tokens = 0;  // computed in this phase, of all sequences
  std::int64_t prompt_length = 0;
  double seconds = 0;
  double gflops = 0;  // GFLOP/s of the model's products and its attention
  double gbps = 0;    // GB/s of weights, once a step, and of the keys and values that are attended to
  Guesses guesses;    // of decode, where tokens are guessed

  [[nodiscard]] double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
};

// Prompts of words of chance, all begun at once: the rate of prefill, then of decode (absent where a prompt makes no
// more than its first token). A round before it touches memory and warms caches. The session's weights are loaded.
// Throws Failure (interrupted) where `stopped` says so, (device) where memory does not suffice.
[[nodiscard]] std::vector<PhaseRate> measure_generation(session::Session& session, const BenchmarkOptions& options);

}  // namespace tern::engine
