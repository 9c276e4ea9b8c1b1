#include "server/rollout/weight_transfer.h"

#include <set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/safetensors_bytes.h"

namespace tern::server::rollout {
namespace {

constexpr const char* kName = "the update";

// In fp32, and something for names and copies of a tied head.
std::uint64_t most_bytes(const models::ModelConfig& config) {
  constexpr std::uint64_t kSlack = 64U << 20;
  return static_cast<std::uint64_t>(config.num_parameters()) * 2 * sizeof(float) + kSlack;
}

checkpoint::Safetensors parsed(std::string_view body) {
  return checkpoint::parse_safetensors(kName, std::as_bytes(std::span(body))).value();
}

}  // namespace

WeightTransfer::WeightTransfer(ChatService& service) : service_(service) {}

void WeightTransfer::start() {
  const std::scoped_lock lock(mutex_);
  staged_.emplace();
}

std::optional<WeightTransfer::Part> WeightTransfer::keep(std::string_view body) {
  const std::scoped_lock lock(mutex_);
  if (!staged_) return std::nullopt;
  if (const std::uint64_t most = most_bytes(service_.session().model.config); body.size() > most - staged_->bytes) {
    throw Failure(data_error(kName, cat("at most ", most, " bytes in all, twice the model in float32"),
                             cat(staged_->bytes + body.size()), "send each tensor once"));
  }
  Kept part;
  part.bytes = body;
  Kept& kept = staged_->parts.emplace_back(std::move(part));
  try {
    kept.file = parsed(kept.bytes);
    for (auto other = staged_->parts.begin(); &*other != &kept; ++other) {
      for (const auto& tensor : kept.file->tensors()) {
        if (other->file->tensor(tensor.name) == nullptr) continue;
        throw Failure(data_error(cat(kName, ": tensor \"", tensor.name, "\""), "each tensor once", "it twice",
                                 "send it in one part"));
      }
    }
  } catch (...) {
    staged_->parts.pop_back();
    throw;
  }
  staged_->bytes += body.size();
  staged_->tensors += kept.file->tensors().size();
  return Part{kept.file->tensors().size(), staged_->tensors, staged_->bytes};
}

WeightTransfer::Done WeightTransfer::write(std::string_view body, const std::optional<std::string>& version) {
  const checkpoint::Safetensors file = parsed(body);
  const checkpoint::Safetensors* const files[] = {&file};
  return update(source_of(files), version);
}

WeightTransfer::Done WeightTransfer::finish(const std::optional<std::string>& version) {
  std::optional<Staged> staged;
  {
    const std::scoped_lock lock(mutex_);
    staged = std::exchange(staged_, std::nullopt);
  }
  if (!staged) {
    throw Failure(data_error(kName, "one that has begun", "none",
                             "POST /start_weight_update first, then the tensors to /update_weights"));
  }
  std::vector<const checkpoint::Safetensors*> files;
  for (const Kept& part : staged->parts) files.push_back(&*part.file);
  return update(source_of(files), version);
}

WeightTransfer::Done WeightTransfer::load(const std::filesystem::path& path,
                                          const std::optional<std::string>& version) {
  std::error_code ignored;
  if (std::filesystem::exists(path / "adapter_config.json", ignored)) {
    Done done;
    service_.run([&](engine::LLM& llm) { llm.update_adapter(path).value(); });
    return versioned(std::move(done), version);
  }
  auto opened = checkpoint::CheckpointSource::open(path).value();
  return update(std::make_shared<checkpoint::CheckpointSource>(std::move(opened)), version);
}

WeightTransfer::Done WeightTransfer::versioned(Done done, const std::optional<std::string>& version) {
  const std::scoped_lock lock(mutex_);
  version_ = version.value_or(cat(++updates_));
  done.version = version_;
  log_info(cat("weights: version ", version_, ", with ",
               done.update.parameters > 0 ? cat(done.update.parameters, " of ", done.update.of, " parameters new")
                                          : std::string("a new adapter")));
  return done;
}

std::shared_ptr<checkpoint::CheckpointSource> WeightTransfer::source_of(
    std::span<const checkpoint::Safetensors* const> files) const {
  const std::filesystem::path& model = service_.session().path;
  if (service_.session().source->gguf() != nullptr) {
    throw Failure(data_error(model.string(), "a model of a Hugging Face directory, whose names tensors have", "a GGUF",
                             "serve `tern convert`'s directory of it, or name a file to /update_weights_from_disk"));
  }
  std::vector<checkpoint::SourceTensor> tensors;
  for (const checkpoint::Safetensors* file : files) {
    for (const checkpoint::SafetensorsTensor& tensor : file->tensors()) {
      tensors.push_back({tensor.name,
                         tensor.shape,
                         {tensor.dtype->dtype, std::nullopt, std::string(tensor.dtype->name)},
                         tensor.bytes});
    }
  }
  auto source = checkpoint::CheckpointSource::open_config(model).value();
  source.describe(std::move(tensors));
  return std::make_shared<checkpoint::CheckpointSource>(std::move(source));
}

WeightTransfer::Done WeightTransfer::update(const std::shared_ptr<checkpoint::CheckpointSource>& source,
                                            const std::optional<std::string>& version) {
  Done done;
  const Status updated = catching([&] {
    service_.run([&](engine::LLM& llm) { done.update = llm.update_weights(source).value(); });
    return Unit{};
  });
  if (!updated && updated.error().kind == ErrorKind::device) {
    // Weights of two kinds: nobody is answered with them.
    service_.pause(engine::PauseMode::abort);
    Error error = updated.error();
    error.mend = cat("the server has paused, as its weights may be of two kinds now: send all of them, then /resume");
    throw Failure(std::move(error));
  }
  updated.value();
  return versioned(std::move(done), version);
}

std::string WeightTransfer::version() const {
  const std::scoped_lock lock(mutex_);
  return version_;
}

void WeightTransfer::set_version(std::string version) {
  const std::scoped_lock lock(mutex_);
  version_ = std::move(version);
}

}  // namespace tern::server::rollout
