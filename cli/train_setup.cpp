#include "cli/train_setup.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "cli/data_setup.h"
#include "cli/report_setup.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "io/json.h"
#include "train/lora_init.h"

namespace tern::cli {
namespace {

train::When when(const std::string& word) {
  if (word == "steps") return train::When::steps;
  return word == "epoch" ? train::When::epoch : train::When::no;
}

bool begins_by_gradients(const Arguments& arguments) {
  return train::parse_init_weights(arguments.string("init_weights")).value().kind == train::InitWeights::gradient;
}

train::LoraGaOptions lora_ga_options(const Arguments& arguments) {
  using models::GradientDirection;
  using models::GradientScale;
  train::LoraGaOptions o;
  o.batch_size = arguments.integer("lora_ga_batch_size");
  o.iters = arguments.integer("lora_ga_iters");
  o.max_length = arguments.integer("lora_ga_max_length");
  const std::string direction = arguments.string("lora_ga_direction");
  if (direction == "ArBr") o.start.direction = GradientDirection::ArBr;
  if (direction == "A2rBr") o.start.direction = GradientDirection::A2rBr;
  if (direction == "random") o.start.direction = GradientDirection::random;
  const std::string scale = arguments.string("lora_ga_scale");
  if (scale == "gd") o.start.scale = GradientScale::gd;
  if (scale == "unit") o.start.scale = GradientScale::unit;
  if (scale == "weightS") o.start.scale = GradientScale::weight;
  o.start.stable_gamma = static_cast<double>(arguments.integer("lora_ga_stable_gamma"));
  return o;
}

train::TunerOptions tuner_options(const Arguments& arguments) {
  train::TunerOptions o;
  o.type = arguments.string("tuner_type") == "full" ? train::TunerType::full : train::TunerType::lora;
  o.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  // A checkpoint brings its own settings; only what the user says is compared with them.
  const bool resumes = arguments.has("resume_from_checkpoint");
  const auto says = [&](const char* flag) { return arguments.has(flag) && (!resumes || arguments.was_set(flag)); };
  // LoRA-GA has defaults of its own.
  const bool by_gradients = begins_by_gradients(arguments);
  const auto sets = [&](const char* flag) { return says(flag) && (!by_gradients || arguments.was_set(flag)); };
  if (arguments.string("tuner_type") == "vera") {
    o.kind = models::AdapterKind::vera;
    if (says("vera_rank")) o.lora_rank = arguments.integer("vera_rank");
    if (says("vera_dropout")) o.lora_dropout = arguments.real("vera_dropout");
    if (says("vera_projection_prng_key")) o.vera_projection_prng_key = arguments.integer("vera_projection_prng_key");
    if (says("vera_d_initial")) o.vera_d_initial = arguments.real("vera_d_initial");
  } else {
    if (says("lora_rank")) o.lora_rank = arguments.integer("lora_rank");
    if (sets("lora_alpha")) o.lora_alpha = arguments.real("lora_alpha");
    if (sets("lora_dropout")) o.lora_dropout = arguments.real("lora_dropout");
  }
  if (says("use_rslora")) o.use_rslora = arguments.boolean("use_rslora");
  if (says("use_dora")) o.use_dora = arguments.boolean("use_dora");
  if (says("lora_bias")) o.lora_bias = models::trained_biases(arguments.string("lora_bias"));
  if (says("init_weights")) {
    o.init_weights = arguments.string("init_weights");
    (void)train::parse_init_weights(*o.init_weights).value();
  }
  o.lora_ga = lora_ga_options(arguments);
  if (says("target_modules")) o.target_modules = arguments.list("target_modules");
  if (says("target_parameters")) o.target_parameters = arguments.list("target_parameters");
  if (says("target_regex")) o.target_regex = arguments.string("target_regex");
  if (says("modules_to_save")) o.modules_to_save = arguments.list("modules_to_save");
  if (!arguments.list("adapters").empty()) o.adapter = arguments.list("adapters")[0];
  o.selection = {arguments.list("freeze_parameters"), arguments.maybe_string("freeze_parameters_regex").value_or(""),
                 arguments.real("freeze_parameters_ratio"), arguments.list("trainable_parameters"),
                 arguments.maybe_string("trainable_parameters_regex").value_or("")};
  o.max_shard_size = static_cast<std::uint64_t>(arguments.integer("max_shard_size"));
  return o;
}

train::TaskType task_type(const std::string& word) {
  if (word == "seq_cls") return train::TaskType::seq_cls;
  if (word == "embedding") return train::TaskType::embedding;
  if (word == "reranker") return train::TaskType::reranker;
  return word == "generative_reranker" ? train::TaskType::generative_reranker : train::TaskType::causal_lm;
}

// --mrl_dims: {"64": 1.0}.
std::vector<std::pair<std::int64_t, double>> matryoshka_dimensions(const std::string& text) {
  constexpr const char* kMend = R"(write it like {"64": 1.0, "256": 1.0})";
  const io::Json json = io::parse_json(text, "--mrl_dims").value();
  if (!json.is_object()) throw Failure(usage_error(cat("--mrl_dims ", text, " is no JSON object"), kMend));
  std::vector<std::pair<std::int64_t, double>> out;
  for (const auto& [key, value] : json.items()) {
    std::int64_t dimension = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), dimension);
    const bool is_number = error == std::errc() && end == key.data() + key.size() && dimension > 0;
    if (!is_number || !value.is_number() || value.get<double>() < 0) {
      throw Failure(usage_error(cat("--mrl_dims has \"", key, "\": ", value.dump(),
                                    ", and it maps how many numbers to the weight of their loss"),
                                kMend));
    }
    out.emplace_back(dimension, value.get<double>());
  }
  return out;
}

