// Every error that a tokenizer's files can make: tokenizer.json, sentencepiece's models, GGUF metadata, and the
// directory around them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "checkpoint/gguf_writer.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "tests/support/temp_dir.h"
#include "tokenizer/aligned_text.h"
#include "tokenizer/gguf/tokenizer_gguf.h"
#include "tokenizer/gguf/vocabulary.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_files.h"

namespace tern::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBpe = R"("model":{"type":"BPE","vocab":{"a":0},"merges":[]})";

std::string line_of(const std::string& json) {
  const auto made = Tokenizer::from_json(json, "f");
  if (made.ok()) return "accepted";
  EXPECT_EQ(made.error().kind, ErrorKind::data);
  return made.error().line();
}

struct Case {
  std::string json;
  std::string says;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.json; }

class TokenizerJsonErrors : public testing::TestWithParam<std::vector<Case>> {};

TEST_P(TokenizerJsonErrors, NameTheFieldAndWhatItHolds) {
  for (const Case& one : GetParam()) {
    EXPECT_EQ(line_of(one.json), cat("f", one.says, "; fetch the file again, or correct it")) << one.json;
  }
}

// A file whose only fault is in the part.
std::string with(const char* part) { return cat("{", part, ",", kBpe, "}"); }
std::string model(const char* members) { return cat(R"({"model":{)", members, "}}"); }

INSTANTIATE_TEST_SUITE_P(
    Values, TokenizerJsonErrors,
    testing::Values(std::vector<Case>{
        {"[]", ": expected an object, found []"},
        {"{}", R"(: expected a field "model", found none)"},
        {R"({"version":"2.0"})", R"(: field "version": expected version "1.0", found "2.0")"},
        {R"({"version":2})", ": field \"version\": expected a string, found 2"},
        {with(R"("added_tokens":7)"), ": field \"added_tokens\": expected an array, found 7"},
        {with(R"("added_tokens":[{"content":"x","special":7}])"),
         ": field \"added_tokens[0].special\": expected true or false, found 7"},
        {model(R"("type":"BPE","dropout":"x","vocab":{},"merges":[])"),
         R"(: field "model.dropout": expected a number, found "x")"},
        {model(R"("type":"BPE","vocab":7,"merges":[])"), ": field \"model.vocab\": expected an object, found 7"},
        {model(R"("type":"BPE","vocab":{"a":-1},"merges":[])"),
         R"(: field "model.vocab": expected token ids from 0 to 2147483647, found another value for "a")"},
        {model(R"("type":"BPE","vocab":{"a":0},"merges":["a"])"),
         R"(: field "model.merges[0]": expected two tokens with a space between, found "a")"},
        {model(R"("type":"BPE","vocab":{"a":0},"merges":[["a"]])"),
         R"(: field "model.merges[0]": expected two tokens, found ["a"])"},
        {model(R"("type":"BPE","vocab":{"a":0},"merges":["a b"])"),
         R"(: field "model": merge 0: expected two tokens whose join is a token, all in the vocabulary, found "a" "b")"},
        {model(R"("type":"Unigram","vocab":[["a"]])"),
         R"(: field "model.vocab[0]": expected a piece and its score, found ["a"])"},
        {model(R"("type":"Unigram","unk_id":7,"vocab":[["a",0]])"),
         ": field \"model\": unk_id: expected an id below 1, found 7"},
        {model(R"("type":"Unigram","unk_id":"x","vocab":[["a",0]])"),
         R"(: field "model.unk_id": expected an integer, found "x")"},
        {model(R"("type":"WordPiece","vocab":{},"max_input_chars_per_word":-1)"),
         ": field \"model.max_input_chars_per_word\": expected a count of characters, found -1"},
        {model(R"("type":"Char","vocab":{})"),
         R"(: field "model": expected a model of type BPE, Unigram, WordPiece or WordLevel, found "Char")"},
    }));

