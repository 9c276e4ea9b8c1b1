#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <bit>

#include "base/strings.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

// A buffer that one text made larger than others need, which would be held as long as the tokenizer lives.
template <typename Buffer>
void shed(Buffer& buffer) {
  constexpr std::size_t kKept = 1U << 20;  // bytes
  if (buffer.capacity() * sizeof(typename Buffer::value_type) > kKept) buffer = Buffer();
}

}  // namespace

// A workspace borrowed from the tokenizer for one call, so that threads share no cache and caches outlive calls.
class TokenizerImpl::Lease {
 public:
  explicit Lease(const TokenizerImpl& owner) : owner_(owner) {
    const std::lock_guard lock(owner.mutex_);
    if (!owner.idle_.empty()) {
      work_ = std::move(owner.idle_.back());
      owner.idle_.pop_back();
    }
  }
  ~Lease() {
    if (work_ == nullptr) return;
    shed(work_->tokens);
    shed(work_->symbols);
    shed(work_->whole);
    shed(work_->heap);
    shed(work_->best);
    shed(work_->scratch);
    const std::lock_guard lock(owner_.mutex_);
    owner_.idle_.push_back(std::move(work_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Workspace& get() {
    if (work_ == nullptr) work_ = std::make_unique<Workspace>();
    return *work_;
  }

 private:
  const TokenizerImpl& owner_;
  std::unique_ptr<Workspace> work_;
};

namespace {

// Counts code points up to any byte of a text, in constant time.
class CharCounter {
 public:
  explicit CharCounter(std::string_view text) : text_(text) {
    counts_.reserve(text.size() / kBlock + 1);
    std::uint32_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (at % kBlock == 0) counts_.push_back(count);
      count += is_continuation(text[at]) ? 0 : 1;
    }
    total_ = count;
  }

  // Index of the character that holds byte `at`.
  [[nodiscard]] std::uint32_t index(std::size_t at) const {
    std::uint32_t count = counts_[at / kBlock];
    for (std::size_t i = at / kBlock * kBlock; i <= at; ++i) count += is_continuation(text_[i]) ? 0 : 1;
    return count - 1;
  }

  // The reference's conversion of a byte range: past the end of the text it counts on from the last character.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> convert(std::size_t begin, std::size_t end) const {
    const auto as_is = std::pair(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    if (begin >= text_.size()) return as_is;
    const std::uint32_t first = index(begin);
    if (end < text_.size()) return {first, index(end)};
    return {first, end - 1 < text_.size() ? total_ : first + 2};
  }

 private:
  static constexpr std::size_t kBlock = 64;
  std::string_view text_;
  std::vector<std::uint32_t> counts_;
  std::uint32_t total_ = 0;
};

bool all_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; });
}

}  // namespace

void TokenizerImpl::add_token(AddedToken token) {
  if (token.content.empty()) return;
  if (next_added_ == SIZE_MAX) next_added_ = model->table().size();
  if (const auto known = find(token.content)) {
    token.id = *known;
  } else {
    token.id = static_cast<TokenId>(next_added_++);
  }
  token.normalized_content = token.normalized ? normalize(normalizers, token.content) : token.content;
  added_ids_[token.content] = token.id;
  if (token.special) special_.insert(token.content);
  added_.add(std::move(token));
}

