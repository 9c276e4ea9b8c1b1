// The routes of a server of several models: its own, and those of the model that a request names.
#pragma once

#include <memory>
#include <string>

#include "server/metrics.h"
#include "server/model_pool.h"
#include "server/router.h"

namespace tern::server {

struct PoolServerOptions {
  std::string api_key;  // "": none is asked for
  std::string version;
};

class PoolRoutes {
 public:
  // `pool` outlives it.
  PoolRoutes(ModelPool& pool, const PoolServerOptions& options);

  // Of HttpServer. Any thread. /v1/models and /models list what there is, with its state; /models/load and
  // /models/unload (llama.cpp's router) read weights and give them back. Whatever else names a model, in its body or
  // in a path of KServe's, is that model's; what names none is the only one's, or of a stored response that of the one
  // that was asked last.
  void answer(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange);
  void stop() { own_.stop(); }

 private:
  void add_models(std::int64_t created);
  void pass_on(HttpRequest&& request, std::shared_ptr<HttpExchange> exchange);

  ModelPool& pool_;
  Metrics metrics_;
  Router own_;
};

}  // namespace tern::server
