#include "golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "accel/backend.h"
#include "base/strings.h"
#include "checkpoint/convert.h"
#include "engine/model_runner.h"
#include "models/gguf_names.h"
#include "nn/head.h"
#include "ops/gather_rows.h"
#include "train/optimizer.h"

namespace tern::golden {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::vector<T> copy_as(std::span<const std::byte> bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

accel::DevicePtr cpu_device() {
  static const auto backend = accel::Backend::load(TERN_CPU_PLUGIN).value();
  return accel::Device::open(backend, 0).value();
}

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(TERN_TEST_DATA) / "golden" / name;
}

Numbers::Numbers(const std::filesystem::path& file) : file_(checkpoint::Safetensors::open(file).value()) {}

const checkpoint::SafetensorsTensor& Numbers::at(const std::string& name) const {
  const auto* tensor = file_.tensor(name);
  if (tensor == nullptr) throw std::logic_error("the fixture has no " + name);
  return *tensor;
}

std::vector<float> Numbers::floats(const std::string& name) const {
  const auto& tensor = at(name);
  if (tensor.dtype->name != "F32") throw std::logic_error(name + " is not F32");
  return copy_as<float>(tensor.bytes);
}

std::vector<std::int32_t> Numbers::ints(const std::string& name) const {
  const auto& tensor = at(name);
  if (tensor.dtype->name != "I32") throw std::logic_error(name + " is not I32");
  return copy_as<std::int32_t>(tensor.bytes);
}

std::vector<std::int64_t> Numbers::shape(const std::string& name) const { return at(name).shape; }

std::map<std::string, std::vector<float>> Numbers::with_prefix(const std::string& prefix) const {
  std::map<std::string, std::vector<float>> out;
  for (const auto& tensor : file_.tensors()) {
    if (tensor.name.starts_with(prefix)) out[tensor.name.substr(prefix.size())] = copy_as<float>(tensor.bytes);
  }
  return out;
}

models::LoadedModel load(const std::filesystem::path& path, bool fp32_masters, tern_dtype dtype) {
  models::LoadOptions options;
  options.dtype = dtype;
  if (fp32_masters) options.is_master = [](const std::string&) { return true; };
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  return models::load_model(models::read_config(*source).value(), source, cpu_device(), options).value();
}

models::LoadedModel load_any(const std::filesystem::path& path) {
  auto source = std::make_shared<checkpoint::CheckpointSource>(checkpoint::CheckpointSource::open(path).value());
  auto config = models::read_config(*source, models::Heads::any).value();
  return models::load_model(std::move(config), source, cpu_device(), {}).value();
}

Texts texts_of(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& lengths) {
  Texts texts;
  std::size_t begin = 0;
  for (const std::int32_t length : lengths) {
    texts.push_back(std::span(tokens).subspan(begin, static_cast<std::size_t>(length)));
    begin += static_cast<std::size_t>(length);
  }
  return texts;
}

std::vector<float> pooled(models::LoadedModel& model, std::span<const std::span<const std::int32_t>> texts,
                          const PooledRun& run) {
  engine::PoolerOptions options;
  for (const auto& text : texts) options.max_tokens += static_cast<std::int64_t>(text.size());
  options.max_texts = static_cast<std::int64_t>(run.together);
  options.pooling = run.pooling;
  options.output = run.output;
  options.numerics.needs = run.needs;
  session::Runtime runtime;
  engine::Pooler pooler(model, options, runtime);
  std::vector<float> out;
  for (std::size_t at = 0; at < texts.size(); at += run.together) {
    for (const auto& row : pooler.run(texts.subspan(at, std::min(run.together, texts.size() - at))))
      out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<float> download(const graph::TensorStore& store, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(store.at(name).desc)));
  store.download(name, std::as_writable_bytes(std::span(values)));
  return values;
}

data::EncodedDataset samples(const Numbers& numbers) {
  const auto ids = numbers.ints("ids");
  const auto supervised = numbers.ints("supervised");
  auto store = std::make_shared<data::MemoryStore>();
  std::size_t begin = 0;
  for (const std::int32_t length : numbers.ints("lengths")) {
    data::Sample sample;
    for (std::size_t t = begin; t < begin + static_cast<std::size_t>(length); ++t) {
      sample.ids.push_back(ids.at(t));
      sample.weights.push_back(t == begin ? 0.0F : static_cast<float>(supervised.at(t)));
    }
    begin += static_cast<std::size_t>(length);
    store->add(std::move(sample));
  }
  data::EncodedDataset dataset;
  dataset.add(store);
  return dataset;
}

std::string name_of_test(std::string model) {
  std::erase_if(model, [](char c) { return c == '-' || c == '.'; });
  return model;
}

std::vector<std::int32_t> all_rows(std::size_t count) {
  std::vector<std::int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::filesystem::path write_gguf(const std::filesystem::path& from, const std::string& outtype,
                                 const test::TempDir& scratch) {
  const auto source = checkpoint::CheckpointSource::open(from).value();
  checkpoint::ConvertOptions options;
  options.outtype = outtype;
  if (source.gguf() == nullptr) {
    models::set_gguf_form(source, models::read_config(source).value(), "tiny", options).value();
  }
  std::filesystem::path path = scratch.path() / cat(outtype, ".gguf");
  (void)checkpoint::convert_checkpoint(source, path, options).value();
  return path;
}

std::vector<float> prefill_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                  const std::vector<std::int32_t>& rows, tern_dtype compute, const Adapters& adapters,
                                  const std::vector<std::int32_t>& lengths, std::uint32_t needs) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::vector<std::int32_t> texts = lengths;
  if (texts.empty()) texts.push_back(static_cast<std::int32_t>(count));
  graph::Graph graph;
  nn::BuildOptions build;
  build.compute = compute;
  build.needs = needs;
  build.adapters = adapters;
  nn::Context context(graph, *model.store, build);
  nn::TokenInputs inputs;
  inputs.ids = graph.input("ids", make_desc(TERN_I32, {count}));
  inputs.positions = graph.input("positions", make_desc(TERN_I32, {count}));
  inputs.cu_seqlens = graph.input("cu_seqlens", make_desc(TERN_I32, {static_cast<std::int64_t>(texts.size()) + 1}));
  inputs.max_seqlen = *std::max_element(texts.begin(), texts.end());
  const ops::Value hidden = model.architecture->hidden_states(context, model.config, inputs);
  const ops::Value wanted = graph.input("rows", make_desc(TERN_I32, {static_cast<std::int64_t>(rows.size())}));
  const ops::Value chosen = ops::gather_rows(graph, hidden, wanted, build.needs);
  graph.output("logits", nn::logits(context, model.architecture->head(model.config), chosen));

