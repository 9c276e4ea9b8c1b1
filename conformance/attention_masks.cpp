#include "conformance/attention_masks.h"

#include <algorithm>

namespace tern::conformance {
namespace {

// What one sequence's rows see, [len_q, width] of `width` >= len_k.
void show_sequence(CaseBuilder& b, Mask kind, std::int64_t len_q, std::int64_t len_k, std::int64_t width,
                   std::vector<std::int64_t>& out) {
  const std::int64_t before = len_k - len_q;  // keys that are no rows
  std::vector<std::int64_t> group(static_cast<std::size_t>(std::max<std::int64_t>(len_q, 0)));
  for (std::size_t i = 0; i < group.size(); ++i) {  // of spans: where a row's begins; of trees: a row's parent, or -1
    const bool goes_on = i > 0 && b.random().below(4) != 0;
    if (kind == Mask::spans) group[i] = goes_on ? group[i - 1] : static_cast<std::int64_t>(i);
    if (kind == Mask::tree) group[i] = b.random().below(static_cast<std::int64_t>(i) + 1) - 1;
  }
  for (std::int64_t i = 0; i < len_q; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(out.size());
    out.resize(out.size() + static_cast<std::size_t>(width));
    const auto row = out.begin() + at;
    const bool blind = b.random().below(8) == 0;
    std::int64_t run = 0;  // keys left of one
    bool run_shown = kind == Mask::runs && b.random().below(2) == 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t key = j - before;  // as a row
      // Beyond the keys stands what must not be looked at.
      bool shown = j >= len_k || (kind == Mask::chance && !blind && b.random().below(3) != 0);
      if (kind == Mask::spans && key < len_q)
        shown = key <= i || group[static_cast<std::size_t>(key)] == group[static_cast<std::size_t>(i)];
      if (kind == Mask::tree && key < 0) shown = true;
      if (kind == Mask::runs && run-- == 0) {
        run = b.random().below(700);
        run_shown = !run_shown;
      }
      if (kind == Mask::runs && j < len_k) shown = run_shown && !blind;
      row[j] = shown ? 1 : 0;
    }
    for (std::int64_t up = i; kind == Mask::tree && up >= 0; up = group[static_cast<std::size_t>(up)]) {
      if (before + up >= 0) row[before + up] = 1;
    }
  }
}

}  // namespace

void fill_mask(CaseBuilder& b, int arg, Mask kind, const MaskedRows& rows) {
  if (kind == Mask::none) return;
  // Wider than any sequence: whoever takes its rows for shorter ones reads the wrong keys.
  const std::int64_t width = rows.longest + 3;
  std::vector<std::int64_t> shown;
  for (std::size_t s = 0; s < rows.len_k.size(); ++s) {
    show_sequence(b, kind, rows.cu_q[s + 1] - rows.cu_q[s], rows.len_k[s], width, shown);
  }
  shown.resize(static_cast<std::size_t>(rows.valid * width), 1);
  b.booleans(arg, {rows.capacity, width}, shown, 0, 0);
}

}  // namespace tern::conformance
