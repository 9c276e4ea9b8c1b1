// Logits by llama.cpp: after each of the token ids in IDS (int32), a float32 for each id of the vocabulary, into
// OUTPUT.
//
// Usage: llama_logits MODEL.gguf IDS OUTPUT
#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  std::ifstream file(argv[2], std::ios::binary | std::ios::ate);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tellg()) / sizeof(std::int32_t));
  file.seekg(0).read(reinterpret_cast<char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof ids[0]));
  llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(ids.size());
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.swa_full = true;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(ids.size()), 0, 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.token[i] = ids[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  if (llama_decode(context, batch) != 0) return 1;
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  std::FILE* const out = std::fopen(argv[3], "wb");
  if (out == nullptr) return 1;
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::fwrite(llama_get_logits_ith(context, static_cast<std::int32_t>(i)), sizeof(float), vocabulary, out);
  return std::fclose(out);
}
