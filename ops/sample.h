// sample: the next token of each row.
//
// Order: repetition penalty (tokens of the history: z > 0 ? z / r : z r), then frequency * times + presence for tokens
//   generated (history from output_begin on), then bias, mask, temperature, min-p, top-k, top-p, as vLLM has it. min-p
//   keeps tokens of at least min_p (1 at most) times the largest probability; top-k keeps the first k of these, in
//   order of falling probability, ties by rising id; top-p keeps a token while the probability before it (of what is
//   left by then) is below p; the first is always kept. The id is the first, in order of ids, whose cumulative share of
//   the kept tokens exceeds uniform[row]: no sort is needed where nothing is ranked. The host draws the numbers, so
//   that a device has no generator of its own. temperature 0: the largest, ties by the lowest id. Nothing allowed by
//   the mask: id -1, logprob -inf.
// logprob: of the drawn token under log_softmax of the untouched logits. top_ids: the `tops` most likely tokens under
// it,
//   the likeliest first, ties by rising id; top_logprobs: theirs (-inf in a row without a finite logit).
//
// Shapes: logits [rows, vocab] f32, finite or -inf; per row: temperature, top_p, min_p, repetition (> 0), presence,
//   frequency f32, top_k i32; history [blocks, block_size] i32 with history_table [rows, max_blocks], history_len and
//   output_begin [rows] i32, absent together with the three penalties; bias_ids [rows, biases] i32 (tokens outside of
//   the vocabulary are skipped; what stands twice is added twice) beside bias [rows, biases] f32; mask [rows,
//   ceil(vocab / 32)] u32; uniform [rows] f32; ids [rows] i32, logprob [rows] f32; top_ids [rows, tops] i32 beside
//   top_logprobs [rows, tops] f32, tops <= vocab.
// History: token t of row r, of history_len[r] in all, is history[history_table[r, t / block_size], t % block_size]:
//   tokens lie as the keys and values of a paged cache do, and rows may share blocks. Tokens outside of the vocabulary
//   are skipped. Unused entries of the table name any block; they, block 0 and what is beyond history_len are not read.
// Dtypes: fp32. Aliasing: none. Determinism: always the same bits on one device; row invariant.
// Backward: none. Decomposition: none.
// Tolerance: ids exact, except where a border of the choice lies within 1e-5 of its total: then a token that may be
// kept,
//   or the neighbours of the border; log-probabilities: u32 growth(vocab) times what ops/ref/sample.cpp
//   propagates; top_ids exact.
#pragma once

#include "ops/emit.h"

namespace tern::ops {

struct SampleInputs {
  Value logits;       // [rows, vocab] f32
  Value temperature;  // [rows] f32
  Value top_k;        // [rows] i32, 0: off
  Value top_p;        // [rows] f32, 1: off
  Value min_p;        // [rows] f32, 0: off
  // Absent together: no penalties.
  Value repetition;     // [rows] f32, 1: off
  Value presence;       // [rows] f32, 0: off
  Value frequency;      // [rows] f32, 0: off
  Value history;        // [blocks, block_size] i32
  Value history_table;  // [rows, max_blocks] i32
  Value history_len;    // [rows] i32
  Value output_begin;   // [rows] i32
  // Absent together.
  Value bias_ids;         // [rows, biases] i32
  Value bias;             // [rows, biases] f32
  Value mask;             // [rows, ceil(vocab / 32)] u32, may be absent
  Value uniform;          // [rows] f32, in [0, 1)
  std::int64_t tops = 0;  // how many of the most likely tokens are told
};
struct SampleOut {
  Value ids;
  Value logprob;
  Value top_ids;  // absent unless asked for
  Value top_logprobs;
};
[[nodiscard]] SampleOut sample(Emitter& emitter, const SampleInputs& inputs, std::uint32_t needs = 0);

}  // namespace tern::ops
