#include "engine/prompt_lookup.h"

#include <algorithm>

namespace tern::engine {

void look_up(std::span<const std::int32_t> tokens, const SpeculativeOptions& options, std::int64_t most,
             std::vector<std::int32_t>& drafts) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t n = options.prompt_lookup_max; n >= options.prompt_lookup_min && most > 0; --n) {
    if (n >= size) continue;
    const auto words = tokens.last(static_cast<std::size_t>(n));
    for (std::int64_t at = size - n - 1; at >= 0; --at) {
      const auto there = tokens.subspan(static_cast<std::size_t>(at));
      if (!std::equal(words.begin(), words.end(), there.begin())) continue;
      const auto follow = there.subspan(words.size());
      drafts.insert(drafts.end(), follow.begin(),
                    follow.begin() + std::min<std::int64_t>(most, static_cast<std::int64_t>(follow.size())));
      return;
    }
  }
}

void PromptLookup::propose(std::span<const DraftWish> wishes, std::int64_t /*running*/) {
  for (const DraftWish& wish : wishes) look_up(wish.sequence->tokens, options_, wish.most, wish.sequence->drafts);
}

}  // namespace tern::engine