INSTANTIATE_TEST_SUITE_P(
    Parts, TokenizerJsonErrors,
    testing::Values(std::vector<Case>{
        {with(R"("normalizer":{"type":"Odd"})"),
         R"(: field "normalizer": expected a normalizer of a known type, found {"type":"Odd"})"},
        {with(R"("normalizer":{"type":"Replace","content":"","pattern":{}})"),
         R"(: field "normalizer.pattern": expected an object with "String" or "Regex", found {})"},
        {with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"?"})"),
         R"(: field "normalizer.precompiled_charsmap": expected base64, found "?")"},
        {with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAA="})"),
         ": field \"normalizer\": precompiled_charsmap: expected a trie and its replacements, found 2 bytes"},
        {with(R"("pre_tokenizer":{"type":"Odd"})"),
         R"(: field "pre_tokenizer": expected a pre-tokenizer of a known type, found {"type":"Odd"})"},
        {with(R"("pre_tokenizer":{"type":"Punctuation","behavior":"x"})"),
         R"(: field "pre_tokenizer.behavior": expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, found "x")"},
        {with(R"("pre_tokenizer":{"type":"Metaspace","replacement":""})"),
         R"(: field "pre_tokenizer.replacement": expected one character, found "")"},
        {with(R"("pre_tokenizer":{"type":"Metaspace","replacement":"ab"})"),
         R"(: field "pre_tokenizer.replacement": expected one character, found "ab")"},
        {with(R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"x"})"),
         R"(: field "pre_tokenizer.prepend_scheme": expected first, never or always, found "x")"},
        {with(
             R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false})"),
         R"(: field "pre_tokenizer": expected a prepend_scheme that agrees with add_prefix_space, found {"type":"Metaspace","replacement":"_","prepend_scheme":"f...)"},
        {with(R"("pre_tokenizer":{"type":"FixedLength","length":0})"),
         R"(: field "pre_tokenizer": expected a length of at least 1, found {"type":"FixedLength","length":0})"},
        {with(R"("post_processor":{"type":"Odd"})"),
         R"(: field "post_processor": expected a post-processor of a known type, found {"type":"Odd"})"},
        {with(
             R"("post_processor":{"type":"TemplateProcessing","special_tokens":{},"single":[],"pair":[{"Sequence":{"id":"C"}}]})"),
         R"(: field "post_processor.pair[0].Sequence": expected sequence A or B, found {"id":"C"})"},
        {with(
             R"("post_processor":{"type":"TemplateProcessing","special_tokens":{},"single":[{"Sequence":{"id":"A","type_id":-1}}]})"),
         R"(: field "post_processor.single[0].Sequence.type_id": expected a type of tokens, found -1)"},
        {with(R"("post_processor":{"type":"BertProcessing","cls":["x"],"sep":["y",1]})"),
         R"(: field "post_processor.cls": expected a token and its id, found ["x"])"},
        {with(
             R"("post_processor":{"type":"TemplateProcessing","special_tokens":{},"single":[{"Sequence":{"id":"B"}}]})"),
         R"(: field "post_processor.single[0].Sequence": expected sequence A in the template for one text, found {"id":"B"})"},
        {with(
             R"("post_processor":{"type":"TemplateProcessing","special_tokens":{"x":{"ids":[-1],"tokens":[]}},"single":[{"SpecialToken":{"id":"x"}}]})"),
         ": field \"post_processor.special_tokens.x.ids[0]\": expected a token id, found -1"},
        {with(R"("decoder":{"type":"Odd"})"),
         R"(: field "decoder": expected a decoder of a known type, found {"type":"Odd"})"},
        {with(R"("decoder":{"type":"Strip","content":"a","start":-1,"stop":0})"),
         ": field \"decoder.start\": expected a count, found -1"},
    }));

TEST(TokenizerErrors, SayWhatIsNoJson) {
  EXPECT_EQ(line_of(model(R"("type":"BPE","vocab":{"a":999999},"merges":[])")),
            "vocabulary: expected token ids from 0 without large gaps, found id 999999 of 1 tokens; fetch the file "
            "again, or correct it");
  const std::string line = line_of("{");  // with the parser's own words
  EXPECT_EQ(line.rfind("f: expected a JSON document, found The JSON document has an improper structure", 0), 0U)
      << line;
  EXPECT_TRUE(line.ends_with("; fetch the file again, or correct it")) << line;
}

