// An image between media, which makes patches of files, and the engine, which makes features of patches.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/patch_grid.h"

namespace tern::session {

// One image as the model's processor makes it.
struct ImagePatches {
  std::vector<float> patches;  // [num_patches, patch_dim] f32, normalised. Each patch is in the order that the weight
                               // of the tower's convolution, [out, c, (t,) kh, kw], flattens to. Patches are in the
                               // tower's own order: Qwen's with blocks of merge x merge together, as transformers'
                               // processor gives them; those of SigLIP and InternViT row by row, tile by tile
  std::vector<nn::PatchGrid> grids;  // Qwen: one; Gemma 3: 64 x 64; InternVL: one for each tile
  std::int64_t tokens = 0;           // places for features that it takes in the prompt
};

}  // namespace tern::session
