// What models share that have Mamba-2 (nn/mamba2.h) in some or all of their layers.
#pragma once

#include <string>
#include <vector>

#include "models/config_fields.h"
#include "models/parameters.h"
#include "nn/mamba2.h"

namespace tern::models {

// How config.json says the width of all heads, which a GGUF has: so many times hidden_size, or as mamba_d_ssm.
enum class Width { times_hidden, own };
// mamba_{n_heads,n_groups,d_state,d_conv,expand,d_head,conv_bias,proj_bias}.
[[nodiscard]] std::vector<Field> mamba_fields(Width says);

[[nodiscard]] nn::Mamba2Config mamba_config(const ModelConfig& config);

// The parameters of the layer's mixer under `module`, which a GGUF has under `gguf`, "blk.0".
struct MambaParameters {
  bool norm = true;
  bool out_bias = false;     // of out_proj
  bool out_adapters = true;  // can sit on it
};
void add_mamba(ParameterList& list, const ModelConfig& config, const std::string& module, const std::string& gguf,
               const MambaParameters& options);

}  // namespace tern::models
