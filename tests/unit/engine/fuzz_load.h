// What the scheduler is fuzzed with, and what of it a device sees.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"

namespace tern::engine {

struct FuzzLoad {
  std::int64_t blocks = 16;
  std::int64_t seats = 5;
  std::int64_t batch = 16;
  std::int64_t longest_prompt = 40;
  std::int64_t longest_answer = 24;
  std::int64_t requests = 150;
  std::uint32_t every = 4;  // steps between arrivals
  bool cached = true;
  bool prioritised = true;
  std::int64_t adapters = 0;  // that requests choose among
  std::int64_t max_loras = 0;
  std::int64_t swap_blocks = 0;          // of the second tier; 0: there is none
  std::int64_t swap_places = INT64_MAX;  // that there is memory for
  bool stored = false;                   // behind it are files, some of which are damaged
  bool limits = false;                   // the tokens of prompts beside answers
  std::int64_t snapshots = 0;            // copies of states that there is room for; 0: layers keep none
};

// A step as the device sees it, and who was taken out behind it.
struct Seen {
  struct Part {
    SequenceId id;
    std::int64_t begin, count, drafts;
    std::int32_t seat;
    std::vector<std::int32_t> blocks;
    std::int32_t adapter_slot;
    friend bool operator==(const Part&, const Part&) = default;
  };
  std::vector<Part> parts;
  std::vector<SequenceId> ended;
  friend bool operator==(const Seen&, const Seen&) = default;
};

}  // namespace tern::engine