  session::Runtime runtime;
  const auto program = runtime.build(graph, model.store);
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> cu_seqlens = {0};
  for (const std::int32_t length : texts) {
    for (std::int32_t at = 0; at < length; ++at) positions.push_back(at);
    cu_seqlens.push_back(cu_seqlens.back() + length);
  }
  graph::RunInputs run;
  run.inputs = {{"ids", bytes_of(tokens)},
                {"positions", bytes_of(positions)},
                {"cu_seqlens", bytes_of(cu_seqlens)},
                {"rows", bytes_of(rows)}};
  program->run(run);
  return copy_as<float>(program->output("logits"));
}

std::vector<float> paged_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                const std::vector<std::int64_t>& chunks, tern_dtype compute, const Adapters& adapters,
                                tern_dtype cache_dtype) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  engine::RunnerOptions options;
  options.max_num_batched_tokens = *std::max_element(chunks.begin(), chunks.end());
  options.numerics = {compute, TERN_F32, TERN_NEED_DETERMINISTIC};
  options.adapters = adapters;
  options.return_logits = true;
  session::Runtime runtime;
  engine::CacheOptions cache_options;
  cache_options.dtype = cache_dtype;
  cache_options.max_model_len = count;
  cache_options.max_num_seqs = 2;  // blocks to choose from
  engine::CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  engine::ModelRunner runner(model, cache, options, runtime);

  engine::Sequence sequence;
  sequence.tokens = tokens;
  sequence.prompt_length = count;
  sequence.seat = 2;
  for (std::int64_t block = cache.num_blocks(); block > cache.num_blocks() / 2; --block)
    sequence.blocks.push_back(static_cast<std::int32_t>(block));
  std::vector<float> out;
  std::size_t step = 0;
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t size = std::min(count - begin, chunks[std::min(step++, chunks.size() - 1)]);
    (void)runner.run({{&sequence, begin, size, true}});
    out.insert(out.end(), runner.logits().begin(), runner.logits().end());
    begin += size;
  }
  return out;
}

