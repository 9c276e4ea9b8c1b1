#include "attention_layout.h"

#include <string_view>

namespace fake {

Layout layout_of(Op& op, const char* name, std::initializer_list<const char*> taken) {
  if (name == nullptr) refuse(ACLNN_ERR_PARAM_NULLPTR, "inputLayout is null");
  const std::string_view text = name;
  op.need(std::find(taken.begin(), taken.end(), text) != taken.end(),
          "inputLayout " + std::string(text) + " is not supported");
  if (text == "BSH") return Layout::kBsh;
  if (text == "SBH") return Layout::kSbh;
  if (text == "BSND") return Layout::kBsnd;
  if (text == "BNSD") return Layout::kBnsd;
  return Layout::kTnd;
}

View normalised(const View& view, Layout layout, std::int64_t heads) {
  const auto split = [heads](View result) {
    const std::int64_t width = heads > 0 ? result.shape.back() / heads : 0;
    result.shape.back() = heads;
    result.shape.push_back(width);
    result.strides.push_back(result.strides.back());
    result.strides[result.strides.size() - 2] *= width;
    return result;
  };
  switch (layout) {
    case Layout::kBsh:
      return split(view);
    case Layout::kSbh:
      return numerics::transpose(split(view), 0, 1);
    case Layout::kBsnd:
      return view;
    case Layout::kBnsd:
      return numerics::transpose(view, 1, 2);
    case Layout::kTnd:
      return numerics::unsqueeze(view, 0);
  }
  return view;
}

Shape normalised_shape(Op& op, const Tensor& argument, Layout layout, std::int64_t heads) {
  const bool flat = layout == Layout::kBsh || layout == Layout::kSbh || layout == Layout::kTnd;
  op.need(argument.rank() == (flat ? 3 : 4), argument.name + " " + text_of(argument.shape()) + " isn't of the layout");
  op.need(heads > 0, "the number of heads should be above 0");
  if (layout == Layout::kBsh || layout == Layout::kSbh) {
    op.need(argument.dim(-1) % heads == 0, "H of " + argument.name + " should be a multiple of its heads");
  }
  Shape shape =
      normalised({nullptr, 0, element_of(argument.dtype()), argument.shape(), argument.seen.strides}, layout, heads)
          .shape;
  op.need(shape[2] == heads, argument.name + " should have " + std::to_string(heads) + " heads");
  return shape;
}

std::vector<Sequence> packed_sequences(Op& op, const Shape& ends, const Shape& key_ends, std::int64_t rows,
                                       std::int64_t keys) {
  op.need(!ends.empty() && ends.size() == key_ends.size(),
          "actualSeqQLen and actualSeqKvLen should be of one length above 0");
  std::vector<Sequence> sequences;
  Sequence last;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Sequence next;
    next.first = last.first + last.length;
    next.key_first = last.key_first + last.key_length;
    next.length = ends[i] - next.first;
    next.key_length = key_ends[i] - next.key_first;
    op.need(next.length >= 0 && next.key_length >= 0, "cumulative lengths should not fall");
    sequences.push_back(next);
    last = next;
  }
  op.need(ends.back() <= rows && key_ends.back() <= keys, "cumulative lengths should not end past T");
  return sequences;
}

void require_mask(Op& op, const MaskRule& rule, const std::vector<Sequence>& sequences) {
  // "sparse 0-6", of which the prefix modes (5, 6) and those of 7 and 8 aren't computed here.
  op.need(rule.sparse_mode >= 0 && rule.sparse_mode <= 4, "sparseMode should be 0 to 4");
  if (rule.sparse_mode >= 1) op.need(rule.mask.given(), "attenMask should be given with sparseMode 1 to 4");
  if (!rule.mask) return;
  const Tensor& mask = rule.mask;
  op.need(mask.rank() >= 2, "attenMask should have two dimensions at least");
  if (rule.sparse_mode >= 2) {
    op.need(mask.dim(-2) == 2048 && mask.dim(-1) == 2048 && mask.count() == 2048 * 2048,
            "attenMask should be [2048, 2048] with sparseMode 2 to 4");
    op.need(mask.contiguous(), "attenMask should be contiguous");
  }
  for (const Sequence& sequence : sequences) {
    if (rule.sparse_mode < 2) {
      op.need(mask.dim(-2) >= sequence.length && mask.dim(-1) >= sequence.key_length,
              "attenMask should cover the longest sequence");
    }
    // "mode 3 needs Sq <= Skv each"
    op.need(rule.sparse_mode != 3 || sequence.length <= sequence.key_length,
            "sparseMode 3 needs no more queries than keys in each sequence");
  }
}

void look_at_mask(Run& run, const MaskRule& rule) {
  if (rule.sparse_mode >= 2 && !numerics::is_lower_triangle(run.view(rule.mask))) {
    refuse(ACL_ERROR_RT_AICORE_EXCEPTION,
           "attenMask isn't 0 on and under the diagonal and 1 over it, as sparseMode 2 to 4 have it");
  }
}

numerics::Visibility visibility_of(const MaskRule& rule, const std::optional<View>& mask, const Sequence& sequence,
                                   std::int64_t index, std::int64_t head, View& storage) {
  numerics::Visibility visibility;
  visibility.sparse_mode = rule.sparse_mode;
  visibility.before = rule.before;
  visibility.after = rule.after;
  if (!mask || rule.sparse_mode >= 2) return visibility;
  // [Sq, Skv], [B, Sq, Skv] or [B | 1, N | 1, Sq, Skv]
  View part = *mask;
  if (part.shape.size() == 4) part = numerics::select(part, 1, part.shape[1] == 1 ? 0 : head);
  if (part.shape.size() == 3) part = numerics::select(part, 0, part.shape[0] == 1 ? 0 : index);
  storage = numerics::narrow(numerics::narrow(part, 0, 0, sequence.length), 1, 0, sequence.key_length);
  visibility.mask = &storage;
  return visibility;
}

}  // namespace fake
