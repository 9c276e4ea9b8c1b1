// A layer that guesses a model's next tokens from the model's own hidden states, beside the model's layers and over
// weights of its own in the model's store.
//
// It reads pairs: what the model computed of token i, and the token behind it. Pair i is kept at the place of token i
// in the layer's cache. What the layer gives of a pair says which token comes next, and takes the place of the model's
// states where one guess follows another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "models/loader.h"
#include "nn/cache_spec.h"
#include "nn/context.h"

namespace tern::models {

class SpeculativeHead {
 public:
  virtual ~SpeculativeHead() = default;

  // Reads its weights into the model's store, under names that nobody has there. The model has been loaded; of
  // `options` max_positions and progress count, and of a head from the model's checkpoint quantise. Errors (data): an absent or misshapen tensor, one that
  // the head has no use for; (device): no memory.
  [[nodiscard]] virtual Status load(LoadedModel& model, const LoadOptions& options) = 0;

  [[nodiscard]] virtual std::string name() const = 0;         // "EAGLE-3 head"
  [[nodiscard]] virtual std::string description() const = 0;  // for a line of the log: what it is, where it comes from
  // The files that its weights come from; none where they are the model's.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const io::MappedFile>> files() const = 0;
  // Bytes of the weights that a guess reads, once they are there.
  [[nodiscard]] virtual double bytes(const graph::TensorStore& store) const = 0;

  // The model's layers whose streams it reads (nn/decoder.h); none: the hidden states after the final norm.
  [[nodiscard]] virtual const std::vector<std::int64_t>& streams() const = 0;
  [[nodiscard]] virtual std::int64_t state_width() const = 0;  // columns of all of them together
  [[nodiscard]] virtual std::int64_t hidden_size() const = 0;  // of what the layer gives
  [[nodiscard]] virtual std::vector<nn::CacheSpec> cache_specs() const = 0;
  // The model's id of each of the head's, where its vocabulary is smaller; empty: they are the same.
  [[nodiscard]] virtual const std::vector<std::int32_t>& target_ids() const = 0;

  // The model's states [tokens, state_width] as the layer takes them: [tokens, hidden_size].
  virtual nn::Value first_states(nn::Context& context, nn::Value states) const = 0;
  // The layer: ids of the next tokens [tokens], states [tokens, hidden_size] -> the states of the next guess, of the
  // same shape. Over a paged cache of `inputs`.
  virtual nn::Value next_states(nn::Context& context, const nn::TokenInputs& inputs, nn::Value next_ids,
                                nn::Value states) const = 0;
  // What next_states gave, [rows, hidden_size] -> logits of the tokens that follow, [rows, the head's vocabulary] f32.
  virtual nn::Value logits(nn::Context& context, nn::Value states) const = 0;
};

}  // namespace tern::models
