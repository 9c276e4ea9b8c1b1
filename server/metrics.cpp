#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/strings.h"

namespace tern::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

// vLLM's own bounds, so that its dashboards read ours.
const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                             1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Buckets kBetweenTokens = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const Buckets kWhole = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                        30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

std::string joined(const std::set<std::string>& names) { return join({names.begin(), names.end()}, ","); }

std::vector<prometheus::ClientMetric::Label> label_list(const prometheus::Labels& labels) {
  std::vector<prometheus::ClientMetric::Label> out;
  for (const auto& [name, value] : labels) out.push_back({name, value});
  return out;
}

// A counter that the engine keeps, as it stands now.
prometheus::MetricFamily counter_family(const char* name, const char* help, const prometheus::Labels& labels,
                                        std::int64_t value) {
  prometheus::ClientMetric now;
  now.label = label_list(labels);
  now.counter.value = static_cast<double>(value);
  return {.name = name, .help = help, .type = prometheus::MetricType::Counter, .metric = {std::move(now)}};
}

// What the engine counts. All but the last family have one series.
std::vector<prometheus::MetricFamily> engine_counters(const engine::EngineStats& stats,
                                                      const prometheus::Labels& labels) {
  std::vector<prometheus::MetricFamily> out;
  const auto add = [&](const char* name, const char* help, std::int64_t value) {
    out.push_back(counter_family(name, help, labels, value));
  };
  add("vllm:num_preemptions_total", "Sequences that gave their blocks up.", stats.preemptions);
  add("vllm:prefix_cache_queries_total", "Prompt tokens looked for in the cache.", stats.cache_queries);
  add("vllm:prefix_cache_hits_total", "Prompt tokens found in the cache.", stats.cache_hits);
  add("vllm:external_prefix_cache_queries_total", "Prompt tokens looked for in the cache's second tier (--swap_space).",
      stats.swap_queries);
  add("vllm:external_prefix_cache_hits_total", "Prompt tokens found in the cache's second tier.", stats.swap_hits);
  const engine::Guesses& guesses = stats.guesses;
  add("vllm:spec_decode_num_drafts_total", "Runs of guessed tokens that were checked, of one request each.",
      guesses.drafts);
  add("vllm:spec_decode_num_draft_tokens_total", "Guessed tokens that were checked.", guesses.checked);
  add("vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that were right.", guesses.right);
  prometheus::MetricFamily by_place;
  for (std::size_t i = 0; i < guesses.right_at.size(); ++i) {
    auto with_place = labels;
    with_place["position"] = std::to_string(i);
    auto one =
        counter_family("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                       "Guessed tokens that were right, by their place in the run.", with_place, guesses.right_at[i]);
    if (i == 0) {
      by_place = std::move(one);
    } else {
      by_place.metric.push_back(std::move(one.metric.front()));
    }
  }
  if (!by_place.metric.empty()) out.push_back(std::move(by_place));
  return out;
}

// vLLM's: who routes requests reads the labels; the value is when they were true.
prometheus::MetricFamily lora_info(const engine::EngineStats& stats, prometheus::Labels labels,
                                   std::int64_t max_loras) {
  labels["max_lora"] = std::to_string(max_loras);
  labels["running_lora_adapters"] = joined(stats.running_adapters);
  labels["waiting_lora_adapters"] = joined(stats.waiting_adapters);
  prometheus::ClientMetric now;
  now.label = label_list(labels);
  now.gauge.value = static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                            std::chrono::system_clock::now().time_since_epoch())
                                            .count()) /
                    1000;
  prometheus::MetricFamily family;
  family.name = "vllm:lora_requests_info";
  family.help = "Adapters of the requests that run and of those that wait.";
  family.type = prometheus::MetricType::Gauge;
  family.metric.push_back(std::move(now));
  return family;
}

struct ProcessFigures {
  double resident_bytes = 0, open_files = 0, start_time = 0;
};

// As Prometheus' own clients tell them, from /proc.
ProcessFigures process_figures() {
  ProcessFigures out;
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  statm >> pages >> pages;  // the second: resident
  out.resident_bytes = pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error)) {
    ++out.open_files;
  }
  // Field 22 of stat: ticks from the machine's start to the process's. Names may have spaces, and end with ")".
  std::ifstream file("/proc/self/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  double uptime = 0;
  std::ifstream("/proc/uptime") >> uptime;
  const double age = uptime - std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  out.start_time = std::chrono::duration<double>(now).count() - age;
  return out;
}

}  // namespace