// What a text meets that the vocabulary has no token for.
TEST(TokenizerErrors, NameTheUnknownTokenThatIsNotThere) {
  const auto line = [](const std::string& json) -> std::string {
    try {
      (void)Tokenizer::from_json(json, "f").value().encode("b", false);
    } catch (const Failure& failure) {
      return failure.error().line();
    }
    return "encoded";
  };
  const std::string none = R"(vocabulary: expected the unknown token "u", found none; add it to the vocabulary)";
  EXPECT_EQ(line(model(R"("type":"BPE","unk_token":"u","vocab":{"a":0},"merges":[])")), none);
  EXPECT_EQ(line(model(R"("type":"WordPiece","unk_token":"u","vocab":{"a":0})")), none);
  EXPECT_EQ(line(model(R"("type":"WordLevel","unk_token":"u","vocab":{"a":0})")), none);
  EXPECT_EQ(line(model(R"("type":"Unigram","vocab":[["a",0]])")),
            "vocabulary: expected an unk_id for characters outside it, found none; set unk_id");
}

TEST(RegexErrors, SayWhatIsNotRead) {
  const auto line = [](const char* pattern) -> std::string {
    try {
      const Regex regex(pattern, RegexDialect::oniguruma, "f");
      std::vector<Range> found;
      regex.find_all(std::string(40, 'a'), found);
    } catch (const Failure& failure) {
      return failure.error().line();
    }
    return "matched";
  };
  const std::string mend = "; use the model's tokenizer.json as it was published";
  EXPECT_EQ(line("[\\W]"), "f: expected a regular expression without \\W or \\H inside a class, found [\\W]" + mend);
  EXPECT_EQ(line("[a[b]]"), "f: expected a regular expression without nested character classes, found [a[b]]" + mend);
  EXPECT_EQ(line("[[:alpha]"), "f: expected a regular expression whose classes end, found [[:alpha]" + mend);
  EXPECT_EQ(line("[a&&b]"), "f: expected a regular expression without && inside a class, found [a&&b]" + mend);
  EXPECT_EQ(line("(a"),
            "f: expected a regular expression that PCRE2 compiles, found \"(a\": missing closing parenthesis "
            "at byte 2" +
                mend);
  EXPECT_EQ(line("(?:(a+)+)+[bc]"),
            "f: expected a regular expression that can be matched, found match limit exceeded" + mend);
}

// One field of a protocol buffer: tag, then bytes.
std::string field(int number, int type, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | type)) + bytes;
}
std::string message(int number, const std::string& bytes) {
  return field(number, 2, std::string(1, static_cast<char>(bytes.size())) + bytes);
}

TEST(SentencePieceErrors, NameTheByte) {
  const auto line = [](const std::string& bytes) {
    const auto made = Tokenizer::from_sentencepiece(bytes, "f");
    return made.ok() ? "accepted" : made.error().line();
  };
  const std::string damaged = "; the file is damaged, or no sentencepiece model";
  EXPECT_EQ(line(std::string(1, '\0')), "f: byte 1: expected a field number, found 0" + damaged);
  EXPECT_EQ(line("\x0a\x05"), "f: byte 2: expected at most 0 bytes, found a length of 5" + damaged);
  EXPECT_EQ(line("\x0b"), "f: byte 1: expected wire type 0, 1, 2 or 5, found 3" + damaged);
  EXPECT_EQ(line("\x08"), "f: byte 1: expected a number, found the end of the message" + damaged);
  EXPECT_EQ(line("\x08" + std::string(11, '\xff')),
            "f: byte 11: expected a number of at most 10 bytes, found a longer one" + damaged);
  EXPECT_EQ(line("\x0d\x01"), "f: byte 1: expected 4 bytes, found the end of the message" + damaged);
  EXPECT_EQ(line(message(1, message(1, "\xff"))), "f: byte 2: expected a piece in UTF-8, found other bytes" + damaged);
  EXPECT_EQ(line(message(2, field(3, 0, "\x09"))), "f: trainer_spec.model_type: expected 1 to 4, found 9" + damaged);
  EXPECT_EQ(line(""), "f: expected a sentencepiece model with pieces, found none" + damaged);
  EXPECT_EQ(line(message(1, message(1, "a")) + message(2, field(3, 0, "\x03"))),
            "f: trainer_spec.model_type: expected unigram or BPE, found word; use a model of these kinds, or its "
            "tokenizer.json");
}

GgufVocabulary vocabulary(const std::string& model) {
  GgufVocabulary made;
  made.where = "f";
  made.model = model;
  made.tokens = {"a", "b", "ab"};
  return made;
}

