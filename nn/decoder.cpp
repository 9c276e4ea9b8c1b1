#include "nn/decoder.h"

#include <stdexcept>

#include "base/strings.h"
#include "nn/embedding.h"
#include "nn/scale.h"

namespace tern::nn {
namespace {

// What stands for the tokens: their embeddings, or features of images, which no factor of the model scales.
Residual beginning(Context& context, const DecoderConfig& config, const TokenInputs& inputs) {
  const std::string table = config.module + ".embed_tokens";
  if (!inputs.images) {
    const Value words = word_embedding(context, table, inputs.ids, config.scales_noise ? 1.0 : config.embedding_scale);
    return Residual(words, config.embedding_scale);
  }
  const Value words = embedding(context, table, inputs.images->text_ids);  // zeros where a feature stands
  return Residual(weighted_sum(context, config.embedding_scale, words, 1.0, inputs.images->features));
}

// Features that come in after a layer (Meng et al., "DeepStack", 2024).
void add_deepstack(Context& context, const TokenInputs& inputs, std::int64_t layer, Residual& x) {
  if (!inputs.images || layer >= static_cast<std::int64_t>(inputs.images->deepstack.size())) return;
  (void)stream(context, x);
  x.add(inputs.images->deepstack[static_cast<std::size_t>(layer)]);
}

std::string stream_name(std::int64_t layer) { return cat("stream/", layer); }

// A sum of its own, beside the one in the norm that reads the stream next: what the layers compute stays to the bit
// what it is when nobody asks.
void keep_stream(Context& context, std::int64_t layer, Residual x) {
  if (context.has_kept(stream_name(layer))) context.keep(stream_name(layer), stream(context, x));
}

}  // namespace

void want_stream(Context& context, std::int64_t layer) { context.keep(stream_name(layer), {}); }

Value wanted_stream(Context& context, std::int64_t layer) {
  const Value stream = context.kept(stream_name(layer));
  if (!stream.present()) throw std::logic_error(cat("the decoder has no stream before layer ", layer));
  return stream;
}

Value decoder(Context& context, const DecoderConfig& config, const TokenInputs& inputs, const DecoderLayer& layer) {
  context.dropout_keys = inputs.dropout_keys;
  Residual x = beginning(context, config, inputs);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    keep_stream(context, i, x);
    context.begin_layer();
    layer(i, cat(config.module, ".layers.", i), x);
    add_deepstack(context, inputs, i, x);
    // Recomputed, a layer keeps what it reads: the stream alone, not the stream and a branch that the next norm adds.
    if (context.options().training) (void)stream(context, x);
    context.end_layer();
  }
  keep_stream(context, config.layers, x);
  const std::string last = cat(config.module, ".", config.norm);
  return config.is_centred ? layer_norm(context, last, config.eps, x)
                           : norm(context, last, config.eps, x, config.norm_offset);
}

}  // namespace tern::nn
