// Streams an answer of a model, then trains an adapter of it for three steps: embed MODEL ROWS.jsonl OUTPUT
#include <cstdlib>
#include <iostream>

#include "engine/llm.h"
#include "train/run.h"

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: embed MODEL ROWS.jsonl OUTPUT");
  setenv("TERN_BACKEND_PATH", TERN_BACKENDS, 0);  // the backends of the installed tern, unless the user names others
  tern::session::SessionOptions model;
  model.model = argv[1];
  {
    const auto session = tern::session::open_session(model).value();
    const auto llm = tern::engine::LLM::open(*session).value();
    auto sampling = llm->default_sampling();
    sampling.max_new_tokens = 16;
    tern::engine::AnswerCallbacks stream;
    stream.on_text = [](std::size_t, std::string_view text) { std::cout << text << std::flush; };
    const auto answer = llm->chat(tern::engine::Dialogue{{"user", "What is 3 + 4?"}}, sampling, stream);
    if (answer.error) throw tern::Failure(*answer.error);
  }
  tern::train::RunOptions options;
  options.session = model;
  options.data.dataset = {argv[2]};
  options.output_dir = argv[3];
  options.add_version = false;
  options.trainer.max_steps = 3;
  tern::train::TrainerHooks hooks;
  hooks.on_step = [](const tern::train::StepProgress& at) {
    std::cout << "\nstep " << at.step << "/" << at.total_steps << ", loss " << at.loss;
  };
  const auto run = tern::train::Run::open(options, hooks).value();
  const auto result = run->train().value();
  std::cout << "\nsaved " << result.last_checkpoint << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
