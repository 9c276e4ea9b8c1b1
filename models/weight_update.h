// New numbers for the weights of a model that is loaded: a trainer's, while a server answers with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/loader.h"

namespace tern::models {

// What update_weights did.
struct WeightUpdate {
  std::int64_t parameters = 0;  // that have new numbers
  std::int64_t of = 0;          // parameters of the model
  std::uint64_t bytes = 0;      // that came
};

// Reads the tensors of `source`, under the names of a Hugging Face directory, into the model's store: the same bits as
// if the model had been loaded from them with these options, which are those that it was loaded with; make_writable()
// came before programs. Parameters whose tensors don't come keep their numbers; a tied head's copy is passed over, as
// load_model does. Nothing is written unless all of it can be. Nobody may compute with the model meanwhile. Errors
// (data): a name that the model hasn't, another shape, a part of a parameter that several tensors are, no tensor at
// all, a weight that is held in another form than these numbers would be, numbers that this form can't hold; (device):
// no memory, or a device that fails, after which the weights are of two kinds.
[[nodiscard]] Result<WeightUpdate> update_weights(LoadedModel& model,
                                                  const std::shared_ptr<checkpoint::CheckpointSource>& source,
                                                  const LoadOptions& options);

// Copies what lies in a file's pages, which nobody can write. Before a program is built over the store. Throws Failure
// (device) where memory does not suffice.
void make_writable(LoadedModel& model);

// The names of the tensors that an update may have, in the model's order.
[[nodiscard]] std::vector<std::string> weight_names(const LoadedModel& model);

}  // namespace tern::models
