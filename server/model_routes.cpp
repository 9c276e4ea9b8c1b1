#include "server/model_routes.h"

#include "server/anthropic/routes.h"
#include "server/kserve/routes.h"
#include "server/llamacpp/infill.h"
#include "server/ollama/routes.h"
#include "server/openai/routes.h"
#include "server/openapi/openapi.h"
#include "server/page_routes.h"
#include "server/plain_routes.h"
#include "server/pooling_routes.h"
#include "server/responses/routes.h"

namespace tern::server {

ModelRoutes::ModelRoutes(engine::LLM& llm, const ServerOptions& options)
    : service_(llm, options.service), router_(options.api_key, service_.metrics()) {
  if (options.more_routes) options.more_routes(router_, service_);
  if (options.request_timeout.count() > 0) {
    deadlines_ = std::make_unique<Deadlines>();
    router_.limit_time(*deadlines_, options.request_timeout);
  }
  add_plain_routes(router_, service_, options.version);
  openai::add_routes(router_, service_);
  add_page_routes(router_);
  anthropic::add_routes(router_, service_);
  responses::add_routes(router_, service_, std::make_shared<responses::ResponseStore>());
  ollama::add_routes(router_, service_, options.version);
  kserve::add_routes(router_, service_, options.version);
  llamacpp::add_routes(router_, service_);
  add_pooling_routes(router_, service_);
  add_openapi_route(router_, options.version);
}

ModelRoutes::~ModelRoutes() { router_.stop(); }

}  // namespace tern::server
