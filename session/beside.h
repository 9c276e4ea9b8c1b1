// A second model on the device of a session, which has no runtime of its own: one that guesses tokens for the first.
#pragma once

#include "session/session.h"

namespace tern::session {

// Text, config and checkpoint; RuntimeOptions are passed over. Errors: as open_session.
[[nodiscard]] Result<std::unique_ptr<Session>> open_beside(const Session& other, const SessionOptions& options);

// Its weights, onto the device of `other`. Errors: as load_weights.
[[nodiscard]] Status load_beside(const Session& other, Session& session, const models::LoadOptions& options);

}  // namespace tern::session
