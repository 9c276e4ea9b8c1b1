#include "mutant/places.h"

#include <algorithm>
#include <initializer_list>

#include "base/strings.h"
#include "ops/rules.h"

namespace tern::mutant {
namespace {

// Whether a dynamic count cuts the argument: what sums over the rows has none of its own.
bool has_rows(const ops::ArgSpec& arg) {
  for (std::string_view begin : {"[rows", "[q_rows", "[k_rows", "[...]", "[m, n]", "axis 1: [rows]"}) {
    if (arg.shape.text.starts_with(begin)) return true;
  }
  return false;
}

// Ops with a call of more rows than 16 bits count; those of attention and of heads have fewer in any model.
bool has_many_rows(std::uint32_t op) {
  const std::initializer_list<std::uint32_t> few = {TERN_OP_SAMPLE, TERN_OP_EMBEDDING, TERN_OP_MATMUL_Q,
                                                    TERN_OP_LINEAR_CROSS_ENTROPY, TERN_OP_SINK_SCALE};
  return std::find(few.begin(), few.end(), op) == few.end();
}

std::ptrdiff_t num_accumulating(const ops::OpSpec& spec) {
  return std::count_if(spec.args.begin(), spec.args.end(),
                       [](const ops::ArgSpec& arg) { return (arg.flags & ops::kAccumulate) != 0; });
}

// Whether a dynamic count does nothing but cut rows that stand alone, so that one more than it says, which is
// unspecified, changes none of the others.
bool counts_rows_alone(const ops::OpSpec& spec) {
  bool any = false;
  for (const conformance::CaseSource& source : conformance::case_sources(spec.id)) {
    if (!source.variant.dynamic || source.variant.split != 0) continue;
    any = true;
    const conformance::Case c = source.make(1);
    const std::vector<TensorDesc> descs = conformance::descs_of(c);
    for (std::size_t i = 0; i < descs.size(); ++i) {
      if (!is_present(descs[i])) continue;
      const int row = ops::op_rules(c.op).row_dim({c.op, descs, c.attrs, c.accumulate}, static_cast<int>(i));
      if (c.written(i) && row < 0) return false;
      if (descs[i].dynamic_dim >= 0 && descs[i].dynamic_dim != row) return false;
    }
  }
  return any;
}

bool packs_for_both(const accel::Device& device) {
  if (!device.backend().has(&tern_backend::packed_info)) return false;
  const TensorDesc weight = make_desc(TERN_F32, {64, 64});
  tern_packed_info info{};
  info.size = sizeof(info);
  return device.api().packed_info(device.raw(), &weight, TERN_USE_FORWARD | TERN_USE_INPUT_GRAD, &info) == TERN_OK;
}

}  // namespace

bool is_possible(Mistake mistake, const accel::Device& device) {
  if (mistake == Mistake::forward_pack) return packs_for_both(device);
  const bool is_of_captures = mistake == Mistake::stale_replay || mistake == Mistake::partial_update;
  return !is_of_captures || device.can(TERN_CAP_CAPTURE);
}

std::vector<int> places(const ops::OpSpec& spec, Mistake mistake) {
  std::vector<int> out;
  for (int i = 0; i < static_cast<int>(spec.args.size()); ++i) {
    const ops::ArgSpec& arg = spec.args[static_cast<std::size_t>(i)];
    const bool written = arg.role != ops::Role::input;
    const bool lengths = (arg.flags & ops::kLengths) != 0;
    const bool integer = ops::is_integer(arg.dtypes);
    const bool adds = (arg.flags & ops::kAccumulate) != 0;
    const std::uint32_t features = conformance::recipe_of(spec.id).features;
    bool fits = false;
    switch (mistake) {
      case Mistake::missed_tail:
      case Mistake::wrong_element:
      case Mistake::write_past_end:
        fits = written;
        break;
      case Mistake::scaled_output:
        fits = written && !integer;
        break;
      case Mistake::rows_past_256:  // of many rows, or of one long row of elements
        fits = written && !integer && arg.shape.text != "[1]" && arg.shape.text[1] != 'h' && arg.shape.text[1] != 'b';
        break;
      case Mistake::wrong_tile:
      case Mistake::columns_past_1024:
        fits = written && !integer &&
               (arg.shape.text == "[rows, width]" || arg.shape.text == "[m, n]; batched: [batch, m, n]" ||
                arg.shape.text == "[rows, out]; [rows, in] if not transpose_w");
        break;
      case Mistake::features_past_64:
        fits = written && !integer && arg.shape.text.find("_dim]") != std::string_view::npos &&
               arg.shape.text[1] != 'h' && arg.shape.text[1] != 'b';
        break;
      case Mistake::tf32:
        fits = i == 0 && (spec.id == TERN_OP_MATMUL || spec.id == TERN_OP_MATMUL_Q || spec.id == TERN_OP_ATTENTION ||
                          spec.id == TERN_OP_ATTENTION_PAGED || spec.id == TERN_OP_LINEAR_CROSS_ENTROPY);
        break;
      case Mistake::narrow_query:
        fits = i == 0 && (spec.id == TERN_OP_ATTENTION || spec.id == TERN_OP_ATTENTION_PAGED);
        break;
      case Mistake::lost_gradient:
        fits = spec.id == TERN_OP_LINEAR_CROSS_ENTROPY && (arg.name == "dh" || arg.name == "dw");
        break;
      case Mistake::count_tail:
        fits = written && !integer && (features & conformance::kDynamic) != 0 && has_rows(arg);
        break;
      case Mistake::large_stride:
      case Mistake::wrong_stride:  // there are rows to be padded
        fits = written && !integer &&
               (arg.shape.text.find(',') != std::string_view::npos || arg.shape.text.substr(0, 5) == "[...]") &&
               (features & conformance::kLayouts) != 0 && spec.id != TERN_OP_ROW_SUM;
        break;
      case Mistake::lost_special:
        fits = written && !integer && (features & conformance::kSpecials) != 0;
        break;
      case Mistake::not_deterministic:
        fits = written && !integer;
        break;
      case Mistake::row_variant:
        fits = written && !integer && (features & conformance::kRows) != 0 && arg.shape.text != "[1]" &&
               arg.shape.text != "[width]" && arg.shape.text != "[head_dim]" && arg.shape.text.substr(0, 6) != "[vocab";
        break;
      case Mistake::wrong_rounding:  // into something narrower than fp32
        fits = written && (arg.dtypes == ops::Dtypes::floating || arg.dtypes == ops::Dtypes::any);
        break;
      case Mistake::no_accumulate:
        fits = adds;
        break;
      case Mistake::always_accumulate:
        fits = arg.role == ops::Role::output;
        break;
      case Mistake::lost_term:
        fits = !written && !integer;
        break;
      case Mistake::ignored_mask:
      case Mistake::wrong_mask_row:
      case Mistake::wrong_mask_stride:
        fits = !written && arg.name == "mask" && arg.shape.find("mask_keys") == 1;
        break;
      case Mistake::read_past_end:
      case Mistake::write_input:
      case Mistake::stale_input:
        fits = !written && !lengths;
        break;
      case Mistake::one_accumulates:
        fits = adds && num_accumulating(spec) > 1;
        break;
      case Mistake::large_accumulate:
        fits = adds && (spec.id == TERN_OP_MATMUL || spec.id == TERN_OP_MATMUL_Q);
        break;
      case Mistake::forward_pack:
        fits = (spec.id == TERN_OP_MATMUL && arg.name == "out") || (spec.id == TERN_OP_MATMUL_Q && arg.name == "y") ||
               (spec.id == TERN_OP_LINEAR_CROSS_ENTROPY && arg.name == "dh");
        break;
      case Mistake::rows_past_65535:
        fits = written && !integer && arg.shape.text.starts_with("[rows") && has_many_rows(spec.id);
        break;
      case Mistake::batch_transpose:
      case Mistake::bias_before_alpha:
        fits = written && spec.id == TERN_OP_MATMUL;
        break;
      case Mistake::wrong_index:
        fits = !written && integer && !lengths;
        break;
      case Mistake::wrong_length:
        fits = lengths;
        break;
      default:
        break;
    }
    if (fits) out.push_back(i);
  }
  const auto only_in = [&](std::initializer_list<std::uint32_t> ops) {
    return std::find(ops.begin(), ops.end(), spec.id) != ops.end() ? std::vector<int>{-1} : std::vector<int>{};
  };
  switch (mistake) {
    case Mistake::long_count:
      if (counts_rows_alone(spec)) return {};
      [[fallthrough]];
    case Mistake::stale_lengths:
    case Mistake::short_count:
      if ((conformance::recipe_of(spec.id).features & conformance::kDynamic) == 0) return {};
      return {-1};
    case Mistake::stale_replay:
    case Mistake::partial_update:
    case Mistake::first_slot:
      if ((conformance::recipe_of(spec.id).features & conformance::kDynamic) == 0) return {};
      return {-1};
    case Mistake::forgotten_key:
    case Mistake::chunk_of_rows:
    case Mistake::late_chunk:
    case Mistake::window_from_end:
      return only_in({TERN_OP_ATTENTION, TERN_OP_ATTENTION_BACKWARD, TERN_OP_ATTENTION_PAGED});
    case Mistake::key_past_block:
      return only_in({TERN_OP_ATTENTION_PAGED});
    case Mistake::split_unscaled:
    case Mistake::split_empty:
    case Mistake::split_tail:
    case Mistake::split_planned:
    case Mistake::split_stale:
    case Mistake::split_sinks:
    case Mistake::split_window:
      return only_in({TERN_OP_ATTENTION, TERN_OP_ATTENTION_PAGED});
    case Mistake::split_border:
      return only_in({TERN_OP_ATTENTION_PAGED});
    case Mistake::no_max:
      return only_in({TERN_OP_ATTENTION, TERN_OP_ATTENTION_PAGED, TERN_OP_LINEAR_CROSS_ENTROPY});
    case Mistake::tanh_overflow:
      return only_in({TERN_OP_ACT_MUL, TERN_OP_ACT_MUL_BACKWARD});
    case Mistake::eps_outside_root:
      return only_in({TERN_OP_RMS_NORM, TERN_OP_QK_NORM_ROPE, TERN_OP_LAYER_NORM});
    case Mistake::lost_eps:
      return only_in({TERN_OP_ADAMW});
    case Mistake::stale_workspace:
    case Mistake::shared_workspace:
    case Mistake::ignored_stream:
    case Mistake::other_choice:
    case Mistake::ignored_surplus:
    case Mistake::leak:
      return {-1};
    case Mistake::wrong_attribute:
      for (int i = 0; i < static_cast<int>(spec.attrs.size()); ++i) {
        // bounds on lengths change nothing by themselves
        if (spec.attrs[static_cast<std::size_t>(i)].name.substr(0, 10) != "max_seqlen") out.push_back(i);
      }
      return out;
    default:
      return out;
  }
}

bool is_split(Mistake mistake) { return mistake >= Mistake::split_unscaled && mistake <= Mistake::split_border; }

namespace {

// What is made of the elements of keys and values, which codes are not.
bool decodes_keys(Mistake mistake) {
  switch (mistake) {
    case Mistake::forgotten_key:
    case Mistake::key_past_block:
    case Mistake::chunk_of_rows:
    case Mistake::late_chunk:
    case Mistake::window_from_end:
    case Mistake::no_max:
      return true;
    default:
      return is_split(mistake);
  }
}

}  // namespace

bool shows(std::uint32_t op, Mistake mistake, const conformance::Variant& v) {
  if (decodes_keys(mistake) && v.codes != TERN_F32) return false;
  if (is_split(mistake)) return v.split != 0;
  if (v.split != 0) return mistake == Mistake::no_max;
  if (mistake == Mistake::narrow_query) return v.narrow_keys;
  switch (mistake) {
    case Mistake::forward_pack:
      return v.both_uses;
    case Mistake::large_stride:
    case Mistake::wrong_stride:
      return v.layout == conformance::Layout::padded_rows;
    case Mistake::no_accumulate:
    case Mistake::large_accumulate:
    case Mistake::one_accumulates:
      return v.accumulate;
    case Mistake::short_count:
    case Mistake::long_count:
    case Mistake::count_tail:
    case Mistake::stale_replay:
      return v.dynamic;
    case Mistake::partial_update:
      return v.dynamic && v.size == 1 && v.in == TERN_F32;
    case Mistake::first_slot:
      return v.high_slots;
    case Mistake::leak:
      return v.size == 1 && v.option == 0 && v.in == TERN_F32;
    case Mistake::rows_past_256:
    case Mistake::rows_past_65535:
    case Mistake::columns_past_1024:
    case Mistake::features_past_64:
    case Mistake::wrong_tile:
    case Mistake::forgotten_key:
    case Mistake::key_past_block:
    case Mistake::chunk_of_rows:
    case Mistake::late_chunk:
    case Mistake::window_from_end:
    case Mistake::lost_gradient:
      return v.needs == 0 && !v.dynamic && v.special == 0 && v.layout == conformance::Layout::contiguous;
    case Mistake::lost_special:
      return v.special != 0 || v.size <= 3;
    case Mistake::not_deterministic:
      return (v.needs & TERN_NEED_DETERMINISTIC) != 0;
    case Mistake::row_variant:
      return (v.needs & TERN_NEED_ROW_INVARIANT) != 0;
    case Mistake::wrong_rounding:
      return v.in != TERN_F32 || v.out != TERN_F32 || op == TERN_OP_CAST_COPY || op == TERN_OP_ADAMW;
    case Mistake::wrong_attribute:
      return true;
    case Mistake::tf32:  // of products the longest sums alone: errors that cancel must show as well
      return v.in == TERN_F32 && v.out == TERN_F32 && v.option <= 1 &&
             (op == TERN_OP_MATMUL ? v.size == 6 || v.size >= 10 : v.size <= 4);
    default:
      return v.size <= 4;
  }
}

bool needs_laws(Mistake mistake) {
  switch (mistake) {
    case Mistake::stale_workspace:
    case Mistake::stale_lengths:
    case Mistake::stale_input:
    case Mistake::not_deterministic:
    case Mistake::row_variant:
    case Mistake::ignored_stream:
    case Mistake::other_choice:
    case Mistake::ignored_surplus:
    case Mistake::shared_workspace:
    case Mistake::stale_replay:
    case Mistake::partial_update:
    case Mistake::leak:
    case Mistake::split_stale:
      return true;
    default:
      return false;
  }
}

std::string place_name(const ops::OpSpec& spec, Mistake mistake, int place) {
  if (place < 0) return std::string(spec.name);
  const auto at = static_cast<std::size_t>(place);
  return cat(spec.name, ".", mistake == Mistake::wrong_attribute ? spec.attrs[at].name : spec.args[at].name);
}

std::vector<tern_dtype> dtypes_of(std::uint32_t op) {
  if ((conformance::recipe_of(op).features & conformance::kDtypes) == 0) return {TERN_F32};
  return {TERN_F32, TERN_BF16, TERN_F16};
}

}  // namespace tern::mutant
