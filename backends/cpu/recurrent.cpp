#include "backends/cpu/recurrent.h"

#include <algorithm>

#include "backends/cpu/attention_tile.h"
#include "backends/cpu/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace tern::cpu {

Recurrences read_recurrences(const KernelArgs& args, const RecurrentArgs& at, std::int64_t longest, const char* op) {
  Recurrences out;
  out.bounds = read_lengths(args, 0, at.cu_seqlens);
  check_cumulated(out.bounds, args[at.rows].dim(0), "cu_seqlens");
  const bool has_state = at.state >= 0 && args[at.state].present();
  for (std::size_t s = 0; s + 1 < out.bounds.size(); ++s) {
    Recurrence sequence{out.bounds[s], out.bounds[s + 1], 0, false};
    if (sequence.length() == 0) continue;
    if (sequence.length() > longest) {
      throw Failure(
          data_error(op, cat("sequences of at most ", longest, " rows"), cat(sequence.length()), kCallAsSpecified));
    }
    if (has_state && static_cast<std::int64_t>(s) >= args[at.seats].dim(0)) {
      throw Failure(data_error(op, cat("a seat for each of ", out.bounds.size() - 1, " sequences"),
                               cat(args[at.seats].dim(0)), kCallAsSpecified));
    }
    if (has_state) {
      sequence.seat = args[at.seats].data<const std::int32_t>()[s];
      require_index(sequence.seat, args[at.state].dim(0), op);
      sequence.goes_on = args[at.kv_lens].data<const std::int32_t>()[s] > sequence.length();
    }
    out.sequences.push_back(sequence);
  }
  return out;
}

Kept<std::int32_t> sequence_of_rows(const Recurrences& recurrences, std::int64_t rows) {
  Kept<std::int32_t> out(static_cast<std::size_t>(rows), -1);
  for (std::size_t s = 0; s < recurrences.sequences.size(); ++s) {
    const Recurrence& sequence = recurrences.sequences[s];
    std::fill(out.begin() + sequence.begin, out.begin() + sequence.end, static_cast<std::int32_t>(s));
  }
  return out;
}

std::int64_t longest_of(std::int32_t max_seqlen, std::int64_t rows) { return std::min<std::int64_t>(max_seqlen, rows); }

}  // namespace tern::cpu
