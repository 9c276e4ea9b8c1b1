#include "engine/token_bans.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/mask_words.h"

namespace tern::engine {
namespace {

class WithoutBanned final : public TokenMask {
 public:
  WithoutBanned(std::shared_ptr<TokenMask> mask, TokenBans bans) : mask_(std::move(mask)), bans_(std::move(bans)) {
    std::erase_if(bans_.words, [&](const auto& word) {  // what the model can't draw needs no ban
      return std::any_of(word.begin(), word.end(), [&](std::int32_t token) { return token >= bans_.vocab_size; });
    });
    for (const auto& word : bans_.words) longest_ = std::max(longest_, word.size());
    allowed_.resize(static_cast<std::size_t>(bans_.vocab_size + 31) / 32, bans_.allowed.empty() ? ~0U : 0U);
    for (const std::int32_t token : bans_.allowed) allow(allowed_, token);
  }

  void fill(std::span<std::uint32_t> words) override {
    if (mask_) {
      mask_->fill(words);
    } else {
      allow_all(words, bans_.vocab_size);
    }
    for (std::size_t i = 0; i < words.size(); ++i) words[i] &= allowed_[i];
    for (const auto& word : bans_.words) {
      if (follows(word)) forbid(words, word.back());
    }
    over_ = std::all_of(words.begin(), words.end(), [](std::uint32_t word) { return word == 0; });
    if (!over_) return;
    for (const std::int32_t token : bans_.end_tokens) allow(words, token);
  }

  void accept(std::int32_t token) override {
    if (over_) return;  // no token of the mask's
    if (mask_) mask_->accept(token);
    last_.push_back(token);
    if (last_.size() > longest_) last_.erase(last_.begin());
  }

  [[nodiscard]] bool complete() const override { return over_ || (mask_ && mask_->complete()); }

 private:
  // Whether the answer so far ends with all of the word but its last token.
  [[nodiscard]] bool follows(const std::vector<std::int32_t>& word) const {
    const std::size_t before = word.size() - 1;
    return before <= last_.size() && std::equal(word.begin(), word.end() - 1, last_.end() - std::ptrdiff_t(before));
  }

  std::shared_ptr<TokenMask> mask_;
  TokenBans bans_;
  std::vector<std::uint32_t> allowed_;  // [ceil(vocab_size / 32)]
  std::vector<std::int32_t> last_;      // of the answer, no more than the longest word has
  std::size_t longest_ = 0;
  bool over_ = false;
};

}  // namespace

std::vector<std::vector<std::int32_t>> banned_words(const tokenizer::Tokenizer& tokenizer,
                                                    const std::vector<std::string>& words) {
  std::vector<std::vector<std::int32_t>> out;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r"), word.size()));
    std::vector<std::int32_t> plain = tokenizer.encode(bare, false);
    std::vector<std::int32_t> spaced = tokenizer.encode(" " + bare, false);
    const bool differs = !plain.empty() && spaced.size() == plain.size() && spaced.front() != plain.front();
    if (!plain.empty()) out.push_back(std::move(plain));
    if (differs) out.push_back(std::move(spaced));
  }
  return out;
}

std::shared_ptr<TokenMask> without_banned(std::shared_ptr<TokenMask> mask, TokenBans bans) {
  return std::make_shared<WithoutBanned>(std::move(mask), std::move(bans));
}

}  // namespace tern::engine
