#include "troupe/messages/codec/handle_translator.hpp"

#include "troupe/messages/base/error.hpp"

namespace troupe {

void handle_translator::write_reference(encoder&, const std::shared_ptr<detail::rref_use>&) {
  throw encode_error(
      "an rref can only be written into a call or message between nodes; elsewhere, write its "
      "value (to_here)");
}

std::shared_ptr<detail::rref_use> handle_translator::read_reference(decoder&, std::uint64_t,
                                                                    std::string_view) {
  throw decode_error("an rref outside of a call or message between nodes");
}

}  // namespace troupe
