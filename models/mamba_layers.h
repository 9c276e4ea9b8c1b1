// What models share that have Mamba-2 (nn/mamba2.h) in some or all of their layers.
#pragma once

#include <string>
#include <vector>

#include "models/config_fields.h"
#include "models/parameters.h"
#include "nn/mamba2.h"

namespace tern::models {

// mamba_{n_heads,n_groups,d_state,d_conv,expand,d_head,conv_bias,proj_bias}. A GGUF has the width of all heads.
[[nodiscard]] std::vector<Field> mamba_fields();

[[nodiscard]] nn::Mamba2Config mamba_config(const ModelConfig& config);

// The parameters of the layer's mixer under `module`, which a GGUF has under `gguf`, "blk.0".
void add_mamba(ParameterList& list, const ModelConfig& config, const std::string& module, const std::string& gguf);

}  // namespace tern::models