void TokenizerImpl::finish() {
  if (longest_added_first) added_.set_longest_first();
  names_ = model->pieces();
  for (const AddedToken& token : added_.all()) {
    const auto at = static_cast<std::size_t>(token.id);
    if (at >= names_.size()) names_.resize(at + 1);
  }
  decoded_ = names_;
  kinds_.assign(names_.size(), 0);
  for (std::size_t id = 0; id < kinds_.size(); ++id) {
    if (model->has_id(static_cast<TokenId>(id))) kinds_[id] = 1;
  }
  for (const AddedToken& token : added_.all()) {
    const auto at = static_cast<std::size_t>(token.id);
    names_[at] = token.content;
    decoded_[at] = token.normalized_content;
    kinds_[at] = static_cast<std::uint8_t>(1 | (token.special ? 4 : 0));
  }
  // The reference skips by the text of a token, whatever its id.
  for (std::size_t id = 0; id < kinds_.size(); ++id) {
    if ((kinds_[id] & 1) != 0 && special_.contains(decoded_[id])) kinds_[id] |= 2;
  }
  const bool normal_alignment =
      std::any_of(normalizers.begin(), normalizers.end(), [](const auto& n) { return n->needs_alignment(); });
  // Metaspace's "first" asks where a split began in the original, which is lost once the text was rewritten.
  track_always_ = normal_alignment || (!normalizers.empty() && !pre_tokenizers.empty()) || pre_tokenizers.size() > 1;
  const bool rewrites =
      std::any_of(pre_tokenizers.begin(), pre_tokenizers.end(), [](const auto& p) { return p->rewrites(); });
  track_always_ = track_always_ && (normal_alignment || rewrites);
  trims_ = std::any_of(post_processors.begin(), post_processors.end(), [](const auto& p) { return p->trims(); });
  bool fused = false;
  tail_ = StreamTail::settled;
  for (const auto& decoder : decoders) {
    if (tail_ == StreamTail::characters || tail_ == StreamTail::last_token) tail_ = StreamTail::whole;
    if (tail_ != StreamTail::whole) tail_ = decoder->tail(tail_, fused);
  }
  resolve_roles();
}

void TokenizerImpl::add_special_tokens(const std::vector<std::string>& contents) {
  for (const std::string& content : contents) {
    if (added_ids_.contains(content)) continue;
    AddedToken token;
    token.content = content;
    token.special = true;
    add_token(std::move(token));
  }
  finish();
}

void TokenizerImpl::resolve_roles() {
  for (RoleToken* role : {&config.bos, &config.eos, &config.unk, &config.pad}) {
    if (role->content.empty()) continue;
    role->id = find(role->content).value_or(-1);
  }
}

void TokenizerImpl::override_decoded(TokenId id, std::string text) {
  decoded_[static_cast<std::size_t>(id)] = std::move(text);
}

