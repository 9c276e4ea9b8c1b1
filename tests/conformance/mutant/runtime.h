// Mistakes in the runtime, each a table with one function spoiled: `check_capabilities` finds every one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "accel/backend.h"

namespace tern::mutant {

struct RuntimeMistake {
  const char* name;
  std::uint32_t capability;                        // without which there is nothing to be wrong; 0: always
  bool (*applies)(const accel::Backend& backend);  // null: always
  void (*spoil)(tern_backend& table);
};

[[nodiscard]] std::vector<RuntimeMistake> runtime_mistakes();
// Wraps `inner`. One lives at a time.
[[nodiscard]] std::shared_ptr<const accel::Backend> with_mistake(std::shared_ptr<const accel::Backend> inner,
                                                                 const RuntimeMistake& mistake);

}  // namespace tern::mutant
