// Chat rows to token ids as `tern sft` makes them: read, rendered by the template, tokenised with loss weights, into a
// cache that is synced to disk.
//
//   encode_rows MODEL ROWS.jsonl THREADS CACHE    one line of JSON: {"samples_per_second", "seconds", "tokens"}
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "chat/model_text.h"
#include "data/chat_encoder.h"
#include "data/dataset.h"

namespace {

int run(const std::vector<std::string>& words) {
  const auto start = std::chrono::steady_clock::now();
  tern::chat::ModelText model = tern::chat::load_model_text(words[1]).value();
  tern::data::ChatEncoderOptions encoding;
  encoding.identity = tern::data::tokenizer_identity(words[1]).value();
  const auto encoder =
      tern::data::ChatEncoder::create(model.tokenizer, std::move(model.chat_template), std::move(encoding)).value();
  tern::data::LoadOptions options;
  options.dataset = {words[2]};
  options.dataset_num_proc = static_cast<unsigned>(std::atoi(words[3].c_str()));
  options.cache_directory = words[4];
  const tern::data::LoadedData loaded = tern::data::load_datasets(options, *encoder).value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::uint64_t tokens = 0;
  for (std::uint32_t i = 0; i < loaded.train.size(); ++i) tokens += loaded.train.info(i).length;
  std::printf("{\"samples_per_second\": %.1f, \"seconds\": %.3f, \"tokens\": %llu}\n", loaded.train.size() / seconds,
              seconds, static_cast<unsigned long long>(tokens));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: encode_rows MODEL ROWS.jsonl THREADS CACHE\n", stderr);
    return 2;
  }
  const auto done = tern::catching([&] { return run({argv, argv + argc}); });
  if (done.ok()) return done.value();
  std::fprintf(stderr, "%s\n", done.error().line().c_str());
  return 1;
}
