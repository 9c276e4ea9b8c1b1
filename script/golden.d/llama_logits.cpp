// Logits by llama.cpp: after each of the token ids in IDS (int32), a float32 for each id of the vocabulary, into
// OUTPUT.
//
// Usage: llama_logits MODEL.gguf IDS OUTPUT
#include "llama_run.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  show_errors_alone();
  const std::vector<std::int32_t> ids = read_ids(argv[2]);
  llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = params_for(ids);
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.swa_full = true;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  const llama_batch batch = batch_of(ids);
  if (llama_decode(context, batch) != 0) return 1;
  const auto vocabulary = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  std::FILE* const out = std::fopen(argv[3], "wb");
  if (out == nullptr) return 1;
  for (std::size_t i = 0; i < ids.size(); ++i)
    std::fwrite(llama_get_logits_ith(context, static_cast<std::int32_t>(i)), sizeof(float), vocabulary, out);
  return std::fclose(out);
}
