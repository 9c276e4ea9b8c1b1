// Processor time to encode documents on one thread: one line of JSON a run.
//
//   tokenize TOKENIZER.json DOCUMENTS ROUNDS      DOCUMENTS: texts parted by a byte 0; {"mib_per_second", "digest"} a
//   round tokenize TOKENIZER.json --lengths KIND SIZE.. one text of SIZE bytes: {"kind", "bytes", "seconds"}, the best
//   of three
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of this process: other programs on the machine do not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void time_documents(const tern::tokenizer::Tokenizer& tokenizer, const std::string& bytes, int rounds) {
  std::vector<std::string_view> documents;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
    documents.emplace_back(std::string_view(bytes).substr(at, end - at));
    at = end + 1;
  }
  for (int round = 0; round < rounds; ++round) {
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    std::size_t total = 0;
    std::vector<std::vector<tern::tokenizer::TokenId>> all;
    const double start = processor_seconds();
    for (const std::string_view document : documents) {
      all.push_back(tokenizer.encode(document, true));
      total += document.size();
    }
    const double seconds = processor_seconds() - start;
    for (const auto& ids : all) XXH3_64bits_update(state, ids.data(), ids.size() * sizeof(ids[0]));
    std::printf("{\"mib_per_second\": %.3f, \"digest\": \"%016llx\"}\n", static_cast<double>(total) / 1048576 / seconds,
                static_cast<unsigned long long>(XXH3_64bits_digest(state)));
    XXH3_freeState(state);
  }
}

// Texts that a careless tokenizer takes more than linear time for.
std::string text_of(const std::string& kind, std::size_t size) {
  static const std::map<std::string, std::string> kRepeated = {
      {"letter", "a"},
      {"spaces", " "},
      {"newlines", "\n"},
      {"emoji", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7\xE2\x80\x8D"},
      {"han", "\xE6\xBC\xA2\xE5\xAD\x97"},
      {"digits", "1234567890"},
      {"marks", "e\xCC\x81\xCC\xA3"},
  };
  std::string out;
  out.reserve(size + 32);
  if (const auto found = kRepeated.find(kind); found != kRepeated.end()) {
    while (out.size() + found->second.size() <= size) out += found->second;
    return out;
  }
  std::uint64_t state = 1;  // one word of letters without pattern
  while (out.size() < size) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out += static_cast<char>('a' + (state >> 33) % 26);
  }
  return out;
}

void time_lengths(const tern::tokenizer::Tokenizer& tokenizer, const std::string& kind, std::size_t size) {
  const std::string text = text_of(kind, size);
  double best = 1e30;
  std::size_t tokens = 0;
  for (int round = 0; round < 3 && (round == 0 || best < 5); ++round) {
    const double start = processor_seconds();
    tokens = tokenizer.encode(text, true).size();
    best = std::min(best, processor_seconds() - start);
  }
  std::printf("{\"kind\": \"%s\", \"bytes\": %zu, \"tokens\": %zu, \"seconds\": %.6f}\n", kind.c_str(), text.size(),
              tokens, best);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc < 4) {
    std::fputs("usage: tokenize TOKENIZER.json DOCUMENTS ROUNDS | TOKENIZER.json --lengths KIND SIZE..\n", stderr);
    return 2;
  }
  const auto tokenizer = tern::tokenizer::Tokenizer::from_json(read(argv[1]), words[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().line().c_str());
    return 1;
  }
  if (words[2] == "--lengths") {
    for (int i = 4; i < argc; ++i) time_lengths(*tokenizer, words[3], std::strtoull(argv[i], nullptr, 10));
  } else {
    time_documents(*tokenizer, read(argv[2]), std::atoi(argv[3]));
  }
  return 0;
}
