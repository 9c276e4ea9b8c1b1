// The post-processors of tokenizer.json for a single sequence: special tokens around it, offsets trimmed.
#pragma once

#include <memory>
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

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(Encoded& encoded, bool with_offsets, bool add_special_tokens) const = 0;
  [[nodiscard]] virtual bool trims() const { return false; }
};

using PostProcessors = std::vector<std::unique_ptr<PostProcessor>>;

struct TemplatePiece {
  bool sequence = false;  // the text's own tokens; else `ids`
  std::vector<TokenId> ids;
  std::vector<std::string> tokens;
};

[[nodiscard]] std::unique_ptr<PostProcessor> make_template(std::vector<TemplatePiece> single);
// White space at the ends of tokens leaves their offsets.
[[nodiscard]] std::unique_ptr<PostProcessor> make_offset_trimmer(bool add_prefix_space);

}  // namespace tern::tokenizer
