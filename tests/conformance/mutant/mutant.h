// A backend with one mistake in it: the table of a sound one, wrapped. Each mistake changes one element, one tail or
// one part of one argument, and only where the class says; the conformance suite must find every one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accel/backend.h"

namespace tern::mutant {

enum class Mistake {
  none,
  missed_tail,        // the last element of an output is not written
  wrong_element,      // one element is off by a hundredth
  wrong_rounding,     // one element of a 2-byte float output is rounded the other way
  wrong_stride,       // the first element of the last row lands where the row would begin without padding
  lost_term,          // the last element of an input counts as zero: a carry of a reduction lost
  no_accumulate,      // one element replaces what it should add to
  always_accumulate,  // one element adds to what it should replace
  write_past_end,     // a byte after an output
  read_past_end,      // one element depends on the byte after an input
  write_input,        // one element of an input is changed
  stale_workspace,    // one element depends on what the workspace held
  stale_lengths,      // lengths and counts are those of the first launch
  stale_input,        // one element of an input is that of the first launch
  short_count,        // the last row below a dynamic count is not computed
  long_count,         // one row beyond a dynamic count takes part
  wrong_index,        // the last element of an integer input is off by one
  wrong_length,       // a boundary between two sequences is off by one
  wrong_attribute,    // one element comes from a kernel with another attribute: masks off by one, another eps, ...
  lost_special,       // a NaN or infinity of an output becomes a number
  not_deterministic,  // every other launch differs in one bit
  row_variant,        // one row alone differs in one bit from the same row among others
  ignored_stream,     // the kernel does not wait for earlier work of its stream
  scaled_output,      // a whole output is seven tenths of what it should be
  wrong_tile,         // the last tile of 16 x 16 holds what the one before it does
  rows_past_256,      // rows from 256 on are not computed
  columns_past_1024,  // columns from 1,024 on are not computed
  features_past_64,   // features of a head from 64 on are 0
  count_tail,         // rows below a dynamic count, but beyond the last whole block of 8, are not computed
  forgotten_key,      // a row that sees more than 64 keys forgets the last
  ignored_mask,       // every key is shown: in attention_backward, the mask of the forward is missing
  wrong_mask_row,     // a row has the mask of the next one
  wrong_mask_stride,  // the mask's rows are taken to be as long as the longest sequence
  key_past_block,     // such a row forgets the first key of a paged cache's second block
  chunk_of_rows,      // chunks are counted from a sequence's first query row, not from its first key
  late_chunk,         // the first row of a chunk still sees the one before it
  window_from_end,    // where not causal, a window is that of the last key
  lost_gradient,      // a gradient of the loss head is 0 for vocabularies from 4,096 on
  split_unscaled,     // partitions of a decode row's keys are added as they are, each by its own largest logit
  split_empty,        // a partition without a visible key gives 0 / 0
  split_tail,         // the last partition of a row is left out unless it is full
  split_planned,  // as many partitions as the planned maximum needs share a row's keys; what is left over is forgotten
  split_stale,    // partitions of an earlier, longer launch are merged too
  split_sinks,    // each partition counts the sink
  split_window,   // each partition shows the last keys of its own
  split_border,   // a border inside a block: the keys of the block before it count twice
  no_max,         // a softmax without its largest logit taken away: beyond 88 there is no number
  tanh_overflow,  // tanh as a ratio of exponentials: where they overflow there is no number
  eps_outside_root,   // a norm divides by root + eps
  lost_eps,           // adamw leaves out its eps
  one_accumulates,    // an output is added to because another output of the call is
  batch_transpose,    // in a batch of products, only the first honours the flags that transpose
  bias_before_alpha,  // alpha multiplies the bias too
  large_accumulate,   // a product over 1,000 or more terms replaces what it should add to
  large_stride,       // from 250 rows or columns on, the last row lands where it would begin without padding
  rows_past_65535,    // rows that 16 bits do not count are not computed: a grid's second dimension ends there
  forward_pack,       // a weight packed for both uses is right for x w^T alone
  shared_workspace,   // two launches that no order holds apart use one static workspace
  tf32,               // an fp32 product rounds its first factor to 11 bits
  narrow_query,       // a query in fp32 is rounded to bf16, in which the keys are
  stale_replay,       // a replayed launch takes its counts from when it was captured
  partial_update,     // of several captured launches updated in one call, only the first gets its numbers
  first_slot,         // every dynamic dimension takes its count from slot 0
  leak,               // each launch keeps some device memory for good
  other_choice,       // a choice given to plan is not kept
  ignored_surplus,    // what a newer host asks for beyond this version is left out in silence
  late_host_args,  // host_args are read after launch has returned: ends in a crash, so it is tried in a process of its
                   // own
  late_desc,       // the desc given to plan or compile is read when the kernel is launched: tried in the same way
  late_bind_args,  // what bind was given is read at launch: tried in the same way
  waiting_launch,  // a launch waits for its stream
  capability_set,  // a clear flag is said to be set
  capability_clear,  // a set flag is said to be clear
};
[[nodiscard]] const char* name_of(Mistake mistake);
[[nodiscard]] const std::vector<Mistake>& kernel_mistakes();  // those made in an op

struct Plan {
  Mistake mistake = Mistake::none;
  std::uint32_t op = 0;  // only there
  int arg = -1;          // the argument, or attribute for wrong_attribute
  std::uint32_t capability = 0;
};

// Wraps `inner`. One mutant lives at a time: plugins have no closure.
[[nodiscard]] std::shared_ptr<const accel::Backend> mutate(std::shared_ptr<const accel::Backend> inner,
                                                           const Plan& plan);
// How often the mistake changed anything since then.
[[nodiscard]] int times_made();

}  // namespace tern::mutant
