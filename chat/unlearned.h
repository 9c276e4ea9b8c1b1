// Parts of an assistant's text that are shown and not learned: results of tools that stand within it. They travel
// through a chat template between two characters that no text has.
#pragma once

#include "chat/supervised.h"

namespace tern::chat {

inline constexpr const char* kUnlearnedBegin = "\xEE\xA3\xBC";  // U+E8FC
inline constexpr const char* kUnlearnedEnd = "\xEE\xA3\xBD";    // U+E8FD

// The text without these characters, and its spans without what stands between them; with `all`, with it.
[[nodiscard]] SupervisedText without_marks(SupervisedText marked, bool all);

}  // namespace tern::chat