std::vector<float> decode_logits(models::LoadedModel& model, const std::vector<std::int32_t>& tokens,
                                 tern_compute whole) {
  engine::RunnerOptions options;
  options.max_num_batched_tokens = 32;
  options.numerics.x15 = whole == TERN_COMPUTE_X15;
  options.numerics.int8 = whole == TERN_COMPUTE_INT8;
  options.return_logits = true;
  session::Runtime runtime;
  engine::CacheOptions cache_options;
  cache_options.dtype = TERN_F32;
  cache_options.max_model_len = 128;
  engine::CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
  engine::ModelRunner runner(model, cache, options, runtime);
  engine::Sequence sequence;
  sequence.tokens = tokens;
  sequence.prompt_length = static_cast<std::int64_t>(tokens.size());
  sequence.seat = 1;
  for (std::int64_t block = 1; block <= cache.num_blocks(); ++block) {
    sequence.blocks.push_back(static_cast<std::int32_t>(block));
  }
  std::vector<float> out;
  for (std::int64_t at = 0; at < sequence.prompt_length; ++at) {
    (void)runner.run({{&sequence, at, 1, true}});
    out.insert(out.end(), runner.logits().begin(), runner.logits().end());
  }
  return out;
}

Gradients step_gradients(models::LoadedModel& model, const data::EncodedDataset& dataset, const StepOptions& options) {
  auto planner = data::BatchPlanner::create(dataset, options.batches).value();
  const data::StepPlan plan = planner.plan(0, 0);
  train::TrainingGraphOptions graph = options.graph;
  graph.capacity = {static_cast<std::int64_t>(dataset.tokens()), static_cast<std::int64_t>(dataset.size()),
                    static_cast<std::int64_t>(dataset.tokens()), static_cast<std::int64_t>(dataset.longest())};
  for (const auto& name : graph.trainable) {
    const std::string gradient = train::gradient_name(name);
    if (model.store->find(gradient) == nullptr)
      model.store->create(gradient, make_desc(TERN_F32, shape_of(model.store->at(name).desc)));
    model.store->fill_zero(gradient);
  }
  session::Runtime runtime;
  train::MicroBatchRunner runner(model, graph, runtime);
  Gradients out;
  out.num_nodes = runner.prepare().graph().nodes().size();
  out.live_peak = runner.prepare().memory().live_peak;
  for (const auto& micro : plan.micro_batches) {
    if (micro.samples.empty()) continue;
    const data::MicroBatch batch = data::gather(dataset, micro);
    train::MicroBatchInputs inputs;
    inputs.loss_divisor = plan.weight;
    if (options.average_micro_batches) {
      const auto weights = batch.values<float>(data::kLossWeights);
      const double own = std::accumulate(weights.begin(), weights.end(), 0.0);
      inputs.loss_divisor = own * static_cast<double>(plan.micro_batches.size());
    }
    out.loss += runner.run(batch, inputs);
  }
  for (const auto& name : graph.trainable) out.by_parameter[name] = download(*model.store, train::gradient_name(name));
  return out;
}

StepLog train_steps(models::LoadedModel& model, const train::ModelSaver& saver, const data::EncodedDataset& dataset,
                    const data::BatchOptions& batches, train::TrainerOptions options) {
  options.logging_steps = 1;
  options.learning_rate = 1e-3;
  StepLog log;
  train::TrainerHooks hooks;
  hooks.on_log = [&](const train::LogRow& row) {
    log.losses.push_back(row.loss.value());
    log.grad_norms.push_back(row.grad_norm);
  };
  session::Runtime runtime;
  auto steps = data::SetSteps::create(dataset, batches).value();
  train::Trainer trainer(model, saver, steps, {}, std::move(options), runtime, std::move(hooks));
  log.result = trainer.run();
  return log;
}

double max_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return kInfinity;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!std::isfinite(difference)) return kInfinity;
    worst = std::max(worst, difference);
  }
  return worst;
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return kInfinity;
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  if (!std::isfinite(difference) || !std::isfinite(norm)) return kInfinity;
  if (norm == 0) return difference == 0 ? 0 : kInfinity;
  return std::sqrt(difference / norm);
}

double worst_error(const Gradients& a, const Gradients& b) {
  if (a.by_parameter.size() != b.by_parameter.size()) return kInfinity;
  double worst = 0;
  for (const auto& [name, values] : a.by_parameter) {
    const auto other = b.by_parameter.find(name);
    if (other == b.by_parameter.end()) return kInfinity;
    worst = std::max(worst, relative_error(values, other->second));
  }
  return worst;
}

}  // namespace tern::golden