TEST(GgufTokenizerErrors, NameTheKey) {
  const auto line = [](const GgufVocabulary& made) {
    const auto tokenizer = Tokenizer::from_gguf(made);
    return tokenizer.ok() ? "accepted" : tokenizer.error().line();
  };
  const std::string again = "; convert the model again";
  auto made = vocabulary("gpt2");
  made.tokens.clear();
  EXPECT_EQ(line(made), "f: tokenizer.ggml.tokens: expected a vocabulary, found none" + again);
  made = vocabulary("gpt2");
  made.token_types = {1};
  EXPECT_EQ(line(made), "f: tokenizer.ggml.token_type: expected 3 entries, found 1" + again);
  made = vocabulary("gpt2");
  made.scores = {1};
  EXPECT_EQ(line(made), "f: tokenizer.ggml.scores: expected 3 entries, found 1" + again);
  EXPECT_EQ(line(vocabulary("odd")),
            "f: tokenizer.ggml.model: expected gpt2, gemma4, whitespace, llama, bert or t5, found \"odd\"" + again);
  made = vocabulary("gpt2");
  made.tokens[1] = "\xff";
  EXPECT_EQ(line(made), "f: tokenizer.ggml.tokens[1]: expected UTF-8, found other bytes" + again);
  made = vocabulary("gpt2");
  made.merges = {"ab"};
  EXPECT_EQ(line(made), "f: tokenizer.ggml.merges[0]: expected two tokens with a space between, found \"ab\"" + again);
  made = vocabulary("gpt2");
  made.pre = "smolm";
  EXPECT_EQ(line(made),
            "f: tokenizer.ggml.pre: expected a pre-tokenizer that is known here, found \"smolm\"; the nearest is "
            "\"smollm\"" +
                again);
}

