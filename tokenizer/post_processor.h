// The post-processors of tokenizer.json: special tokens around a text or between two, offsets trimmed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tern::tokenizer {

// An encoding in the making. `values` is filled only where some processor trims offsets.
struct Encoded {
  std::vector<TokenId> ids;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> offsets;  // empty if not asked for
  std::vector<std::string> values;                               // the tokens' text
};

struct TemplatePiece {
  bool sequence = false;  // the text's own tokens; else `ids`
  std::vector<TokenId> ids;
  std::vector<std::string> tokens;
  bool second = false;       // of two texts, the other one's
  std::int32_t type_id = 0;  // of each of its tokens
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(Encoded& encoded, bool with_offsets, bool add_special_tokens) const = 0;
  [[nodiscard]] virtual bool trims() const { return false; }
  // How it joins two texts; empty: it does not.
  [[nodiscard]] virtual std::span<const TemplatePiece> pair() const { return {}; }
};

using PostProcessors = std::vector<std::unique_ptr<PostProcessor>>;

// `pair` empty: two texts are not joined.
[[nodiscard]] std::unique_ptr<PostProcessor> make_template(std::vector<TemplatePiece> single,
                                                           std::vector<TemplatePiece> pair = {});
// White space at the ends of tokens leaves their offsets.
[[nodiscard]] std::unique_ptr<PostProcessor> make_offset_trimmer(bool add_prefix_space);

}  // namespace tern::tokenizer
