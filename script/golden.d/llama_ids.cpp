// Token ids by llama.cpp: of each text in CORPUS, add_special off and on, then both with parse_special.
//
// Usage: llama_ids CORPUS VOCABULARY.gguf OUTPUT. CORPUS holds each text as length and bytes, OUTPUT each answer as
// count and ids, all little-endian 32 bit; the count is 0xFFFFFFFF where llama.cpp refuses.
#include <ggml.h>
#include <llama.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::vector<llama_token> ids_of(const llama_vocab* vocabulary, const std::string& text, bool add, bool parse) {
  std::vector<llama_token> ids(text.size() + 16);
  const auto length = static_cast<std::int32_t>(text.size());
  auto count = llama_tokenize(vocabulary, text.data(), length, ids.data(), static_cast<int>(ids.size()), add, parse);
  if (count < 0) {
    ids.resize(static_cast<std::size_t>(-count));
    count = llama_tokenize(vocabulary, text.data(), length, ids.data(), static_cast<int>(ids.size()), add, parse);
  }
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

void* run(void* given) {
  char** const argv = static_cast<char**>(given);
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  // Its assertions would end the process: white space where it expects none, for one.
  ggml_set_abort_callback([](const char* message) { throw std::runtime_error(message); });
  std::ifstream file(argv[1], std::ios::binary);
  const std::string corpus{std::istreambuf_iterator<char>(file), {}};
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  llama_model* const model = llama_model_load_from_file(argv[2], params);
  std::FILE* const out = std::fopen(argv[3], "wb");
  if (model == nullptr || out == nullptr) return nullptr;
  const llama_vocab* const vocabulary = llama_model_get_vocab(model);
  for (std::size_t at = 0; at < corpus.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, corpus.data() + at, sizeof size);
    const std::string text = corpus.substr(at + sizeof size, size);
    at += sizeof size + size;
    for (int flags = 0; flags < 4; ++flags) {
      std::uint32_t count = 0xFFFFFFFF;
      std::vector<llama_token> ids;
      try {
        ids = ids_of(vocabulary, text, (flags & 1) != 0, (flags & 2) != 0);
        count = static_cast<std::uint32_t>(ids.size());
      } catch (const std::exception&) {
      }
      std::fwrite(&count, sizeof count, 1, out);
      std::fwrite(ids.data(), sizeof(llama_token), ids.size(), out);
    }
  }
  return std::fclose(out) == 0 ? model : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  // Its regular expressions recurse once a character.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{4} << 30);
  pthread_t thread;
  void* done = nullptr;
  if (pthread_create(&thread, &attributes, run, argv) != 0) return 1;
  pthread_join(thread, &done);
  return done == nullptr ? 1 : 0;
}
