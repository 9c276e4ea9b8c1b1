#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

std::size_t TokenizerImpl::settled_size(std::span<const TokenId> ids, std::string_view decoded) const {
  if (ids.empty()) return 0;
  const std::string& last = decoded_[static_cast<std::size_t>(ids.back())];
  switch (tail_) {
    case StreamTail::settled:
      return decoded.size();
    case StreamTail::characters: {
      std::vector<std::string> tokens;
      for (const TokenId id : ids) tokens.push_back(decoded_[static_cast<std::size_t>(id)]);
      // The incomplete character was decoded to one U+FFFD, three bytes.
      return incomplete_tail(byte_level_bytes(tokens)) > 0 ? decoded.size() - 3 : decoded.size();
    }
    case StreamTail::byte_run:
      return fallback_byte(last) >= 0 ? 0 : decoded.size();
    case StreamTail::last_token:
      return decoded.size() - std::min(decoded.size(), decode(ids.last(1), false).size());
    case StreamTail::whole:
      break;
  }
  return 0;
}

std::string IncrementalDecoder::push(TokenId id) {
  const TokenizerImpl& impl = *tokenizer_.impl_;
  if (impl.skipped(id, skip_special_)) return {};
  pending_.push_back(id);
  const bool whole = impl.stream_tail() == StreamTail::whole;
  if (whole || (impl.stream_tail() == StreamTail::byte_run && impl.is_fallback_byte(id))) return {};
  const std::string decoded = impl.decode(pending_, false);
  const std::size_t settled = impl.settled_size(pending_, decoded);
  if (settled < emitted_) return {};
  std::string out = decoded.substr(emitted_, settled - emitted_);
  emitted_ = settled;
  // What came long ago no longer matters once some text of what stays is out: rules for the first token, or for blanks
  // at the start, then act on that part alone.
  constexpr std::size_t kEnough = 16;
  if (settled != decoded.size() || pending_.size() < kEnough) return out;
  for (std::size_t keep = 1; keep < pending_.size(); ++keep) {
    const std::span<const TokenId> last = std::span<const TokenId>(pending_).last(keep);
    const std::string text = impl.decode(last, false);
    if (text.empty() || impl.settled_size(last, text) != text.size()) continue;
    pending_.erase(pending_.begin(), pending_.end() - static_cast<std::ptrdiff_t>(keep));
    emitted_ = text.size();
    break;
  }
  return out;
}

std::string IncrementalDecoder::flush() {
  std::string decoded = tokenizer_.impl_->decode(pending_, false);
  pending_.clear();
  const std::size_t done = std::min(emitted_, decoded.size());
  emitted_ = 0;
  return decoded.substr(done);
}

}  // namespace tern::tokenizer
