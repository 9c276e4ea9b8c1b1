// If these fail, a step of serving allocates memory on the host, which a server pays for at every token of every user.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tiny.h"

namespace {

std::atomic<bool> armed{false};
std::atomic<std::int64_t> allocations{0};

void* take(std::size_t size, std::size_t alignment = 0) noexcept {
  if (armed.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t bytes = std::max<std::size_t>(size, 1);
  return alignment == 0 ? std::malloc(bytes)
                        : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* take_or_throw(std::size_t size, std::size_t alignment = 0) {
  void* memory = take(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// A function of its own: the compiler takes free() after an operator new that it does not see through for a mistake.
[[gnu::noinline]] void give(void* memory) noexcept { std::free(memory); }

}  // namespace

// In place of the standard's, in the plugins too.
void* operator new(std::size_t size) { return take_or_throw(size); }
void* operator new[](std::size_t size) { return take_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new(std::size_t size, std::align_val_t to) { return take_or_throw(size, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t size, std::align_val_t to) {
  return take_or_throw(size, static_cast<std::size_t>(to));
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete[](void* memory) noexcept { give(memory); }
void operator delete(void* memory, std::size_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { give(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { give(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { give(memory); }

namespace tern::engine {
namespace {

template <typename Body>
std::int64_t allocations_of(Body&& body) {
  allocations = 0;
  armed = true;
  body();
  armed = false;
  return allocations;
}

// How a request draws: nothing that it asks for may allocate.
struct Drawing {
  const char* name;
  SamplingParams params;
};
std::vector<Drawing> drawings() {
  std::vector<Drawing> out = {{"greedy", greedy(200)}, {"drawn", greedy(200)},     {"ranked", greedy(200)},
                              {"likely", greedy(200)}, {"penalised", greedy(200)}, {"biased", greedy(200)},
                              {"masked", greedy(200)}, {"told", greedy(200)}};
  for (std::size_t i = 1; i < out.size(); ++i) out[i].params.temperature = 0.9F;
  out[2].params.top_k = 20;
  out[2].params.top_p = 0.9F;
  out[3].params.min_p = 0.05F;
  out[4].params.repetition_penalty = 1.1F;
  out[4].params.frequency_penalty = 0.2F;
  out[5].params.logit_bias = {{5, 2.0F}, {9, -100.0F}};
  out[6].params.min_tokens = 200;
  out[7].params.top_logprobs = 4;
  return out;
}

// A thread of the pool keeps memory from its first part in a kernel on, which may come late: what every round of steps
// allocates is what a step allocates.
constexpr int kRounds = 5;
constexpr int kSteps = 20;  // more than a block of tokens

TEST(Allocations, AreSeenInThePluginToo) {
  auto model = tiny_model();
  EXPECT_GT(allocations_of([&] { (void)model.store->device()->make_event(); }), 0);
}

// Sequences that decode, through several blocks, from a warm start on.
TEST(Allocations, NoneInAStepOfTheRunner) {
  auto model = tiny_model();
  for (const Drawing& drawing : drawings()) {
    for (const std::int64_t count : {1, 8}) {
      session::Runtime runtime;
      CacheOptions cache_options;
      cache_options.max_model_len = 256;
      cache_options.max_num_seqs = count;
      CacheEngine cache(model.store, model.architecture->cache_specs(model.config), cache_options);
      RunnerOptions options;
      options.max_num_seqs = count;
      options.max_num_batched_tokens = 32;
      options.top_logprobs = 4;
      ModelRunner runner(model, cache, options, runtime);
      std::vector<Sequence> sequences(static_cast<std::size_t>(count));
      Batch batch;
      for (Sequence& sequence : sequences) {
        sequence.tokens = prompt_of(static_cast<std::int32_t>(batch.size()), 3);
        sequence.tokens.reserve(256);
        sequence.prompt_length = 3;
        sequence.seat = static_cast<std::int32_t>(batch.size()) + 1;
        sequence.params = drawing.params;
        ASSERT_TRUE(cache.pool().grow(sequence.blocks, 256));
        batch.push_back({&sequence, 0, 3, true});
      }
      const auto step = [&] {
        const auto& drawn = runner.run(batch);
        for (std::size_t i = 0; i < batch.size(); ++i) {
          sequences[i].tokens.push_back(drawn[i].id);
          batch[i].begin = sequences[i].length() - 1;
          batch[i].count = 1;
        }
      };
      for (int i = 0; i < 20; ++i) step();
      std::int64_t fewest = INT64_MAX;
      for (int round = 0; round < kRounds; ++round) {
        fewest = std::min(fewest, allocations_of([&] {
                            for (int i = 0; i < kSteps; ++i) step();
                          }));
      }
      EXPECT_EQ(fewest, 0) << drawing.name << ", " << count << " sequences";
    }
  }
}

// The whole engine: what the text decoder allocates for the same ids is known, and nothing comes on top of it.
TEST(Allocations, OnlyTheTextDecodersInAStepOfTheEngine) {
  auto model = tiny_model();
  for (const Drawing& drawing : drawings()) {
    for (const std::int64_t count : {1, 8}) {
      session::Runtime runtime;
      EngineOptions options = small_engine();
      options.max_num_seqs = count;
      options.max_model_len = 256;
      options.top_logprobs = 4;
      options.enable_prefix_caching = count > 1;
      LLMEngine engine(model, any_tokenizer(), options, runtime);
      std::map<SequenceId, tokenizer::IncrementalDecoder> decoders;
      for (std::int64_t i = 0; i < count; ++i) {
        SamplingParams params = drawing.params;
        params.request = static_cast<std::uint64_t>(i);
        const SequenceId id = engine.add_request(prompt_of(static_cast<std::int32_t>(i), 3), params).value();
        decoders.emplace(id, tokenizer::IncrementalDecoder(any_tokenizer(), true));
      }
      const auto beside_decoders = [&] {  // in one step
        std::span<RequestOutput> outputs;
        const std::int64_t all = allocations_of([&] { outputs = engine.step(); });
        std::int64_t decoding = 0;
        for (const RequestOutput& output : outputs) {
          decoding += allocations_of([&] { (void)decoders.at(output.id).push(output.token); });
        }
        return all - decoding;
      };
      for (int i = 0; i < 30; ++i) (void)beside_decoders();
      std::int64_t fewest = INT64_MAX;
      for (int round = 0; round < kRounds; ++round) {
        std::int64_t sum = 0;
        for (int i = 0; i < kSteps; ++i) sum += beside_decoders();
        fewest = std::min(fewest, sum);
      }
      EXPECT_EQ(fewest, 0) << drawing.name << ", " << count << " sequences";
    }
  }
}

}  // namespace
}  // namespace tern::engine
