#include "tokenizer/post_processor.h"

#include <algorithm>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

class Template final : public PostProcessor {
 public:
  Template(std::vector<TemplatePiece> pieces, std::vector<TemplatePiece> pair)
      : pieces_(std::move(pieces)), pair_(std::move(pair)) {}
  [[nodiscard]] std::span<const TemplatePiece> pair() const override { return pair_; }

  void apply(Encoded& encoded, bool with_offsets, bool add_special_tokens) const override {
    if (!add_special_tokens && pieces_.size() == 1 && pieces_[0].sequence) return;
    const bool with_values = encoded.values.size() == encoded.ids.size();
    Encoded out;
    out.ids.reserve(encoded.ids.size() + pieces_.size());
    for (const TemplatePiece& piece : pieces_) {
      if (!piece.sequence && !add_special_tokens) continue;
      const std::vector<TokenId>& ids = piece.sequence ? encoded.ids : piece.ids;
      out.ids.insert(out.ids.end(), ids.begin(), ids.end());
      if (with_values) {
        const auto& values = piece.sequence ? encoded.values : piece.tokens;
        out.values.insert(out.values.end(), values.begin(), values.end());
        out.values.resize(out.ids.size());
      }
      if (!with_offsets) continue;
      if (piece.sequence) out.offsets.insert(out.offsets.end(), encoded.offsets.begin(), encoded.offsets.end());
      out.offsets.resize(out.ids.size(), {0, 0});
    }
    encoded = std::move(out);
  }

 private:
  std::vector<TemplatePiece> pieces_;
  std::vector<TemplatePiece> pair_;
};

class OffsetTrimmer final : public PostProcessor {
 public:
  explicit OffsetTrimmer(bool add_prefix_space) : add_prefix_space_(add_prefix_space) {}
  [[nodiscard]] bool trims() const override { return true; }

  void apply(Encoded& encoded, bool with_offsets, bool) const override {
    if (!with_offsets) return;
    for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
      auto& [begin, end] = encoded.offsets[i];
      std::uint32_t leading = 0;
      std::uint32_t trailing = 0;
      count_spaces(encoded.values[i], leading, trailing);
      if (leading > 0) {
        const bool first = i == 0 || begin == 0;
        if (first && add_prefix_space_ && leading == 1) leading = 0;  // that one was added, and covers nothing
        begin = std::min(begin + leading, end);
      }
      if (trailing > 0 && end >= trailing) end = std::max(end - trailing, begin);
    }
  }

 private:
  static void count_spaces(std::string_view value, std::uint32_t& leading, std::uint32_t& trailing) {
    const char32_t mapped_space = byte_to_char(' ');
    for (std::size_t at = 0; at < value.size();) {
      const char32_t c = next_char(value, at);
      if (c != mapped_space && !is_white(c)) break;
      ++leading;
    }
    for (std::size_t at = value.size(); at > 0;) {
      at = previous_char(value, at);
      std::size_t next = at;
      const char32_t c = next_char(value, next);
      if (c != mapped_space && !is_white(c)) break;
      ++trailing;
    }
  }
  bool add_prefix_space_;
};

}  // namespace

std::unique_ptr<PostProcessor> make_template(std::vector<TemplatePiece> single, std::vector<TemplatePiece> pair) {
  return std::make_unique<Template>(std::move(single), std::move(pair));
}

std::unique_ptr<PostProcessor> make_offset_trimmer(bool add_prefix_space) {
  return std::make_unique<OffsetTrimmer>(add_prefix_space);
}

}  // namespace tern::tokenizer
