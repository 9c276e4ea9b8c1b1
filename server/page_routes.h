// The web pages (server/pages) as routes.
#pragma once

#include "server/router.h"

namespace tern::server {

void add_page_routes(Router& router);

}  // namespace tern::server
