#include "tokenizer/tokenizer_parts.h"

#include "base/base64.h"
#include "tokenizer/unicode/utf8.h"

namespace tern::tokenizer {

namespace {

struct PatternText {
  std::string text;
  bool literal;
};

char32_t character(const TapeField& json) {
  const std::string_view whole = json.text();
  std::size_t at = 0;
  const char32_t c = whole.empty() ? 0 : next_char(whole, at);
  if (whole.empty() || at != whole.size()) throw json.wrong("one character");
  return c;
}

// {"String": s} or {"Regex": s}.
PatternText read_pattern(const TapeField& json) {
  if (const auto literal = json.find("String")) return {std::string(literal->text()), true};
  if (const auto regex = json.find("Regex")) return {std::string(regex->text()), false};
  throw json.wrong("an object with \"String\" or \"Regex\"");
}

SplitBehavior read_behavior(const TapeField& json) {
  const std::string_view name = json.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw json.wrong("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

PrependScheme read_prepend_scheme(const TapeField& json) {
  PrependScheme scheme = PrependScheme::always;
  if (const auto name = json.find("prepend_scheme")) {
    if (name->text() == "first") {
      scheme = PrependScheme::first;
    } else if (name->text() == "never") {
      scheme = PrependScheme::never;
    } else if (name->text() != "always") {
      throw name->wrong("first, never or always");
    }
  }
  if (!json.boolean("add_prefix_space", true)) {
    if (json.find("prepend_scheme") && scheme != PrependScheme::never) {
      throw json.wrong("a prepend_scheme that agrees with add_prefix_space");
    }
    scheme = PrependScheme::never;
  }
  return scheme;
}

// Calls `each` for the members of the sequence's array `key`.
template <typename Each>
void for_each_part(const TapeField& json, std::string_view key, Each each) {
  for (const TapeField& part : json.at(key).items()) each(part);
}

std::string bytes_of(const TapeField& json) {
  auto bytes = decode_base64(json.text());
  if (!bytes) throw json.wrong("base64");
  return std::move(*bytes);
}

void require_pair(const TapeField& json, std::string& token, TokenId& id) {
  const simdjson::dom::array pair = json.array();
  std::string_view content;
  std::int64_t number = 0;
  if (pair.size() != 2 || pair.at(0).get(content) != simdjson::SUCCESS || pair.at(1).get(number) != simdjson::SUCCESS ||
      number < 0 || number > INT32_MAX) {
    throw json.wrong("a token and its id");
  }
  token = content;
  id = static_cast<TokenId>(number);
}

std::int32_t type_of(const TapeField& piece) {
  const auto type = piece.find("type_id");
  const std::int64_t id = type ? type->integer() : 0;
  if (id < 0 || id > INT32_MAX) throw type->wrong("a type of tokens");
  return static_cast<std::int32_t>(id);
}

std::vector<TemplatePiece> read_pieces(const TapeField& json, const char* key) {
  const TapeField special = json.at("special_tokens");
  const bool is_pair = std::string_view(key) == "pair";
  std::vector<TemplatePiece> pieces;
  for_each_part(json, key, [&](const TapeField& piece) {
    if (const auto sequence = piece.find("Sequence")) {
      const std::string_view id = sequence->at("id").text();
      if (!is_pair && id != "A") throw sequence->wrong("sequence A in the template for one text");
      if (id != "A" && id != "B") throw sequence->wrong("sequence A or B");
      pieces.push_back({true, {}, {}, id == "B", type_of(*sequence)});
      return;
    }
    TemplatePiece added;
    added.type_id = type_of(piece.at("SpecialToken"));
    const TapeField token = special.at(piece.at("SpecialToken").at("id").text());
    for_each_part(token, "ids", [&](const TapeField& id) {
      const std::int64_t number = id.integer();
      if (number < 0 || number > INT32_MAX) throw id.wrong("a token id");
      added.ids.push_back(static_cast<TokenId>(number));
    });
    for_each_part(token, "tokens", [&](const TapeField& name) { added.tokens.emplace_back(name.text()); });
    pieces.push_back(std::move(added));
  });
  return pieces;
}

void read_template(const TapeField& json, PostProcessors& out) {
  std::vector<TemplatePiece> pair;
  if (json.find("pair")) pair = read_pieces(json, "pair");
  out.push_back(make_template(read_pieces(json, "single"), std::move(pair)));
}

// RoBERTa ends the first text of a pair twice, and its tokens have no types.
void read_bert_like(const TapeField& json, bool is_roberta, PostProcessors& out) {
  TemplatePiece cls{false, {-1}, {""}};
  TemplatePiece sep{false, {-1}, {""}};
  require_pair(json.at("cls"), cls.tokens[0], cls.ids[0]);
  require_pair(json.at("sep"), sep.tokens[0], sep.ids[0]);
  const TemplatePiece text{true, {}, {}};
  TemplatePiece last = sep;
  last.type_id = is_roberta ? 0 : 1;
  std::vector<TemplatePiece> pair = {cls, text, sep};
  if (is_roberta) pair.push_back(sep);
  pair.push_back({true, {}, {}, true, last.type_id});
  pair.push_back(std::move(last));
  out.push_back(make_template({std::move(cls), text, std::move(sep)}, std::move(pair)));
}

}  // namespace

void read_normalizer(const TapeField& json, Normalizers& out) {
  const std::string_view type = json.at("type").text();
  if (type == "Sequence") {
    for_each_part(json, "normalizers", [&](const TapeField& part) { read_normalizer(part, out); });
  } else if (type == "BertNormalizer" || type == "Bert") {
    BertOptions options;
    options.clean_text = json.at("clean_text").boolean();
    options.handle_chinese_chars = json.at("handle_chinese_chars").boolean();
    options.lowercase = json.at("lowercase").boolean();
    options.strip_accents = json.boolean("strip_accents", options.lowercase);
    out.push_back(make_bert_normalizer(options));
  } else if (type == "Strip") {
    out.push_back(make_strip(json.at("strip_left").boolean(), json.at("strip_right").boolean()));
  } else if (type == "StripAccents") {
    out.push_back(make_strip_accents());
  } else if (type == "NFC") {
    out.push_back(make_form(NormalForm::nfc));
  } else if (type == "NFD") {
    out.push_back(make_form(NormalForm::nfd));
  } else if (type == "NFKC") {
    out.push_back(make_form(NormalForm::nfkc));
  } else if (type == "NFKD") {
    out.push_back(make_form(NormalForm::nfkd));
  } else if (type == "Lowercase") {
    out.push_back(make_lowercase());
  } else if (type == "Nmt") {
    out.push_back(make_nmt());
  } else if (type == "Precompiled") {
    const auto charsmap = json.find("precompiled_charsmap");
    const std::string bytes = charsmap ? bytes_of(*charsmap) : std::string();
    if (!bytes.empty()) out.push_back(make_precompiled(bytes, json.where()));
  } else if (type == "Replace") {
    const PatternText pattern = read_pattern(json.at("pattern"));
    out.push_back(make_replace(pattern.text, pattern.literal, std::string(json.at("content").text()), json.where()));
  } else if (type == "Prepend") {
    out.push_back(make_prepend(std::string(json.at("prepend").text())));
  } else if (type == "ByteLevel") {
    out.push_back(make_byte_level_normalizer());
  } else {
    throw json.wrong("a normalizer of a known type");
  }
}

bool ends_in_byte_level(const TapeField& json) {
  std::size_t count = 0;
  bool last = false;
  const auto visit = [&](const auto& self, const TapeField& part) -> void {
    if (part.at("type").text() == "Sequence") {
      for_each_part(part, "pretokenizers", [&](const TapeField& inner) { self(self, inner); });
      return;
    }
    last = part.at("type").text() == "ByteLevel";
    count += last ? 1 : 0;
  };
  visit(visit, json);
  return last && count == 1;
}

void read_pre_tokenizer(const TapeField& json, bool map_bytes, PreTokenizers& out) {
  const std::string_view type = json.at("type").text();
  if (type == "Sequence") {
    for_each_part(json, "pretokenizers", [&](const TapeField& part) { read_pre_tokenizer(part, map_bytes, out); });
  } else if (type == "BertPreTokenizer") {
    out.push_back(make_char_split({kWhite}, SplitBehavior::removed));
    out.push_back(make_char_split({kPunctuation}, SplitBehavior::isolated));
  } else if (type == "ByteLevel") {
    out.push_back(make_byte_level(json.at("add_prefix_space").boolean(), json.boolean("use_regex", true), map_bytes));
  } else if (type == "Delimiter" || type == "CharDelimiterSplit") {
    out.push_back(make_char_split({0, character(json.at("delimiter"))}, SplitBehavior::removed));
  } else if (type == "Metaspace") {
    out.push_back(
        make_metaspace(character(json.at("replacement")), read_prepend_scheme(json), json.boolean("split", true)));
  } else if (type == "Whitespace") {
    out.push_back(make_words_and_symbols());
  } else if (type == "WhitespaceSplit") {
    out.push_back(make_char_split({kWhite}, SplitBehavior::removed));
  } else if (type == "Split") {
    const PatternText pattern = read_pattern(json.at("pattern"));
    out.push_back(make_regex_split(pattern.text, pattern.literal, read_behavior(json.at("behavior")),
                                   json.boolean("invert", false), json.where()));
  } else if (type == "Punctuation") {
    const auto behavior = json.find("behavior");
    out.push_back(make_char_split({kPunctuation}, behavior ? read_behavior(*behavior) : SplitBehavior::isolated));
  } else if (type == "Digits") {
    const bool single = json.at("individual_digits").boolean();
    out.push_back(make_char_split({kNumeric}, single ? SplitBehavior::isolated : SplitBehavior::contiguous));
  } else if (type == "UnicodeScripts") {
    out.push_back(make_unicode_scripts());
  } else if (type == "FixedLength") {
    const auto length = json.find("length");
    const std::int64_t characters = length ? length->integer() : 5;
    if (characters < 1) throw json.wrong("a length of at least 1");
    out.push_back(make_fixed_length(static_cast<std::size_t>(characters)));
  } else {
    throw json.wrong("a pre-tokenizer of a known type");
  }
}

void read_post_processor(const TapeField& json, PostProcessors& out) {
  const std::string_view type = json.at("type").text();
  if (type == "Sequence") {
    for_each_part(json, "processors", [&](const TapeField& part) { read_post_processor(part, out); });
  } else if (type == "TemplateProcessing") {
    read_template(json, out);
  } else if (type == "BertProcessing") {
    read_bert_like(json, false, out);
  } else if (type == "RobertaProcessing") {
    if (json.boolean("trim_offsets", true)) out.push_back(make_offset_trimmer(json.boolean("add_prefix_space", true)));
    read_bert_like(json, true, out);
  } else if (type == "ByteLevel") {
    if (json.boolean("trim_offsets", true)) out.push_back(make_offset_trimmer(json.boolean("add_prefix_space", true)));
  } else {
    throw json.wrong("a post-processor of a known type");
  }
}

void read_decoder(const TapeField& json, TokenDecoders& out) {
  const std::string_view type = json.at("type").text();
  const auto count = [&](std::string_view key) {
    const TapeField value = json.at(key);
    if (value.integer() < 0) throw value.wrong("a count");
    return static_cast<std::size_t>(value.integer());
  };
  if (type == "Sequence") {
    for_each_part(json, "decoders", [&](const TapeField& part) { read_decoder(part, out); });
  } else if (type == "ByteLevel") {
    out.push_back(make_byte_level_decoder());
  } else if (type == "ByteFallback") {
    out.push_back(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    out.push_back(make_fuse_decoder());
  } else if (type == "Strip") {
    out.push_back(make_strip_decoder(character(json.at("content")), count("start"), count("stop")));
  } else if (type == "Replace") {
    const PatternText pattern = read_pattern(json.at("pattern"));
    out.push_back(
        make_replace_decoder(pattern.text, pattern.literal, std::string(json.at("content").text()), json.where()));
  } else if (type == "Metaspace") {
    out.push_back(
        make_metaspace_decoder(character(json.at("replacement")), read_prepend_scheme(json) != PrependScheme::never));
  } else if (type == "WordPiece") {
    out.push_back(make_word_piece_decoder(std::string(json.at("prefix").text()), json.boolean("cleanup", true)));
  } else if (type == "BPEDecoder") {
    out.push_back(make_bpe_decoder(json.text("suffix", "</w>")));
  } else if (type == "CTC") {
    out.push_back(make_ctc_decoder(json.text("pad_token", "<pad>"), json.text("word_delimiter_token", "|"),
                                   json.boolean("cleanup", true)));
  } else {
    throw json.wrong("a decoder of a known type");
  }
}

}  // namespace tern::tokenizer
