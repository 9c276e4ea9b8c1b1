// What llama.cpp makes of a text as the GGUF's pooling_type says, a vector or the scores of its labels, as float32.
//
// Usage: llama_pooled MODEL.gguf IDS OUTPUT      IDS: int32
#include "llama_run.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  show_errors_alone();
  const std::vector<std::int32_t> ids = read_ids(argv[2]);
  llama_model* const model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  const std::uint32_t labels = llama_model_n_cls_out(model);
  const bool has_labels = labels > 1 || llama_model_cls_label(model, 0) != nullptr;
  llama_context_params params = params_for(ids);
  params.embeddings = true;
  if (has_labels) params.pooling_type = LLAMA_POOLING_TYPE_RANK;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  const llama_batch batch = batch_of(ids);
  const bool is_encoder = llama_get_memory(context) == nullptr;
  if ((is_encoder ? llama_encode(context, batch) : llama_decode(context, batch)) != 0) return 1;
  const float* const row = llama_get_embeddings_seq(context, 0);
  if (row == nullptr) return 1;
  const auto width =
      has_labels ? static_cast<std::size_t>(labels) : static_cast<std::size_t>(llama_model_n_embd(model));
  std::FILE* const out = std::fopen(argv[3], "wb");
  if (out == nullptr) return 1;
  std::fwrite(row, sizeof(float), width, out);
  return std::fclose(out);
}
