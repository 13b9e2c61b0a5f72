#include "troupe/transport/rendezvous/roster.hpp"

#include "troupe/transport/rendezvous/rendezvous_session.hpp"

namespace troupe::transport {

void roster::close(std::chrono::milliseconds limit, std::span<const std::uint32_t> gone) {
  if (session) session->close(limit, gone);
}

}  // namespace troupe::transport
