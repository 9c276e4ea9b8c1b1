#include "nn/decoder.h"

#include "base/strings.h"
#include "nn/embedding.h"

namespace tern::nn {

Value decoder(Context& context, const DecoderConfig& config, const TokenInputs& inputs, const DecoderLayer& layer) {
  context.dropout_keys = inputs.dropout_keys;
  Residual x(embedding(context, config.module + ".embed_tokens", inputs.ids), config.embedding_scale);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    context.begin_layer();
    layer(i, cat(config.module, ".layers.", i), x);
    context.end_layer();
  }
  const std::string last = cat(config.module, ".", config.norm);
  return config.is_centred ? layer_norm(context, last, config.eps, x)
                           : norm(context, last, config.eps, x, config.norm_offset);
}

}  // namespace tern::nn
