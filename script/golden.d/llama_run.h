// What the programs here that run a model by llama.cpp share.
#pragma once

#include <llama.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <vector>

inline void show_errors_alone() {
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
}

// Of a file of int32.
inline std::vector<std::int32_t> read_ids(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.tellg()) / sizeof(std::int32_t));
  file.seekg(0).read(reinterpret_cast<char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof ids[0]));
  return ids;
}

// One sequence in one step, without flash attention.
inline llama_context_params params_for(const std::vector<std::int32_t>& ids) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(ids.size());
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return params;
}

// The sequence, whose every token gives what is asked for.
inline llama_batch batch_of(const std::vector<std::int32_t>& ids) {
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(ids.size()), 0, 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    batch.token[i] = ids[i];
    batch.pos[i] = static_cast<llama_pos>(i);
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  batch.n_tokens = static_cast<std::int32_t>(ids.size());
  return batch;
}