train::Task task(const Arguments& arguments) {
  train::Task task;
  task.type = task_type(arguments.string("task_type"));
  const auto loss = arguments.maybe_string("loss_type");
  if (task.type == train::TaskType::embedding) {
    train::EmbeddingLossOptions& o = task.embedding;
    o.type = train::parse_embedding_loss(loss.value_or("infonce")).value();
    o.temperature = arguments.real("infonce_temperature");
    o.use_batch = arguments.boolean("infonce_use_batch");
    o.hard_negatives = arguments.maybe_integer("infonce_hard_negatives");
    o.mask_fake_negatives = arguments.boolean("infonce_mask_fake_negative");
    o.fake_negative_margin = arguments.real("infonce_fake_neg_margin");
    o.include_anchors = arguments.boolean("infonce_include_qq");
    o.include_positives = arguments.boolean("infonce_include_dd");
    if (arguments.has("mrl_dims")) o.dimensions = matryoshka_dimensions(arguments.string("mrl_dims"));
  } else if (task.type == train::TaskType::reranker || task.type == train::TaskType::generative_reranker) {
    task.reranker.type = train::parse_reranker_loss(loss.value_or("pointwise_reranker")).value();
    task.reranker.temperature = arguments.real("listwise_reranker_temperature");
    task.reranker.min_group_size = arguments.integer("listwise_reranker_min_group_size");
    task.documents = {arguments.integer("max_positive_samples"), arguments.integer("max_negative_samples")};
  }
  return task;
}

data::BatchOptions batch_options(const Arguments& arguments) {
  data::BatchOptions o;
  const auto batch = static_cast<std::uint32_t>(arguments.integer("per_device_train_batch_size"));
  o.per_device_batch_size = batch;
  o.accumulation = static_cast<std::uint32_t>(arguments.maybe_integer("gradient_accumulation_steps")
                                                  .value_or(std::max<std::int64_t>(1, (16 + batch - 1) / batch)));
  o.shuffle = arguments.boolean("dataset_shuffle");
  o.group_by_length = arguments.boolean("group_by_length");
  o.packing = arguments.boolean("packing");
  o.packing_length = static_cast<std::uint32_t>(arguments.maybe_integer("packing_length").value_or(0));
  o.seed = static_cast<std::uint64_t>(arguments.integer("data_seed"));
  return o;
}

