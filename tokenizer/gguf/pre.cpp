#include "tokenizer/gguf/pre.h"

#include <algorithm>

#include "base/strings.h"
#include "tokenizer/gguf/llama_split.h"

namespace tern::tokenizer {

namespace {

constexpr std::string_view kContractions = R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))";
constexpr std::string_view kWord = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
constexpr std::string_view kTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSlashTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Words by letter case, which llama.cpp tells by ASCII alone; `also` are further classes of a letter, `end` what may
// follow.
std::string mixed_case(std::string_view also, std::string_view end) {
  const std::string upper = cat(R"([\p{LU})", also, "]");
  const std::string lower = cat(R"([\p{LL})", also, "]");
  const std::string_view lead = R"([^\r\n\p{L}\p{N}]?)";
  return cat(lead, upper, "*", lower, "+", end, "|", lead, upper, "+", lower, "*", end, "|");
}

// The same where the case of a letter does not count, marks are letters and contractions may follow.
std::string any_case() {
  const std::string word = cat(R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]++)", kContractions, "?");
  return cat(word, "|");
}

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Tail =
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLines = R"([^\n]+|\n+)";
constexpr const char* kOneDigit = R"(\p{N})";
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
// Characters by number: several of them have a canonical equivalent that a tool may put in their place.
constexpr const char* kCjk = R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char* kDeepseekHan = R"re([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re";
constexpr const char* kDeepseek3 =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char* kDeepseekLetters =
    R"re(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-)re"
    R"re(\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-)re"
    R"re(\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-)re"
    R"re(\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})re"
    R"re(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-)re"
    R"re(\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-)re"
    R"re(\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})re"
    R"re(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})re"
    R"re(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})re"
    R"re(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-)re"
    R"re(\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})re"
    R"re(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-)re"
    R"re(\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)re";
constexpr const char* kDeepseekPunctuation =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";
constexpr const char* kYoutuScripts =
    R"re([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})re"
    R"re(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5})re"
    R"re(\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char* kAfmoeScripts =
    R"re([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-)re"
    R"re(\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-)re"
    R"re(\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)re";
// White space at the end, in time linear in its length.
constexpr const char* kTrailing = R"((?<!\s)\s+$)";
constexpr const char* kPoro = R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)re";

const std::vector<GgufPre>& table() {
  static const std::string kLlama3 = cat(kContractions, kWord, kThreeDigits, kTail);
  static const std::string kQwen2 = cat(kContractions, kWord, kOneDigit, kTail);
  static const std::vector<GgufPre> all{
      {{"", "default"}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {kLlama3},
       true,
       true},
      {{"dbrx", "smaug-bpe"}, {kLlama3}},
      {{"chatglm-bpe"}, {kLlama3}, false, false, false, true, false, false, true},
      {{"glm4", "glm5"}, {kLlama3}, true, false, false, true, false, false, true},
      {{"deepseek-llm"}, {"[\r\n]", kDeepseekLetters, kDeepseekPunctuation, kTrailing, kDeepseekHan, R"(\p{N}+)"}},
      {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekHan, kOneDigit}},
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
      {{"tiny_aya", "cohere2moe"}, {std::string(kDigitGroups), cat(any_case(), kThreeDigits, kSlashTail)}},
      {{"youtu"}, {kYoutuScripts, cat(any_case(), kOneDigit, kSlashTail)}, true},
      {{"afmoe"}, {std::string(kDigitGroups), kAfmoeScripts, kDeepseek3}},
      {{"spark2_5"},
       {kThreeDigits, kCjk,
        R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re",
        kOneDigit}},
      {{"kimi-k2"},
       {cat(R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?(?:(?![\p{Han}])[\p{L}])++)", kContractions, "?|", kThreeDigits, kTail)}},
      {{"whitespace"}, {R"(\S+)"}, false, false, false, false},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\t\n]|    |  )", kOneDigit,
        R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
       false,
       true},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {{"seed-coder"}, {cat(kContractions, kWord, R"(\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)")}},
      {{"ufakzeka"}, {cat(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N})", kTail)}},
      {{"laguna"}, {kLines, kQwen2}},
      {{"minicpm5"}, {kThreeDigits, cat(kContractions, kWord, R"(\p{N}+)", kTail)}, true},
      {{"exaone-moe"},
       {cat(
           kContractions,
           R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)")}},
      {{"superbpe"}, {R"(\p{N}+)", std::string(kAsciiDigitGroups)}},
      {{"jais-2"},
       {cat(kContractions, kWord, kThreeDigits, R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S))",
            R"(|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})")}},
      {{"gemma4", "granite-embed-multi-311m"}, {kLines}, false, true, false, false, true, true},
      {{"sarvam-moe"}, {kLines}, false, false, false, false, true},
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

}  // namespace tern::tokenizer
