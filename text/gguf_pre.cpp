#include "text/gguf_pre.h"

#include <algorithm>

#include "base/strings.h"

namespace tern::text {

namespace {

constexpr std::string_view kContractions = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))";
constexpr std::string_view kWord = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
constexpr std::string_view kTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSlashTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Words by letter case, which llama.cpp tells by ASCII alone; `also` are further classes of a letter, `end` what may
// follow.
std::string mixed_case(std::string_view also, std::string_view end) {
  const std::string letter = cat(R"((?=[\p{L})", also, "])");
  const std::string lead = R"([^\r\n\p{L}\p{N}]?)";
  return cat(lead, "(", letter, "([^a-z]))*(", letter, "([^A-Z]))+", end, "|", lead, "(", letter, "([^a-z]))+(", letter,
             "([^A-Z]))*", end, "|");
}

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Tail =
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kOneDigit = R"(\p{N})";
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
constexpr const char* kCjk = "[一-龥぀-ゟ゠-ヿ]+";
constexpr const char* kDeepseek3 =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-"
    "Ὅὐ-"
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-"
    "ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-"
    "𐓓𐓘-"
    "𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
constexpr const char* kPoro = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

const std::vector<GgufPre>& table() {
  static const std::string kLlama3 = cat(kContractions, kWord, kThreeDigits, kTail);
  static const std::string kQwen2 = cat(kContractions, kWord, kOneDigit, kTail);
  static const std::vector<GgufPre> all{
      {{"", "default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {kLlama3},
       true,
       true},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
      {{"glm4", "glm5"}, {kLlama3}, true},
      {{"deepseek-llm"},
       {"[\r\n]", kDeepseekLetters, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+",
        R"(\p{N}+)"}},
      {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", kOneDigit}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {kThreeDigits, kCjk, kDeepseek3}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, "[0-9][0-9][0-9]"}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {kOneDigit, kGpt2}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"},
       {kGpt2}},
      {{"jina-v1-en", "jina-v2-code", "roberta-bpe"}, {kGpt2}, false, false, true},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"},
       {kQwen2}},
      {{"qwen35"}, {cat(kContractions, kQwen35Tail)}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {kPoro}},
      {{"viking"}, {kPoro, kOneDigit}},
      {{"tekken"}, {cat(mixed_case("", ""), kOneDigit, kSlashTail)}, true, true},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
       {cat(mixed_case("", cat(kContractions, "?")), kThreeDigits, kSlashTail)}},
      {{"granite-embed-multi-97m"},
       {cat(mixed_case(R"(\p{M})", cat(kContractions, "?")), kThreeDigits, kSlashTail)},
       true},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\t\n]|    |  )", kOneDigit,
        R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       false,
       true},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {{"seed-coder"}, {cat(kContractions, kWord, R"(\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)")}},
      {{"ufakzeka"}, {cat(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})", kTail)}},
      {{"laguna"}, {"[^\n]+|[\n]+", kQwen2}},
      {{"minicpm5"}, {kThreeDigits, cat(kContractions, kWord, R"(\p{N}+)", kTail)}, true},
      {{"exaone-moe"},
       {cat(
           kContractions,
           R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")}},
      {{"superbpe"}, {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
      {{"jais-2"},
       {cat(kContractions, kWord, kThreeDigits, R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S))",
            R"(|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})")}},
      {{"gemma4", "granite-embed-multi-311m"}, {"[^\n]+|[\n]+"}, false, true, false, false, true},
      {{"sarvam-moe"}, {"[^\n]+|[\n]+"}, false, false, false, false, true},
  };
  return all;
}

}  // namespace

const GgufPre* find_gguf_pre(std::string_view name) {
  for (const GgufPre& pre : table()) {
    if (std::find(pre.names.begin(), pre.names.end(), name) != pre.names.end()) return &pre;
  }
  return nullptr;
}

std::vector<std::string_view> gguf_pre_names() {
  std::vector<std::string_view> names;
  for (const GgufPre& pre : table()) names.insert(names.end(), pre.names.begin(), pre.names.end());
  return names;
}

}  // namespace tern::text
