// What /metrics tells of the engine is what the engine counted, under the names that vLLM's dashboards read.
#include "server/metrics.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/model_pool.h"
#include "tests/support/exposition.h"

namespace tern::server {
namespace {

TEST(Metrics, TellWhatGuessesWereGoodFor) {
  engine::EngineStats stats;
  stats.guesses = {.drafts = 9, .checked = 31, .right = 12, .right_at = {8, 3, 1}};
  const Metrics metrics("m");
  const std::string labels = "{engine=\"0\",model_name=\"m\"";
  for (int turn = 0; turn < 2; ++turn) {
    const std::string page = metrics.page(stats, 0);
    EXPECT_NE(page.find("vllm:spec_decode_num_drafts_total" + labels + "} 9\n"), std::string::npos) << page;
    EXPECT_NE(page.find("vllm:spec_decode_num_draft_tokens_total" + labels + "} 31\n"), std::string::npos) << page;
    EXPECT_NE(page.find("vllm:spec_decode_num_accepted_tokens_total" + labels + "} 12\n"), std::string::npos) << page;
    for (const auto& [place, right] : {std::pair{"0", "8"}, {"1", "3"}, {"2", "1"}}) {
      const std::string line = "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"" + place +
                               "\"} " + right + "\n";
      EXPECT_NE(page.find(line), std::string::npos) << line << page;
    }
  }
}

engine::EngineStats some_stats() {
  engine::EngineStats stats;
  stats.running = 2;
  stats.waiting = 1;
  stats.cache_blocks = 10;
  stats.cache_blocks_used = 4;
  stats.preemptions = 3;
  stats.cache_queries = 100;
  stats.cache_hits = 40;
  stats.swap_queries = 60;
  stats.swap_hits = 5;
  stats.guesses = {.drafts = 9, .checked = 31, .right = 12, .right_at = {8, 3, 1}};
  stats.running_adapters = {"a", "b\"\\"};
  return stats;
}

// One that has counted something of everything.
void count_some(Metrics& metrics) {
  metrics.count_first_token(0.02);
  metrics.count_token(0.01);
  metrics.count_request({.finished_reason = "stop",
                         .prompt_tokens = 5,
                         .cached_tokens = 1,
                         .generated_tokens = 3,
                         .whole = 1000000,
                         .from_first_to_last_token = 0.1,
                         .queue = 0.001,
                         .from_first_step_to_first_token = 0.1});
  metrics.count_response("/v1/completions", 200);
  metrics.count_response("none", 404);
}

std::string lines(const std::vector<std::string>& all) { return join(all, "\n"); }

// Prometheus reads the whole page, and finds the types that vLLM's metrics have: what only grows is a counter.
TEST(Metrics, AreAnExpositionThatPrometheusReads) {
  Metrics metrics("a \"model\"\nof \\ ours", {{"block_size", "16"}});
  const auto read = [&](const engine::EngineStats& stats) {
    const std::string page = metrics.page(stats, 2);
    auto read = test::read_exposition(page);
    EXPECT_TRUE(read.errors.empty()) << lines(read.errors) << "\n" << page;
    return read;
  };
  const auto empty = read({});
  count_some(metrics);
  const auto some = read(some_stats());
  EXPECT_GE(some.families.size(), 30U);
  EXPECT_EQ(lines(test::counters_that_fell(empty, some)), "");
  EXPECT_EQ(lines(test::counters_that_fell(some, read(some_stats()))), "");
  EXPECT_FALSE(test::counters_that_fell(some, empty).empty());
  const auto value = [&](const std::string& name) { return some.families.at(name).samples.at(0).value; };
  EXPECT_EQ(value("vllm:num_preemptions_total"), 3);
  EXPECT_EQ(value("vllm:prefix_cache_queries_total"), 100);
  EXPECT_EQ(value("vllm:prefix_cache_hits_total"), 40);
  EXPECT_EQ(value("vllm:external_prefix_cache_queries_total"), 60);
  EXPECT_EQ(value("vllm:external_prefix_cache_hits_total"), 5);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc"), 0.4);
  const auto& lora = some.families.at("vllm:lora_requests_info").samples.at(0).labels;
  EXPECT_EQ(lora.at("running_lora_adapters"), "a,b\"\\");
  EXPECT_EQ(lora.at("model_name"), "a \"model\"\nof \\ ours");
}

// So is the page of a server of several models, each with a registry of its own.
TEST(Metrics, OfSeveralModelsAreOneExposition) {
  Metrics one("one", {{"block_size", "16"}}), two("two", {{"block_size", "16"}});
  count_some(one);
  count_some(two);
  count_some(two);
  const std::string page = joined_metrics({one.page(some_stats(), 2), two.page(some_stats(), 2)});
  const auto read = test::read_exposition(page);
  EXPECT_TRUE(read.errors.empty()) << lines(read.errors) << "\n" << page;
  EXPECT_EQ(read.families.at("vllm:cache_config_info").samples.size(), 2U);
  EXPECT_EQ(read.families.at("vllm:lora_requests_info").samples.size(), 2U);
  EXPECT_EQ(read.families.at("process_open_fds").samples.size(), 1U);
  for (const test::Sample& sample : read.families.at("http_requests_total").samples) EXPECT_EQ(sample.value, 3);
}

// What the reader above refuses: each of these was a page but for one thing.
TEST(Metrics, AreReadStrictly) {
  const std::string counter = "# HELP a_total A.\n# TYPE a_total counter\n";
  const std::string gauge = "# HELP g G.\n# TYPE g gauge\n";
  const std::string histogram = "# HELP h H.\n# TYPE h histogram\n";
  const std::string buckets = "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\n";
  const std::string sums = "h_sum 1.5e+00\nh_count 3\n";
  const auto errors = [](const std::string& page) { return test::read_exposition(page).errors; };
  for (const std::string& good :
       {std::string(), counter + "a_total 1\n", gauge + "g{a=\"\\\"\\\\\\n\",b=\"} 1\"} -Inf\n",
        histogram + buckets + sums, gauge + "g 1\n" + counter + "a_total{a=\"1\"} 0\n"}) {
    EXPECT_EQ(lines(errors(good)), "") << good;
  }
  const std::vector<std::string> all_bad = {
      counter + "a_total 1",
      counter + "a_total 1\r\n",
      counter + "a_total 1\n\n",
      counter + "a_total  1\n",
      counter + "a_total 1 \n",
      counter + "a_total one\n",
      counter + "a_total -1\n",
      counter + "a_total NaN\n",
      counter,
      "a_total 1\n",
      "# TYPE a_total counter\na_total 1\n",
      "# HELP a_total \n# TYPE a_total counter\na_total 1\n",
      "# HELP a_total A.\na_total 1\n",
      "# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n",
      "# HELP a A.\n# TYPE a counter\na 1\n",
      "# HELP g G.\n# TYPE g meter\ng 1\n",
      "# HELP g_count G.\n# TYPE g_count gauge\ng_count 1\n",
      "# HELP gG G.\n# TYPE gG gauge\ngG 1\n",
      "# more\n" + gauge + "g 1\n",
      gauge + "# TYPE g gauge\ng 1\n",
      gauge + "g 1\n" + counter + "a_total 1\ng{a=\"1\"} 2\n",
      gauge + "g 1\n" + gauge + "g{a=\"1\"} 2\n",
      gauge + "g{a=\"1\",b=\"2\"} 1\ng{b=\"2\",a=\"1\"} 1\n",
      gauge + "g{a=\"1\",a=\"2\"} 1\n",
      gauge + "g{a=1} 1\n",
      gauge + "g{a=\"1\"b=\"2\"} 1\n",
      gauge + "g{a=\"\\t\"} 1\n",
      gauge + "g{a=\"1\n",
      gauge + "g{1a=\"1\"} 1\n",
      gauge + "g{__name__=\"1\"} 1\n",
      gauge + "g{a=\"\xff\"} 1\n",
      histogram + buckets + "h_sum 1\nh_count 4\n",
      histogram + buckets + "h_count 3\n",
      histogram + "h_bucket{le=\"1\"} 2\n" + sums,
      histogram + "h_bucket{le=\"1\"} 4\nh_bucket{le=\"+Inf\"} 3\n" + sums,
      histogram + "h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\n" + sums,
      histogram + "h_bucket 3\n" + buckets + sums,
      histogram + buckets + sums + "h 3\n",
  };
  for (const std::string& bad : all_bad) {
    EXPECT_FALSE(errors(bad).empty()) << bad;
  }
}

}  // namespace
}  // namespace tern::server
