#include "troupe/apps/info/tensor_memory.hpp"

#include <memory>
#include <string>

#include "troupe/messages/memory/copy_on_write.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::info {

report tensor_memory() {
  std::string why_not;
  transport::arena_options options;
  options.housekeeping = false;
  const auto arena = transport::arena::make(options, why_not);
  if (arena && !copy_on_write::is_safe())
    why_not = "libtorch does not use this program's copy-on-write functions";
  return {{"can_be_lent", why_not.empty()},
          {"can_be_lent_why", why_not.empty() ? "memory files can be made and mapped" : why_not},
          {"limit_bytes", arena ? arena->limit() : 0}};
}

}  // namespace troupe::info
