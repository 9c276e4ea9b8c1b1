// What tern deploy serves, from its flags: one model with its engine, or a folder of models of which a request names
// one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/flags/arguments.h"
#include "engine/llm.h"
#include "server/model_pool.h"
#include "server/server.h"

namespace tern::cli {

class ServedModel {
 public:
  // Opens the model, whose weights are not read yet. Throws Failure.
  // `takes_weights`: a trainer's, while it serves.
  explicit ServedModel(const Arguments& given, bool takes_weights = false);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // Reads the weights and makes the engine. Throws Failure.
  void load();
  [[nodiscard]] engine::LLM& llm() { return *llm_; }
  [[nodiscard]] server::ServerOptions server_options() const;
  [[nodiscard]] const models::ModelConfig& config() const { return session_->model.config; }

 private:
  Arguments arguments_;
  bool takes_weights_;
  engine::LLMOptions options_;
  std::string model_;
  std::unique_ptr<session::Session> session_;
  std::unique_ptr<engine::LLM> llm_;
};

// A model of --models, with the flags that are its own.
struct PooledName {
  std::string name;
  Arguments arguments;
};
// Those of a folder (its folders with a config.json, its .gguf files), or of a .yaml or .json file that gives each name
// its flags. Throws Failure: none there (data), a flag that deploy lacks (usage).
[[nodiscard]] std::vector<PooledName> pooled_names(const Arguments& given);
// The same, to be opened when they're asked for. Serves as a server of each would, but for the address.
[[nodiscard]] server::PoolOptions pool_options(const Arguments& given);

}  // namespace tern::cli
