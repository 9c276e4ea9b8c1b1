#include "engine/swap_about.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/dtype.h"
#include "base/strings.h"
#include "io/checksum.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "models/vision.h"

namespace tern::engine {
namespace {

namespace fs = std::filesystem;

// Where positions turn otherwise than the checkpoint says, too.
std::string about_rope(const models::ModelConfig& c) {
  const std::array numbers = {c.rope_theta,
                              c.rope_local_theta,
                              c.rope_factor,
                              c.rope_low_freq_factor,
                              c.rope_high_freq_factor,
                              c.rope_original_max_position,
                              c.rope_beta_fast,
                              c.rope_beta_slow,
                              c.rope_attention_factor,
                              c.rope_mscale,
                              c.rope_mscale_all_dim,
                              c.rope_query_growth,
                              c.rope_share,
                              static_cast<double>(c.rope_truncate),
                              static_cast<double>(c.rope_scaling),
                              static_cast<double>(c.max_position_embeddings)};
  io::Xxh3 sum;
  sum.update(std::as_bytes(std::span(numbers)));
  for (const auto* factors : {&c.rope_short_factors, &c.rope_long_factors, &c.rope_freq_factors}) {
    sum.update(std::as_bytes(std::span(*factors)));
  }
  return cat("positions: xxh3 ", sum.hex(), "\n");
}

}  // namespace

Result<std::string> about_model(const session::Session& session, const fs::path& adapter) {
  const models::ModelConfig& config = session.model.config;
  std::string out = cat("model: ", config.architecture, "\n");
  for (const auto& file : session.source->files()) {
    out += cat("weights: ", file->bytes().size(), " bytes, xxh3 ", io::xxh3_64(file->bytes()), "\n");
  }
  if (config.vision != nullptr && config.vision->file != nullptr) {
    for (const auto& file : config.vision->file->files()) {
      out += cat("vision tower: ", file->bytes().size(), " bytes, xxh3 ", io::xxh3_64(file->bytes()), "\n");
    }
  }
  if (config.json) {
    const std::string text = config.json->dump();
    out += cat("config: xxh3 ", io::xxh3_64(std::as_bytes(std::span(text))), "\n");
  }
  out += about_rope(config);
  if (config.added_rows > 0) out += cat("new tokens: ", join(config.new_special_tokens, " "), "\n");
  out += cat("weights kept in: ", dtype_name(session.model.dtype));
  if (session.quantise) {
    out += cat(", quantised: ", static_cast<int>(session.quantise->method),
               session.quantise->double_quant ? " twice" : "");
  }
  out += "\n";
  if (adapter.empty()) return out;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(adapter)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const auto sum = io::xxh3_64_of_file(file);
    if (!sum) return sum.error();
    out += cat("adapter: ", file.filename().string(), ", xxh3 ", *sum, "\n");
  }
  return out;
}

std::string about_head(const models::SpeculativeHead& head) {
  std::string out = cat("head: ", head.name(), "\n");
  for (const auto& file : head.files()) {
    out += cat("head's weights: ", file->bytes().size(), " bytes, xxh3 ", io::xxh3_64(file->bytes()), "\n");
  }
  return out;
}

std::string about_numerics(const nn::Numerics& numerics, std::int64_t max_model_len) {
  return cat("computed: ", static_cast<int>(numerics.compute), ", activations ", dtype_name(numerics.activations),
             ", needs ", numerics.needs, numerics.x15 ? ", x15" : "", numerics.int8 ? ", int8" : "", ", up to ",
             max_model_len, " tokens\n");
}

}  // namespace tern::engine
