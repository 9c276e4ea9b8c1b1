#include "chat/unlearned.h"

#include <algorithm>
#include <string_view>

namespace tern::chat {
namespace {

// Adds what of the marked text's spans lies in [begin, end), which stands at the end of the other text.
void add_spans(const std::vector<SupervisedSpan>& marked, std::size_t begin, std::size_t end, SupervisedText& out) {
  const std::size_t shift = begin - out.text.size();
  for (const SupervisedSpan& span : marked) {
    const std::size_t from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from >= to) continue;
    const SupervisedSpan moved{from - shift, to - shift, span.weight};
    const bool joins =
        !out.spans.empty() && out.spans.back().end == moved.begin && out.spans.back().weight == moved.weight;
    if (joins) {
      out.spans.back().end = moved.end;
    } else {
      out.spans.push_back(moved);
    }
  }
}

}  // namespace

SupervisedText without_marks(SupervisedText marked, bool all) {
  constexpr std::string_view kBegin = kUnlearnedBegin, kEnd = kUnlearnedEnd;
  const std::string_view text = marked.text;
  if (text.find(kBegin) == std::string_view::npos) return marked;
  SupervisedText out;
  bool unlearned = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(unlearned ? kEnd : kBegin, at), text.size());
    if (all || !unlearned) add_spans(marked.spans, at, end, out);
    out.text += text.substr(at, end - at);
    at = end + (unlearned ? kEnd : kBegin).size();
    unlearned = !unlearned;
  }
  return out;
}

}  // namespace tern::chat
