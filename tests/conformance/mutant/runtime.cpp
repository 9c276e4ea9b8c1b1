#include "mutant/runtime.h"

#include <algorithm>
#include <cstring>

#include "mutant/runtime_state.h"

namespace tern::mutant {

RuntimeState& runtime_state() {
  static RuntimeState one;
  return one;
}

std::vector<RuntimeMistake> runtime_mistakes() {
  std::vector<RuntimeMistake> out;
  for (const auto list : {memory_mistakes(), work_mistakes(), rank_mistakes()})
    out.insert(out.end(), list.begin(), list.end());
  return out;
}

std::shared_ptr<const accel::Backend> with_mistake(std::shared_ptr<const accel::Backend> sound,
                                                   const RuntimeMistake& mistake) {
  RuntimeState& state = runtime_state();
  state = {};
  state.backend = std::move(sound);
  state.inner = &state.backend->api();
  std::memcpy(&state.table, state.inner, std::min<std::size_t>(sizeof(state.table), state.inner->size));
  mistake.spoil(state.table);
  return accel::Backend::wrap(&state.table);
}

}  // namespace tern::mutant