std::optional<TokenId> TokenizerImpl::find(std::string_view piece) const {
  if (const auto found = added_ids_.find(std::string(piece)); found != added_ids_.end()) return found->second;
  const TokenId id = model->table().find(piece);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string_view TokenizerImpl::piece(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < names_.size()
             ? std::string_view(names_[static_cast<std::size_t>(id)])
             : std::string_view();
}

bool TokenizerImpl::is_special(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < kinds_.size() && (kinds_[static_cast<std::size_t>(id)] & 4) != 0;
}

Encoded TokenizerImpl::tokens_of(std::string_view input, bool with_offsets, bool parse_special) const {
  std::string repaired;
  if (valid_prefix(input) != input.size()) {
    repaired = to_valid_utf8(input, replace_each_byte);
    input = repaired;
  }
  AlignedText text(input, with_offsets || track_always_);
  added_.split(text, false, parse_special);
  for (const auto& normalizer : normalizers) normalizer->apply(text);
  added_.split(text, true, parse_special);
  for (const auto& pre_tokenizer : pre_tokenizers) pre_tokenizer->apply(text);

  Encoded out;
  Lease lease(*this);
  tokens_of(text, lease.get(), with_offsets, out);
  return out;
}

Encoded TokenizerImpl::encode(std::string_view input, bool add_special_tokens, bool with_offsets,
                              bool parse_special) const {
  Encoded out = tokens_of(input, with_offsets, parse_special);
  for (const auto& processor : post_processors) processor->apply(out, with_offsets, add_special_tokens);
  return out;
}

PairEncoding TokenizerImpl::encode_pair(std::string_view first, std::string_view second) const {
  std::span<const TemplatePiece> pieces;
  int joining = 0;
  for (const auto& processor : post_processors) {
    if (processor->pair().empty()) continue;
    pieces = processor->pair();
    ++joining;
  }
  if (joining != 1) {
    throw Failure(data_error(cat(where, ": post_processor"), "one that joins two texts",
                             joining == 0 ? std::string("none") : cat(joining),
                             "choose a model whose tokenizer.json says how a query and a document are read together"));
  }
  const std::vector<TokenId> a = tokens_of(first, false, true).ids;
  const std::vector<TokenId> b = tokens_of(second, false, true).ids;
  PairEncoding out;
  for (const TemplatePiece& piece : pieces) {
    const std::vector<TokenId>& ids = !piece.sequence ? piece.ids : piece.second ? b : a;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.type_ids.resize(out.ids.size(), piece.type_id);
  }
  return out;
}

void TokenizerImpl::tokens_of(const AlignedText& text, Workspace& work, bool with_offsets, Encoded& out) const {
  out.ids.reserve(text.text().size() / 4 + 4);
  std::optional<CharCounter> counter;
  if (with_offsets && !all_ascii(text.original())) counter.emplace(text.original());
  const auto add_offsets = [&](const Split& split, const Token& token) {
    const auto [begin, end] = text.original_range(split, token.begin, token.end);
    if (counter) {
      out.offsets.push_back(counter->convert(begin, end));
    } else {
      out.offsets.emplace_back(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
    }
  };
  for (const Split& split : text.splits()) {
    const std::string_view piece = text.text(split);
    if (split.token >= 0) {
      out.ids.push_back(split.token);
      if (!with_offsets) continue;
      add_offsets(split, {split.token, 0, static_cast<std::uint32_t>(piece.size())});
      if (trims_) out.values.emplace_back(piece);
      continue;
    }
    if (piece.empty()) continue;
    work.tokens.clear();
    model->tokenize(piece, work, work.tokens);
    for (const Token& token : work.tokens) out.ids.push_back(token.id);
    if (!with_offsets) continue;
    for (const Token& token : work.tokens) {
      add_offsets(split, token);
      if (trims_) out.values.emplace_back(model->value(piece, token));
    }
  }
}

bool TokenizerImpl::skipped(TokenId id, bool skip_special_tokens) const {
  if (id < 0 || static_cast<std::size_t>(id) >= kinds_.size()) return true;
  const std::uint8_t kind = kinds_[static_cast<std::size_t>(id)];
  return (kind & 1) == 0 || (skip_special_tokens && (kind & 2) != 0);
}

std::string TokenizerImpl::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) {
    if (skipped(id, skip_special_tokens)) continue;
    tokens.push_back(decoded_[static_cast<std::size_t>(id)]);
  }
  if (!has_decoder) return join(tokens, " ");
  for (const auto& decoder : decoders) decoder->apply(tokens);
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens, bool parse_special) const {
  return impl_->encode(text, add_special_tokens, false, parse_special).ids;
}

Encoding Tokenizer::encode_with_offsets(std::string_view text, bool add_special_tokens) const {
  Encoded encoded = impl_->encode(text, add_special_tokens, true);
  return {std::move(encoded.ids), std::move(encoded.offsets)};
}

PairEncoding Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  return impl_->encode_pair(first, second);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  return impl_->decode(ids, skip_special_tokens);
}

std::string_view Tokenizer::id_to_piece(TokenId id) const { return impl_->piece(id); }
std::optional<TokenId> Tokenizer::piece_to_id(std::string_view piece) const { return impl_->find(piece); }
int Tokenizer::vocab_size() const { return impl_->vocab_size(); }
bool Tokenizer::is_special(TokenId id) const { return impl_->is_special(id); }
const TokenizerConfig& Tokenizer::config() const { return impl_->config; }

}  // namespace tern::tokenizer
