// What layers need while they add themselves to a graph: parameters by name, adapters, and how to compute.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/differentiate.h"
#include "graph/graph.h"
#include "graph/tensor_store.h"
#include "nn/token_inputs.h"
#include "ops/emit.h"

namespace tern::nn {

// A low-rank adapter of one linear layer (Hu et al., "LoRA", 2021): y += scaling * (dropout(x) A^T) B^T; with factors
// y += scaling * after * ((inner * (dropout(x) A^T)) B^T).
struct LoraLayer {
  std::int64_t rank = 0;
  float scaling = 1.0F;  // alpha / rank, or alpha / sqrt(rank)
  std::string lora_a;    // stored name, [rank, in] f32
  std::string lora_b;    // stored name, [out, rank] f32
  // It sits on an embedding, with lora_a [in, rank], or on experts, with lora_a [experts, rank, in] and lora_b
  // [experts, out, rank]: PEFT's file has these in another form.
  bool in_parts = false;
  // DoRA (nn/dora.h): stored names, [out] f32; empty: none.
  std::string magnitude = {};
  std::string inverse_norm = {};  // of the rows of W + scaling B A, as they are in this step
  // What the pair began as, where W is to be without it (PiSSA, OLoRA): stored names; empty: W is as it is.
  std::string initial_a = {};  // [rank, in] f32
  std::string initial_b = {};  // [out, rank] f32
  // Factors of each feature, VeRA's lambda_d and lambda_b: stored names, f32; empty: none.
  std::string inner = {};  // [rank]
  std::string after = {};  // [out]
};

// Adapters of one linear layer that the rows of a run choose among: y += scaling (x A[slot]^T) B[slot]^T, with the
// scaling in B (ops/lora_segmented.h).
struct LoraSlotsLayer {
  std::string lora_a;  // stored name, [slots, rank, in] f32
  std::string lora_b;  // stored name, [slots, out, rank] f32
};

// How a program computes: the same in every program of a run.
struct Numerics {
  tern_compute compute = TERN_COMPUTE_F32;  // what products round their inputs to
  tern_dtype activations = TERN_F32;        // storage of intermediates
  std::uint32_t needs = 0;                  // TERN_NEED_*: of every op
  // Few rows by quantised weights multiply as TERN_COMPUTE_X15 where the device is best so. A row's bits then depend on
  // how many there are.
  bool x15 = false;
  // Rows by quantised weights multiply as TERN_COMPUTE_INT8 where the device can: more than four, as far as it's faster
  // so, or all without x15.
  bool int8 = false;
};

struct BuildOptions : Numerics {
  bool training = false;
  float lora_dropout = 0.0F;
  std::map<std::string, LoraLayer> adapters;         // by module, "model.layers.0.self_attn.q_proj"
  std::map<std::string, LoraSlotsLayer> lora_slots;  // by module; Context::adapter_slots says which a row has
};

// The graph input that holds a site's ready mask, [tokens, width] u8 with 1 for what is kept, on a device without
// Philox.
[[nodiscard]] std::string dropout_mask_name(std::int32_t site);

class Context {
 public:
  Context(graph::Graph& graph, const graph::TensorStore& store, BuildOptions options)
      : graph_(graph), store_(store), options_(std::move(options)) {}

  // The stored tensor as a constant of the graph, one value however often it is asked for.
  Value weight(const std::string& name);
  [[nodiscard]] bool uses(const std::string& name) const { return weights_.contains(name); }  // so far
  [[nodiscard]] bool has(const std::string& name) const { return store_.find(name) != nullptr; }
  // A cache of one layer: state of the graph, bound by name.
  Value state(const std::string& name, const TensorDesc& desc);

  // What one layer makes and later ones read, by name. Throws std::logic_error where nothing was kept under it.
  void keep(const std::string& name, Value value) { kept_[name] = value; }
  [[nodiscard]] Value kept(const std::string& name) const;
  [[nodiscard]] bool has_kept(const std::string& name) const { return kept_.contains(name); }

  // A number of its own for each dropout of the model, in the order in which the model is written.
  std::int32_t next_dropout_site() { return site_++; }

  [[nodiscard]] graph::Graph& graph() { return graph_; }
  [[nodiscard]] const BuildOptions& options() const { return options_; }
  [[nodiscard]] const accel::Device& device() const { return *store_.device(); }
  // A decoder brackets each of its layers: what lies between may be computed again in the backward.
  void begin_layer() { layers_.push_back({num_nodes(), num_nodes()}); }
  void end_layer() { layers_.back().end = num_nodes(); }
  [[nodiscard]] const std::vector<graph::RecomputeSegment>& layers() const { return layers_; }

  Value adapter_slots;    // [tokens] i32, of the current tokens; the number of slots: no adapter; absent: none has any
  Value dropout_keys;     // of the current tokens; absent: no dropout
  Value embedding_noise;  // [tokens, hidden] f32: added to the tokens' embeddings (NEFTune); absent: none

 private:
  [[nodiscard]] std::int32_t num_nodes() const { return static_cast<std::int32_t>(graph_.nodes().size()); }

  graph::Graph& graph_;
  const graph::TensorStore& store_;
  BuildOptions options_;
  std::map<std::string, Value> weights_;
  std::map<std::string, Value> kept_;
  std::vector<graph::RecomputeSegment> layers_;
  std::int32_t site_ = 0;
};

}  // namespace tern::nn