struct Metrics::Series {
  explicit Series(const std::string& model) : labels{{"model_name", model}, {"engine", "0"}} {}

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& bounds) {
    return BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, bounds);
  }

  prometheus::Gauge& process(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }

  prometheus::Registry registry;
  prometheus::Labels labels;
  const double start_time = process_figures().start_time;
  prometheus::Gauge& running = gauge("vllm:num_requests_running", "Requests in the batch.");
  prometheus::Gauge& waiting = gauge("vllm:num_requests_waiting", "Requests that wait to be computed.");
  prometheus::Gauge& cache =
      gauge("vllm:kv_cache_usage_perc", "Share of the key-value cache's blocks in use; 1 is all.");
  prometheus::Gauge& gpu_cache = gauge("vllm:gpu_cache_usage_perc", "The same, under vLLM's name of before.");
  prometheus::Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Tokens of prompts.");
  prometheus::Counter& generated_tokens = counter("vllm:generation_tokens_total", "Tokens of answers.");
  prometheus::Histogram& first_token =
      histogram("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", kFirstToken);
  prometheus::Histogram& between =
      histogram("vllm:inter_token_latency_seconds", "From one token to the next.", kBetweenTokens);
  prometheus::Histogram& per_token = histogram("vllm:request_time_per_output_token_seconds",
                                               "Mean time of a request's tokens behind its first.", kBetweenTokens);
  prometheus::Histogram& whole =
      histogram("vllm:e2e_request_latency_seconds", "From a request's arrival to its end.", kWhole);
  prometheus::Histogram& queue =
      histogram("vllm:request_queue_time_seconds", "From a request's arrival to its first step.", kWhole);
  prometheus::Histogram& prefill =
      histogram("vllm:request_prefill_time_seconds", "From a request's first step to its first token.", kWhole);
  prometheus::Histogram& decode =
      histogram("vllm:request_decode_time_seconds", "From a request's first token to its last.", kWhole);
  prometheus::Histogram& inference =
      histogram("vllm:request_inference_time_seconds", "From a request's first step to its last token.", kWhole);
  prometheus::Gauge& memory = process("process_resident_memory_bytes", "Memory that the process holds, in bytes.");
  prometheus::Gauge& descriptors = process("process_open_fds", "Files and connections that the process holds open.");
  prometheus::Gauge& started = process("process_start_time_seconds", "When the process began, in seconds since 1970.");
  prometheus::Histogram& prompt_lengths = histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", kTokens);
  prometheus::Histogram& answer_lengths = histogram("vllm:request_generation_tokens", "Tokens of an answer.", kTokens);
  prometheus::Family<prometheus::Counter>& finished =
      BuildCounter().Name("vllm:request_success_total").Help("Requests by how they ended.").Register(registry);
  prometheus::Family<prometheus::Counter>& responses =
      BuildCounter().Name("http_requests_total").Help("Responses by route and status.").Register(registry);
};

Metrics::Metrics(const std::string& model_name, std::map<std::string, std::string> cache)
    : series_(std::make_unique<Series>(model_name)) {
  cache.insert(series_->labels.begin(), series_->labels.end());
  prometheus::Gauge& config = BuildGauge()
                                  .Name("vllm:cache_config_info")
                                  .Help("How the key-value cache is made.")
                                  .Register(series_->registry)
                                  .Add(cache);
  config.Set(1);
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    auto labels = series_->labels;
    labels["finished_reason"] = reason;
    (void)series_->finished.Add(labels);
  }
}
Metrics::~Metrics() = default;

void Metrics::count_first_token(double seconds) { series_->first_token.Observe(seconds); }
void Metrics::count_token(double seconds) { series_->between.Observe(seconds); }

void Metrics::count_request(const RequestTimes& times) {
  series_->prompt_tokens.Increment(static_cast<double>(times.prompt_tokens));
  series_->generated_tokens.Increment(static_cast<double>(times.generated_tokens));
  series_->whole.Observe(times.whole);
  series_->prompt_lengths.Observe(static_cast<double>(times.prompt_tokens));
  series_->answer_lengths.Observe(static_cast<double>(times.generated_tokens));
  if (times.generated_tokens > 1) {
    series_->per_token.Observe(times.from_first_to_last_token / static_cast<double>(times.generated_tokens - 1));
  }
  if (times.queue) series_->queue.Observe(*times.queue);
  if (times.generated_tokens > 0) {
    series_->prefill.Observe(times.from_first_step_to_first_token);
    series_->decode.Observe(times.from_first_to_last_token);
    series_->inference.Observe(times.from_first_step_to_first_token + times.from_first_to_last_token);
  }
  auto labels = series_->labels;
  labels["finished_reason"] = std::string(times.finished_reason);
  series_->finished.Add(labels).Increment();
}

void Metrics::count_response(std::string_view route, int status) {
  series_->responses.Add({{"handler", std::string(route)}, {"status", std::to_string(status)}}).Increment();
}

std::string Metrics::page(const engine::EngineStats& stats, std::int64_t max_loras) const {
  series_->running.Set(static_cast<double>(stats.running));
  series_->waiting.Set(static_cast<double>(stats.waiting));
  const auto blocks = static_cast<double>(stats.cache_blocks);
  series_->cache.Set(blocks > 0 ? static_cast<double>(stats.cache_blocks_used) / blocks : 0);
  series_->gpu_cache.Set(series_->cache.Value());
  const ProcessFigures process = process_figures();
  series_->memory.Set(process.resident_bytes);
  series_->descriptors.Set(process.open_files);
  series_->started.Set(series_->start_time);
  auto families = series_->registry.Collect();
  for (auto& family : engine_counters(stats, series_->labels)) families.push_back(std::move(family));
  if (max_loras > 0) families.push_back(lora_info(stats, series_->labels, max_loras));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tern::server
