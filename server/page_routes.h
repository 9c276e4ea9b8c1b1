// The web pages (server/pages) as routes.
#pragma once

#include "server/router.h"

namespace tern::server {

// The chat page and the dashboard: what a server of a model shows.
void add_page_routes(Router& router);
// The page of training runs at "/": what `tern web-ui` shows.
void add_run_page_routes(Router& router);

}  // namespace tern::server
