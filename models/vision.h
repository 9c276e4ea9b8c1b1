// Vision towers: what makes features, which take the places of embeddings, of the patches of an image. A tower is to a
// whole (text_part.h) what an Architecture is to its language model: a file of its own describes it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/program.h"
#include "models/registry.h"
#include "nn/patch_grid.h"

namespace tern::models {

struct LoadOptions;
struct LoadedModel;
struct VisionTower;
class MmprojKeys;

// What a checkpoint says of its tower.
struct VisionConfig {
  const VisionTower* tower = nullptr;
  ModelConfig fields;                // by the tower's tables
  std::int64_t hidden_size = 0;      // of the language model: the width of a feature
  std::int64_t image_token_id = -1;  // in a prompt, wherever a feature comes
  // How many pairs of a head turn by a token's time, row and column in its image; empty: by its place in the prompt.
  std::vector<std::int64_t> mrope_section;
  std::shared_ptr<checkpoint::CheckpointSource> file;  // of its weights; null: the language model's own
};

// Where a tower's actual sizes lie in the counts of a run.
enum VisionCount : std::uint8_t {
  kPatches,
  kPatchRows,  // rows of the tower: patches, and what else it reads beside them
  kFeatures,
  kImageBounds,
  kWindowBounds,
};

// The host's numbers of one image beside its patches, by the names of the graph's inputs.
struct VisionColumns {
  std::map<std::string, std::vector<std::int32_t>> indices;
  std::map<std::string, std::vector<float>> numbers;
  graph::Counts counts{};
  std::int64_t features = 0;  // of the image: the tokens that it takes
};

// What the tower gives, [features, hidden_size] each.
struct VisionFeatures {
  nn::Value features;
  std::vector<nn::Value> deepstack;  // added to the language model's stream after its first layers, in order
};

struct VisionTower {
  std::string whole;                    // "Qwen2_5_VLForConditionalGeneration"
  std::string type;                     // the model_type of its vision_config; "": the whole has no other
  std::string image_token;              // the whole's key of VisionConfig::image_token_id
  std::vector<Field> fields;            // of vision_config
  std::vector<Field> fields_of_whole;   // of what stands around it
  std::vector<std::string> other_keys;  // of vision_config, that change nothing of images
  std::vector<std::string> unread;      // beginnings of names of tensors that no feature needs
  std::int64_t (*num_deepstack)(const VisionConfig& config);
  // Sections where config.json says none; empty: the model has plain positions.
  std::vector<std::int64_t> mrope_section;
  bool mrope_interleaved = false;  // pairs take turns, in place of one section after the other
  bool has_one_size = false;       // images do
  bool grids_apart = false;        // an image's grids have one size each, and none sees another
  bool sees_itself = false;        // tokens of one image see each other both ways
  // A tower's names begin with "visual.", or "vision_tower." and "multi_modal_projector.", however they were saved.
  std::vector<ParameterSpec> (*parameters)(const VisionConfig& config);
  std::int64_t (*patch_dim)(const VisionConfig& config);
  // Images have a multiple of so many patches; of one size, just as many.
  std::int64_t (*patch_unit)(const VisionConfig& config);
  // Throws Failure (data) where the tower can't read such grids.
  VisionColumns (*columns)(const VisionConfig& config, std::span<const nn::PatchGrid> grids);
  // For images of up to so many patches, a multiple of the unit. Declares "patches" [patches, patch_dim] f32, and the
  // columns.
  VisionFeatures (*features)(nn::Context& context, const VisionConfig& config, std::int64_t patches);
  // In a GGUF of its own (mmproj.h): what llama.cpp calls it, the language models that it goes with by their
  // general.architecture (empty: any that no other tower has), and its keys in the words of the whole's config.json.
  std::string projector = {};
  std::vector<std::string> languages = {};
  // Tokens of an image there, where it has a size of its own and no key says others: as published processors have it.
  std::int64_t fewest_tokens = 4, most_tokens = 16384;
  io::Json (*from_mmproj)(MmprojKeys& keys) = nullptr;
};

[[nodiscard]] std::span<const VisionTower> vision_towers();
[[nodiscard]] const VisionTower* find_vision_tower(const std::string& whole);  // null: not served

// What the whole says of its tower; null where there is none that is served. `text` describes its language model.
// Throws Failure (data) for a field that is not served.
[[nodiscard]] std::shared_ptr<const VisionConfig> read_vision(const io::JsonField& whole, const io::JsonField& text,
                                                              const ModelConfig& config);
// The same of a tower, its place for features and its language model's positions aside; `own` is vision_config.
[[nodiscard]] VisionConfig read_tower(const VisionTower& tower, const io::JsonField& whole, const io::JsonField& own,
                                      const ModelConfig& text);
// Whether so many pairs turn by time, row and column; else what is expected.
[[nodiscard]] std::string are_mrope_sections(const ModelConfig& text, const std::vector<std::int64_t>& section);
// The name that a tensor has here; empty for those of other parts.
[[nodiscard]] std::string vision_part_name(const std::string& tensor);
// Puts the tower's weights into the model's store, and says so in its notes. Errors as load_model: then none of them is
// there.
[[nodiscard]] Status load_vision(LoadedModel& model, const LoadOptions& options);
[[nodiscard]] bool has_vision_weights(const LoadedModel& model);

// What towers share: for their files alone.
// "<module>.weight", a convolution whose patches don't overlap, as a linear layer over flattened patches. A GGUF has a
// tensor for each step of time.
void add_patch_embedding(ParameterList& list, const std::string& module, std::int64_t out,
                         std::vector<std::int64_t> kernel, bool bias);
// "<module>.weight" and "<module>.bias" of a layer norm.
void add_layer_norm(ParameterList& list, const std::string& module, std::int64_t width, const std::string& gguf = {});
void add_linear(ParameterList& list, const std::string& module, std::int64_t out, std::int64_t in, bool bias = true,
                const std::string& gguf = {});
// Declares "patches" and embeds them: [patches, hidden].
nn::Value patch_embedding(nn::Context& context, const std::string& module, std::int64_t patches);
// Declares a column of i32, or of lines of f32.
nn::Value index_column(nn::Context& context, const char* name, std::int64_t count, VisionCount slot);
nn::Value number_column(nn::Context& context, const char* name, std::int64_t count, std::int64_t width);
// The only grid of an image of Qwen's. Throws Failure (data).
[[nodiscard]] nn::PatchGrid only_grid(std::span<const nn::PatchGrid> grids, std::int64_t merge);
[[nodiscard]] std::int64_t no_deepstack(const VisionConfig& config);

}  // namespace tern::models