train::GaloreOptions galore_options(const Arguments& arguments) {
  train::GaloreOptions o;
  o.rank = arguments.integer("galore_rank");
  o.update_proj_gap = arguments.integer("galore_update_proj_gap");
  o.scale = arguments.real("galore_scale");
  o.type = train::galore_type(arguments.string("galore_proj_type")).value_or(o.type);
  o.target_modules = arguments.list("galore_target_modules");
  o.with_embedding = arguments.boolean("galore_with_embedding");
  if (arguments.boolean("galore_quantization")) {
    train::QGaloreOptions& q = o.quantised.emplace();
    q.projections = arguments.boolean("galore_proj_quant");
    q.bits = std::stoll(arguments.string("galore_proj_bits"));
    q.group_size = arguments.integer("galore_proj_group_size");
    q.cos_threshold = arguments.real("galore_cos_threshold");
    q.gamma = arguments.integer("galore_gamma_proj");
    q.queue_size = arguments.integer("galore_queue_size");
  }
  o.per_parameter = arguments.boolean("galore_optim_per_parameter");
  if (o.per_parameter) o.update_proj_gap *= 2;
  return o;
}

// metric_for_best_model and greater_is_better, by transformers' names of metrics.
train::BestMetric best_metric(const Arguments& arguments) {
  train::BestMetric o;
  const std::string metric = arguments.string("metric_for_best_model");
  if (metric.ends_with("token_acc")) o.metric = train::Metric::token_accuracy;
  if (metric.ends_with("seq_acc")) o.metric = train::Metric::sample_accuracy;
  o.greater_is_better = arguments.maybe_boolean("greater_is_better").value_or(o.metric != train::Metric::loss);
  return o;
}

train::TrainerOptions trainer_options(const Arguments& arguments, bool full) {
  train::TrainerOptions o;
  o.num_train_epochs = arguments.real("num_train_epochs");
  o.max_steps = arguments.integer("max_steps");
  o.logging_strategy = when(arguments.string("logging_strategy"));
  o.logging_steps = arguments.integer("logging_steps");
  o.logging_first_step = arguments.boolean("logging_first_step");
  o.report = report_options(arguments);
  o.save_strategy = when(arguments.string("save_strategy"));
  o.save_steps = arguments.integer("save_steps");
  o.save_total_limit = std::max<std::int64_t>(0, arguments.maybe_integer("save_total_limit").value_or(0));
  o.save_only_model = arguments.boolean("save_only_model");
  o.eval_strategy = when(arguments.maybe_string("eval_strategy").value_or(arguments.string("save_strategy")));
  o.eval_steps = arguments.maybe_integer("eval_steps").value_or(o.save_steps);
  o.eval_delay = arguments.real("eval_delay");
  o.best = best_metric(arguments);
  o.early_stop_interval = arguments.maybe_integer("early_stop_interval").value_or(0);
  o.eval_on_start = arguments.boolean("eval_on_start");
  o.create_checkpoint_symlink = arguments.boolean("create_checkpoint_symlink");
  o.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  o.optimizer.adamw = {arguments.real("adam_beta1"), arguments.real("adam_beta2"), arguments.real("adam_epsilon"),
                       arguments.real("weight_decay"), arguments.real("max_grad_norm")};
  const std::string strategy = arguments.maybe_string("optimizer").value_or("default");
  o.optimizer.kind =
      train::optimizer_kind(strategy == "muon" ? strategy : arguments.string("optim")).value_or(o.optimizer.kind);
  if (arguments.boolean("use_galore") || strategy == "galore") o.optimizer.galore = galore_options(arguments);
  train::take_optimizer_arguments(arguments.maybe_string("optim_args").value_or(""), o.optimizer).value();
  if (const auto layers = arguments.integer("lisa_activated_layers"); full && layers > 0) {
    o.lisa = train::LisaOptions{layers, arguments.integer("lisa_step_interval")};
  }
  o.schedule = train::schedule_kind(arguments.string("lr_scheduler_type")).value_or(o.schedule);
  o.learning_rate = arguments.maybe_real("learning_rate").value_or(full ? 1e-5 : 1e-4);
  const std::string schedule = arguments.maybe_string("lr_scheduler_kwargs").value_or("");
  o.schedule_arguments = train::schedule_arguments(o.schedule, schedule, o.learning_rate).value();
  o.warmup_ratio = arguments.real("warmup_ratio");
  o.warmup_steps = arguments.maybe_integer("warmup_steps").value_or(0);
  o.eval_batches.per_device_batch_size = static_cast<std::uint32_t>(arguments.integer("per_device_eval_batch_size"));
  o.eval_batches.shuffle = false;
  if (const auto ratio = arguments.maybe_real("lorap_lr_ratio")) {
    constexpr double kEmbeddingRate = 1e-6;  // ms-swift's
    o.optimizer.lora_plus = {*ratio, o.learning_rate > 0 ? kEmbeddingRate / o.learning_rate : 1};
  }
  o.graph.neftune_noise_alpha = arguments.real("neftune_noise_alpha");
  o.graph.gradient_checkpointing = arguments.boolean("gradient_checkpointing");
  return o;
}

