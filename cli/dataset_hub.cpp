#include "cli/dataset_hub.h"

#include <memory>

#include "cli/interrupt.h"
#include "cli/session_flags.h"
#include "cli/terminal.h"
#include "data/hub_dataset.h"

namespace tern::cli {

data::HubResolver dataset_hub(const Arguments& arguments) {
  const session::HubOptions flags = hub_options(arguments);
  data::HubSettings settings{flags.use_hf, flags.token, {}};
  settings.progress = [quiet = is_quiet(arguments), bar = std::shared_ptr<Progress>()](std::uint64_t done,
                                                                                       std::uint64_t total) mutable {
    if (!bar) bar = std::make_shared<Progress>("fetching data", total, "B", quiet);
    bar->update(done);
    if (done == total) {
      bar->finish();
      bar.reset();
    }
    return !interrupted();
  };
  return data::hub_resolver(std::move(settings));
}

}  // namespace tern::cli
