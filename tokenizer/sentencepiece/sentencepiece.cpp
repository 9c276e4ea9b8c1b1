#include "tokenizer/sentencepiece/sentencepiece.h"

#include <bit>
#include <cfloat>
#include <iterator>

#include "base/strings.h"
#include "tokenizer/sentencepiece/spm_model.h"
#include "tokenizer/sentencepiece/spm_normalizer.h"
#include "tokenizer/unicode/utf8.h"
#include "tokenizer/unigram.h"

namespace tern::tokenizer {

namespace {

constexpr const char* kDamaged = "the file is damaged, or no sentencepiece model";

// One message of a protocol buffer: calls back for each field.
class WireReader {
 public:
  WireReader(std::string_view bytes, std::size_t base, const std::string& where)
      : bytes_(bytes), base_(base), where_(where) {}

  struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;  // a varint, or the bits of a fixed field
    std::string_view bytes;   // of a length-delimited field
    std::size_t at = 0;       // where those begin in the file
  };

  // The next field; false at the end of the message.
  bool next(Field& field) {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field = {static_cast<std::uint32_t>(tag >> 3), 0, {}, 0};
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) throw wrong("a field number", cat(tag >> 3));
    switch (tag & 7) {
      case 0:
        field.value = varint();
        return true;
      case 1:
        field.value = fixed(8);
        return true;
      case 2: {
        const std::uint64_t size = varint();
        if (size > bytes_.size() - at_)
          throw wrong(cat("at most ", bytes_.size() - at_, " bytes"), cat("a length of ", size));
        field.bytes = bytes_.substr(at_, size);
        field.at = base_ + at_;
        at_ += size;
        return true;
      }
      case 5:
        field.value = fixed(4);
        return true;
      default:
        throw wrong("wire type 0, 1, 2 or 5", cat(tag & 7));
    }
  }

 private:
  [[nodiscard]] Failure wrong(std::string expected, std::string found) const {
    return Failure(data_error(cat(where_, ": byte ", base_ + at_), std::move(expected), std::move(found), kDamaged));
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) throw wrong("a number", "the end of the message");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    throw wrong("a number of at most 10 bytes", "a longer one");
  }
  std::uint64_t fixed(std::size_t size) {
    if (bytes_.size() - at_ < size) throw wrong(cat(size, " bytes"), "the end of the message");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    }
    at_ += size;
    return value;
  }
  std::string_view bytes_;
  std::size_t base_;
  const std::string& where_;
  std::size_t at_ = 0;
};

SentencePieceFile::Piece read_piece(const WireReader::Field& message, const std::string& where) {
  SentencePieceFile::Piece piece;
  WireReader reader(message.bytes, message.at, where);
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) piece.type = static_cast<int>(field.value & 0xFF);
  }
  if (valid_prefix(piece.text) != piece.text.size()) {
    throw Failure(data_error(cat(where, ": byte ", message.at), "a piece in UTF-8", "other bytes", kDamaged));
  }
  return piece;
}

void read_trainer(const WireReader::Field& message, const std::string& where, SentencePieceFile& out) {
  WireReader reader(message.bytes, message.at, where);
  const auto id = [](std::uint64_t value) {
    const auto number = static_cast<std::int64_t>(value);
    return number < 0 || number > INT32_MAX ? -1 : static_cast<TokenId>(number);
  };
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 3) {
      if (field.value < 1 || field.value > 4) {
        throw Failure(data_error(cat(where, ": trainer_spec.model_type"), "1 to 4", cat(field.value), kDamaged));
      }
      out.model = static_cast<SentencePieceFile::Model>(field.value);
    }
    if (field.number == 24) out.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) out.byte_fallback = field.value != 0;
    if (field.number == 40) out.unk_id = id(field.value);
    if (field.number == 41) out.bos_id = id(field.value);
    if (field.number == 42) out.eos_id = id(field.value);
    if (field.number == 43) out.pad_id = id(field.value);
  }
}