// swift/self-cognition has {{NAME}} in its answers, which nobody wants to teach a model.
void require_names(const Arguments& arguments) {
  if (arguments.has("model_name") && arguments.has("model_author")) return;
  for (const auto& word : arguments.list("dataset")) {
    if (!std::string_view(word).substr(0, word.find_first_of("#")).ends_with("/self-cognition")) continue;
    throw Failure(usage_error(cat("the rows of ", word, " ask for the model's name and who made it"),
                              "give both, as in --model_name Tern --model_author Me"));
  }
}

}  // namespace

train::RunOptions run_options(const Arguments& arguments) {
  require_one_adapter(arguments);
  require_names(arguments);
  train::RunOptions o;
  o.session = session_options(arguments, arguments.string("model"));
  o.data = load_options(arguments);
  o.encoder = encoder_options(arguments);
  o.batches = batch_options(arguments);
  o.streaming = arguments.boolean("streaming");
  o.shuffle_buffer_size = static_cast<std::uint32_t>(arguments.integer("shuffle_buffer_size"));
  o.task = task(arguments);
  o.tuner = tuner_options(arguments);
  o.trainer = trainer_options(arguments, o.tuner.type == train::TunerType::full);
  o.output_dir = arguments.maybe_string("output_dir").value_or("");
  o.add_version = arguments.boolean("add_version");
  o.resume_from = arguments.maybe_string("resume_from_checkpoint").value_or("");
  o.resume_only_model = arguments.boolean("resume_only_model");
  o.load_best_model_at_end = arguments.boolean("load_best_model_at_end");
  o.load_progress = weight_progress(arguments);
  o.args_json = [told = arguments, learning_rate = o.trainer.learning_rate,
                 accumulation = o.batches.accumulation, new_tokens = o.session.new_special_tokens](const std::filesystem::path& output_dir) mutable {
    told.derive("output_dir", output_dir.string());
    told.derive("learning_rate", learning_rate);
    if (begins_by_gradients(told)) {
      if (!told.was_set("lora_alpha")) told.derive("lora_alpha", train::LoraGaOptions::kAlpha);
      if (!told.was_set("lora_dropout")) told.derive("lora_dropout", 0.0);
    }
    told.derive("gradient_accumulation_steps", static_cast<std::int64_t>(accumulation));
    if (!new_tokens.empty()) told.derive("new_special_tokens", new_tokens);  // a file of them may go
    return told.to_json();
  };
  return o;
}

}  // namespace tern::cli
