// Streams an answer of a model, then trains an adapter of it for three steps: embed MODEL ROWS.jsonl OUTPUT
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/llm_engine.h"
#include "train/run.h"

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: embed MODEL ROWS.jsonl OUTPUT");
  setenv("TERN_BACKEND_PATH", TERN_BACKENDS, 0);  // the backends of the installed tern, unless the user names others
  tern::session::SessionOptions model;
  model.model = argv[1];
  {
    const auto session = tern::session::open_session(model).value();
    tern::session::load_weights(*session, {}).value();
    const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "What is 3 + 4?"}}};
    tern::chat::ChatInput input;
    input.messages = &messages;
    input.add_generation_prompt = true;
    const std::string prompt = session->text->chat_template.value().render(input).value();
    tern::engine::EngineOptions options;
    options.max_model_len = 128;
    options.compute = session->compute;
    tern::engine::LLMEngine engine(session->model, session->text->tokenizer, options, *session->runtime);
    tern::engine::SamplingParams sampling;
    sampling.max_new_tokens = 16;
    (void)engine.add_request(session->text->tokenizer.encode(prompt, false), sampling).value();
    while (!engine.idle()) {
      for (const auto& output : engine.step()) std::cout << output.text << std::flush;
    }
  }
  tern::train::RunOptions options;
  options.session = model;
  options.data.dataset = {argv[2]};
  options.output_dir = argv[3];
  options.add_version = false;
  options.trainer.max_steps = 3;
  tern::train::TrainerHooks hooks;
  hooks.on_step = [](auto step, auto total, double loss) {
    std::cout << "\nstep " << step << "/" << total << ", loss " << loss;
  };
  const auto run = tern::train::Run::open(options, hooks).value();
  const auto result = run->train().value();
  std::cout << "\nsaved " << result.last_checkpoint << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