// What a file says of pairs, with the numbers that Hugging Face's tokenizers gives.
TEST(Pairs, AreJoinedAsTheFileSays) {
  const auto pair_of = [](const char* name) {
    const auto file = fs::path(TERN_TEST_DATA) / "tokenizers" / (std::string(name) + ".json");
    return Tokenizer::from_json(io::read_text_file(file).value(), name)->encode_pair("the fox", "walking 12");
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(pair_of("bl-roberta").ids, (Ids{0, 267, 478, 1, 1, 463, 303, 1}));
  EXPECT_EQ(pair_of("bl-roberta").type_ids, Ids(8, 0));
  EXPECT_EQ(pair_of("bert-processing").ids, (Ids{1, 185, 293, 2, 237, 188, 2}));
  EXPECT_EQ(pair_of("bert-processing").type_ids, (Ids{0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(pair_of("xlmr").ids, (Ids{1, 15, 55, 10, 2, 2, 32, 4, 9, 13, 7, 16, 50, 2}));
}

TEST(Pairs, NeedOneThatJoinsThem) {
  const auto line = [](const std::string& json) {
    const Tokenizer made = Tokenizer::from_json(json, "f").value();
    const auto ids = catching([&] { return made.encode_pair("a", "a"); });
    return ids.ok() ? std::string("accepted") : ids.error().line();
  };
  constexpr const char* kJoins = R"({"type":"BertProcessing","cls":["x",1],"sep":["y",2]})";
  const std::string mend = "; choose a model whose tokenizer.json says how a query and a document are read together";
  EXPECT_EQ(line(cat("{", kBpe, "}")), "f: post_processor: expected one that joins two texts, found none" + mend);
  EXPECT_EQ(line(cat(R"({"post_processor":{"type":"Sequence","processors":[)", kJoins, ",", kJoins, "]},", kBpe, "}")),
            "f: post_processor: expected one that joins two texts, found 2" + mend);
}

class Folder : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const { scratch_.write(name, text); }
  [[nodiscard]] std::string line(const Error& error) const { return scratch_.line(error); }
  test::TempDir scratch_;
  const fs::path& folder_ = scratch_.path();
};

class TokenizerFolder : public Folder {};

TEST_F(TokenizerFolder, MustHoldATokenizer) {
  EXPECT_EQ(line(Tokenizer::from_directory(folder_).error()),
            "DIR: expected tokenizer.json or tokenizer.model, found neither; name a model directory that has its "
            "tokenizer's files");
}

// What a GGUF file cannot say of a tokenizer.json is refused by name.
TEST_F(TokenizerFolder, MustFitAGguf) {
  const auto refused = [&](const std::string& json) {
    put("tokenizer.json", json);
    return line(make_gguf_vocabulary(folder_, 0).error());
  };
  EXPECT_EQ(
      refused(model(R"("type":"WordLevel","vocab":{"a":0})")),
      "DIR/tokenizer.json: expected a tokenizer of type BPE, which a GGUF file can hold, found WordLevel; keep the "
      "model as safetensors");
  const char* vocab = R"("model":{"type":"BPE","vocab":{"a":0,"<x>":1},"merges":[]})";
  EXPECT_EQ(
      refused(cat(
          R"({"post_processor":{"type":"TemplateProcessing","special_tokens":{"<x>":{"ids":[1],"tokens":["<x>"]}},)",
          R"("single":[{"SpecialToken":{"id":"<x>"}},{"Sequence":{"id":"A"}}]},)", vocab, "}")),
      "DIR/tokenizer.json: field \"post_processor\": expected one that adds bos_token before and eos_token after, "
      "found other "
      "tokens; name bos_token and eos_token in tokenizer_config.json");
  EXPECT_EQ(refused(R"({"pre_tokenizer":{"type":"Split","pattern":{"String":"l"},"behavior":"Isolated"},)"
                    R"("model":{"type":"BPE","vocab":{"l":0,"ll":1},"merges":["l l"]}})"),
            "DIR/tokenizer.json: field \"pre_tokenizer\": expected a split that llama.cpp knows, found Split l; keep "
            "the model as "
            "safetensors");
  // sentencepiece joins whatever pair is a token; here no merge says so.
  EXPECT_EQ(refused(R"({"model":{"type":"BPE","byte_fallback":true,"vocab":{"H":0,"e":1,"He":2},"merges":[]}})"),
            "DIR/tokenizer.json: expected a tokenizer whose ids sentencepiece's way of merging gives, found other ids; "
            "keep the model as safetensors");
}

TEST_F(TokenizerFolder, IsWrittenFromTheGgufKindsThatATokenizerJsonHas) {
  const auto attempt = [&](const GgufVocabulary& made) {
    checkpoint::GgufMetadata metadata;
    set_gguf_vocabulary(made, metadata);
    auto writer = checkpoint::GgufWriter::create(folder_ / "v.gguf", metadata, {}).value();
    EXPECT_TRUE(writer.finish().ok());
    return line(write_tokenizer_files(folder_ / "v.gguf", folder_).error());
  };
  auto made = vocabulary("gpt2");
  made.pre = "dbrx";
  EXPECT_EQ(
      attempt(made),
      "DIR/v.gguf: key \"tokenizer.ggml.pre\": expected smollm, llama-bpe, qwen2 or gpt-2, whose tokenizer.json can be "
      "written, found dbrx; put the model's own tokenizer.json beside the result");
  EXPECT_EQ(attempt(vocabulary("bert")),
            "DIR/v.gguf: key \"tokenizer.ggml.model\": expected gpt2, the byte-level kind whose tokenizer.json can be "
            "written, "
            "found bert; put the model's own tokenizer.json beside the result");
  // A directory in a file's place.
  fs::create_directory(folder_ / "model");
  std::ofstream(folder_ / "model/merges.txt") << "";
  fs::create_directory(folder_ / "merges.txt");
  const Status copied = write_tokenizer_files(folder_ / "model", folder_);
  ASSERT_FALSE(copied.ok());
  EXPECT_NE(copied.error().problem.find(cat(" to ", (folder_ / "merges.txt").string(), ": ")), std::string::npos);
  EXPECT_EQ(copied.error().mend, "check the folder and the disk");
}

// Offsets are 32 bits wide. The text is never read.
TEST(AlignedTextErrors, RefuseWhatOffsetsCannotSay) {
  const std::size_t bytes = std::size_t{1} << 31;
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  try {
    const AlignedText text({static_cast<const char*>(memory), bytes}, false);
    ADD_FAILURE() << "accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().line(),
              "a text of 2147483648 bytes is too long to tokenize: less than 2 GiB fit; split it.");
  }
  ::munmap(memory, bytes);
}

}  // namespace
}  // namespace tern::tokenizer
