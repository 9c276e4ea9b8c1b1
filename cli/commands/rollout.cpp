// tern rollout: answers for a trainer, with the weights that it sends, until it is told to stop.
#include "cli/commands/command.h"
#include "cli/deployment.h"

namespace tern::cli {

int run_rollout(const Arguments& arguments) {
  Deployment deployment;
  deployment.takes_weights = true;
  return serve_model(arguments, deployment);
}

}  // namespace tern::cli