void read_normalizer_spec(const WireReader::Field& message, const std::string& where, SentencePieceFile& out) {
  WireReader reader(message.bytes, message.at, where);
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 2) out.charsmap = std::string(field.bytes);
    if (field.number == 3) out.add_dummy_prefix = field.value != 0;
    if (field.number == 4) out.remove_extra_whitespaces = field.value != 0;
  }
}

bool config_flag(const TokenizerConfig& config, std::string_view key, bool otherwise) {
  for (const auto& [name, value] : config.extra) {
    if (name == key) return value == "true";
  }
  return otherwise;
}

void add_bos_and_eos(const SentencePieceFile& file, const TokenizerConfig& config, TokenizerImpl& impl) {
  const bool t5 = config.tokenizer_class.find("T5") != std::string::npos;
  const auto piece = [&](TokenId id) {
    return TemplatePiece{false, {id}, {file.pieces[static_cast<std::size_t>(id)].text}};
  };
  const auto exists = [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < file.pieces.size(); };
  std::vector<TemplatePiece> single;
  const bool bpe = file.model == SentencePieceFile::Model::bpe;
  if (config_flag(config, "add_bos_token", bpe && !t5) && exists(file.bos_id)) single.push_back(piece(file.bos_id));
  single.push_back({true, {}, {}});
  if (config_flag(config, "add_eos_token", t5) && exists(file.eos_id)) single.push_back(piece(file.eos_id));
  std::vector<TemplatePiece> pair;
  if (file.wraps_texts) {
    const TemplatePiece bos = piece(file.bos_id), eos = piece(file.eos_id), text{true, {}, {}};
    single = {bos, text, eos};
    pair = {bos, text, eos, eos, {true, {}, {}, true}, eos};
  }
  impl.post_processors.push_back(make_template(std::move(single), std::move(pair)));
  const auto role = [&](TokenId id) {
    return exists(id) ? RoleToken{file.pieces[static_cast<std::size_t>(id)].text, id} : RoleToken{};
  };
  impl.config.bos = role(file.bos_id);
  impl.config.eos = role(file.eos_id);
  impl.config.unk = role(file.unk_id);
  impl.config.pad = role(file.pad_id);
}

std::vector<std::string> user_symbols(const SentencePieceFile& file) {
  std::vector<std::string> symbols;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.type == SentencePieceFile::kUserDefined) symbols.push_back(piece.text);
  }
  return symbols;
}

std::vector<bool> hidden_pieces(const SentencePieceFile& file) {
  std::vector<bool> hidden;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    hidden.push_back(piece.type != SentencePieceFile::kNormal && piece.type != SentencePieceFile::kUserDefined);
  }
  return hidden;
}

// Scores as the search of sentencepiece 0.2 has them, measured for user-defined symbols: 0.1 for each byte but the
// first.
std::unique_ptr<UnigramModel> make_unigram(const SentencePieceFile& file, Vocabulary vocabulary,
                                           std::optional<TokenId> unk, const std::string& where) {
  UnigramOptions options;
  options.unk_id = unk;
  options.byte_fallback = file.byte_fallback;
  options.joined_unknowns = false;
  options.single_precision = true;
  options.hidden = hidden_pieces(file);
  float lowest = FLT_MAX;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.type != SentencePieceFile::kNormal) continue;
    lowest = std::min(lowest, piece.score);
  }
  options.unk_score = lowest - 10.0F;
  std::vector<double> scores;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    const bool symbol = piece.type == SentencePieceFile::kUserDefined;
    scores.push_back(symbol ? 0.1 * static_cast<double>(piece.text.size()) - 0.1 : double{piece.score});
  }
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), std::move(options), where);
}

std::unique_ptr<Normalizer> make_normalizer(const SentencePieceFile& file, const std::string& where) {
  SpmNormalizerOptions options;
  options.charsmap = file.charsmap;
  options.symbols = user_symbols(file);
  options.add_dummy_prefix = file.add_dummy_prefix;
  options.remove_extra_whitespaces = file.remove_extra_whitespaces;
  options.whitespace_as_suffix = file.whitespace_as_suffix;
  return make_spm_normalizer(options, where);
}

}  // namespace

SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& where) {
  SentencePieceFile out;
  WireReader reader(bytes, 0, where);
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 1) out.pieces.push_back(read_piece(field, where));
    if (field.number == 2) read_trainer(field, where, out);
    if (field.number == 3) read_normalizer_spec(field, where, out);
  }
  if (out.pieces.empty()) throw Failure(data_error(where, "a sentencepiece model with pieces", "none", kDamaged));
  return out;
}

SentencePieceFile with_fairseq_ids(SentencePieceFile file, const std::string& where) {
  constexpr std::size_t kReplaced = 3;
  using Piece = SentencePieceFile::Piece;
  const bool fits = file.pieces.size() >= kReplaced && file.unk_id == 0 && file.bos_id == 1 && file.eos_id == 2;
  if (!fits) {
    throw Failure(data_error(where, "<unk>, <s> and </s> as the first three pieces, as XLM-RoBERTa has them", "others",
                             "take the model's repository again, with its tokenizer.json"));
  }
  std::vector<Piece> pieces = {{"<s>", 0, SentencePieceFile::kControl},
                               {"<pad>", 0, SentencePieceFile::kControl},
                               {"</s>", 0, SentencePieceFile::kControl},
                               {"<unk>", 0, SentencePieceFile::kUnknown}};
  pieces.insert(pieces.end(), std::make_move_iterator(file.pieces.begin() + kReplaced),
                std::make_move_iterator(file.pieces.end()));
  pieces.push_back({"<mask>", 0, SentencePieceFile::kControl});
  file.pieces = std::move(pieces);
  file.bos_id = 0;
  file.pad_id = 1;
  file.eos_id = 2;
  file.unk_id = 3;
  file.wraps_texts = true;
  return file;
}

std::shared_ptr<TokenizerImpl> make_sentencepiece_tokenizer(const SentencePieceFile& file,
                                                            const TokenizerConfig& config, const std::string& where) {
  using Model = SentencePieceFile::Model;
  if (file.model != Model::unigram && file.model != Model::bpe) {
    throw Failure(data_error(cat(where, ": trainer_spec.model_type"), "unigram or BPE",
                             file.model == Model::word ? "word" : "char",
                             "use a model of these kinds, or its tokenizer.json"));
  }
  auto impl = std::make_shared<TokenizerImpl>();
  impl->where = where;
  Vocabulary vocabulary;
  std::vector<float> scores;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    vocabulary.emplace_back(piece.text, static_cast<TokenId>(scores.size()));
    scores.push_back(piece.score);
  }
  const bool has_unk = file.unk_id >= 0 && static_cast<std::size_t>(file.unk_id) < file.pieces.size();
  if (file.model == Model::bpe) {
    SpmOptions options{hidden_pieces(file), user_symbols(file), file.byte_fallback};
    impl->model = std::make_unique<SpmModel>(std::move(vocabulary), std::move(scores), has_unk ? file.unk_id : 0,
                                             std::move(options));
  } else {
    impl->model = make_unigram(file, std::move(vocabulary), has_unk ? std::optional(file.unk_id) : std::nullopt, where);
  }
  impl->replace_each_byte = true;
  impl->normalizers.push_back(make_normalizer(file, where));
  impl->has_decoder = true;
  impl->decoders.push_back(make_replace_decoder(kMetaspace, true, " ", where));
  impl->decoders.push_back(make_byte_fallback_decoder());
  impl->decoders.push_back(make_fuse_decoder());
  if (file.add_dummy_prefix) impl->decoders.push_back(make_strip_decoder(U' ', 1, 0));
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.type != SentencePieceFile::kControl && piece.type != SentencePieceFile::kUnknown) continue;
    AddedToken token;
    token.content = piece.text;
    token.special = true;
    token.lstrip = file.wraps_texts && piece.text == "<mask>";
    impl->add_token(std::move(token));
  }
  add_bos_and_eos(file, config, *impl);
  impl->finish();
  return impl;
}

}  // namespace tern::tokenizer
