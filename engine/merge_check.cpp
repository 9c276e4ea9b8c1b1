#include "engine/merge_check.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/dtype.h"
#include "base/strings.h"
#include "engine/llm.h"
#include "models/registry.h"

namespace tern::engine {
namespace {

constexpr std::size_t kTokens = 24;

// What a rounding of each weight by so much (of the weight) does to logits: errors of the inputs of a sum are
// independent, so that a product keeps their relative size, and those of the layers add up as squares. Ten such sizes
// are two hundred products of the largest models that are served, less what the norms' shared scale takes away.
constexpr double kRoundingsInLogits = 10;

// The relative size of the rounding of a weight of that type.
double rounding(const checkpoint::Storage& storage) {
  if (storage.dtype == TERN_I8) return 0x1p-7;
  if (storage.dtype == TERN_F8_E4M3 || storage.dtype == TERN_U8) return 0x1p-4;
  if (storage.dtype == TERN_F32) return 0x1p-20;  // sums in another order, of base and adapter against one product
  if (storage.dtype == TERN_F16) return 0x1p-11;
  if (storage.dtype == TERN_BF16) return 0x1p-8;
  if (!storage.block) return 0x1p-4;
  const auto& type = checkpoint::ggml_type_info(*storage.block);
  const double bits = 8.0 * type.block_bytes / type.block_elements;
  return std::exp2(-std::floor(bits) + 1);
}

// How most of the model's linear layers are stored, by bytes.
checkpoint::Storage storage_of_layers(const checkpoint::CheckpointSource& source, const models::ModelConfig& config) {
  std::map<std::string, std::pair<std::uint64_t, checkpoint::Storage>> found;
  for (const auto& spec : models::find_architecture(config.architecture)->parameters(config)) {
    if (!spec.is_linear) continue;
    for (const std::string& name : models::source_in(spec, models::form_of(source)).tensors) {
      const auto* tensor = source.find(name);
      if (tensor == nullptr) continue;
      auto& [bytes, storage] = found[tensor->storage.name];
      bytes += tensor->bytes.size();
      storage = tensor->storage;
    }
  }
  const auto most = std::max_element(found.begin(), found.end(),
                                     [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  return most == found.end() ? checkpoint::Storage{} : most->second.second;
}

// Products are computed in fp32. A GGUF names no dtype: its plain weights are held as they're stored.
std::unique_ptr<session::Session> open(const session::SessionOptions& options) {
  auto session = session::open_session(options).value();
  session->numerics.compute = TERN_COMPUTE_F32;
  if (session->source->gguf() != nullptr) {
    const auto stored = storage_of_layers(*session->source, session->model.config).dtype;
    session->model.dtype = stored == TERN_F16 || stored == TERN_BF16 ? *stored : TERN_F32;
  }
  models::LoadOptions load;
  load.dtype = session->model.dtype;
  load.max_positions = static_cast<std::int64_t>(kTokens);
  session->model = models::load_model(session->model.config, session->source, session->runtime->device, load).value();
  return session;
}

// Means over the tokens: the distance from the reference, in its spread.
double distance(LLM& model, LLM& reference, const std::vector<TokenIds>& text) {
  double squares = 0, spread = 0;
  ScoreCallbacks callbacks;
  callbacks.on_score = [&](std::size_t, const TextScore& score) {
    if (score.error) throw Failure(*score.error);
    for (const TokenComparison& token : score.comparison) {
      squares += token.distance * token.distance;
      spread += token.spread * token.spread;
    }
  };
  ScoreOptions options;
  options.reference = &reference;
  (void)model.score(text, callbacks, options);
  return spread > 0 ? std::sqrt(squares / spread) : 0;
}

}  // namespace

double merge_limit(const checkpoint::CheckpointSource& merged, const models::ModelConfig& config) {
  return kRoundingsInLogits * rounding(storage_of_layers(merged, config));
}

MergeDistance check_merge(const session::SessionOptions& base, const std::filesystem::path& adapter,
                          const std::filesystem::path& merged) {
  const auto base_session = open(base);
  session::SessionOptions merged_options;
  merged_options.runtime = base.runtime;
  merged_options.model = merged.string();
  const auto merged_session = open(merged_options);
  std::vector<TokenIds> text = {base_session->text->tokenizer.encode(
      "The quick brown fox jumps over the lazy dog; 3.14159 * 2 = 6.28318, and the answer is a number.", true)};
  text[0].resize(std::min(text[0].size(), kTokens));
  LLMOptions options;
  options.max_model_len = static_cast<std::int64_t>(kTokens);
  const auto alone = LLM::open(*base_session, options).value();
  options.adapter = adapter;
  const auto adapted = LLM::open(*base_session, options).value();
  options.adapter.clear();
  const auto whole = LLM::open(*merged_session, options).value();
  MergeDistance out;
  out.adapter = distance(*alone, *adapted, text);
  out.merged = distance(*whole, *adapted, text);
  out.limit = merge_limit(*merged_session->source, merged_session->model.config);
  if (out.merged > out.limit) {
    throw Failure(failed_error(
        cat("the merged model is not what base and adapter compute: their logits are ", fixed(100 * out.merged, 3),
            "% of their spread apart, and rounding its weights explains ", fixed(100 * out.limit, 3),
            "%; nothing was written"),
        "this is a defect of tern or a damaged disk: report it with the adapter's adapter_config.json, or give "
        "--verify_merge false to have the model nevertheless"));
  }
  return out;
}

}  // namespace tern::engine
