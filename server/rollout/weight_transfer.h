// A trainer's weights on their way to the engine: in parts that are kept in memory until all are there, then written
// between two steps, all or none.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.h"
#include "models/weight_update.h"
#include "server/chat_service.h"

namespace tern::server::rollout {

class WeightTransfer {
 public:
  // `service` outlives it.
  explicit WeightTransfer(ChatService& service);

  struct Done {
    models::WeightUpdate update;
    std::string version;  // of the weights from now on
  };

  // An update in parts begins; one that had begun, and its parts, are dropped.
  void start();
  // What a part brought, and what waits in all.
  struct Part {
    std::size_t tensors = 0;
    std::size_t staged = 0;
    std::uint64_t staged_bytes = 0;
  };
  // The bytes of a safetensors file. Where an update has begun they are kept for finish(); none: the numbers are
  // written at once. Throws Failure: (data) no such file, a tensor that came already, more bytes than the model can
  // have; what models::update_weights says.
  [[nodiscard]] std::optional<Part> keep(std::string_view body);
  [[nodiscard]] Done write(std::string_view body, const std::optional<std::string>& version);
  // Writes what has come since start(), and ends the update whatever comes of it. Throws Failure (data) where none has
  // begun, and as write().
  [[nodiscard]] Done finish(const std::optional<std::string>& version);
  // The weights of a Hugging Face directory or of a file on this machine, or an adapter of PEFT's, which takes the
  // place of the one that serves. Throws Failure.
  [[nodiscard]] Done load(const std::filesystem::path& path, const std::optional<std::string>& version);

  // "0" as the server began; then as the trainer named it, or the number of updates.
  [[nodiscard]] std::string version() const;
  void set_version(std::string version);

 private:
  struct Kept {
    std::string bytes;
    std::optional<checkpoint::Safetensors> file;
  };
  struct Staged {
    std::deque<Kept> parts;
    std::uint64_t bytes = 0;
    std::size_t tensors = 0;
  };
  [[nodiscard]] Done versioned(Done done, const std::optional<std::string>& version);
  [[nodiscard]] Done update(const std::shared_ptr<checkpoint::CheckpointSource>& source,
                            const std::optional<std::string>& version);
  [[nodiscard]] std::shared_ptr<checkpoint::CheckpointSource> source_of(
      std::span<const checkpoint::Safetensors* const> files) const;

  ChatService& service_;
  mutable std::mutex mutex_;  // of what follows
  std::optional<Staged> staged_;
  std::string version_ = "0";
  std::int64_t updates_ = 0;
};

}  // namespace tern::server::rollout
