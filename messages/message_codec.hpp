#pragma once

#include "messages/type_table.hpp"

namespace troupe {

/// A failure as CAF's actors hand it on: category "troupe", the fields in the context.
caf::error to_caf(const fault& f);

/// The failure that a CAF error stands for. Errors of other categories (caf::sec, exit reasons, the
/// user's own) become a remote_error whose text is theirs.
fault to_fault(const caf::error& e);

/// Is `e` one of ours?
bool is_troupe(const caf::error& e) noexcept;

}  // namespace troupe
