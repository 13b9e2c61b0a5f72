#include "troupe/actors/remote/handle_scope.hpp"

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/remote/reference_protocol.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe {

handle_scope::node_names handle_scope::nodes() const {
  return {peer_.info.name, owner_.own_name()};
}

void handle_scope::take_back() noexcept {
  if (forked::from_nodes()) return;
  owner_.take_back(written_, peer_);
  for (const auto& one : references_) owner_.references().take_back(one, peer_);
}

void handle_scope::write_reference(encoder& out, const std::shared_ptr<detail::rref_use>& one) {
  references_.push_back(owner_.references().write(out, one, peer_));
}

rref_id handle_scope::lend(const std::shared_ptr<detail::rref_use>& one) {
  if (!one) throw invalid_argument("an empty rref was passed where its value is needed");
  references_.push_back(owner_.references().lend(one));
  return owner_.references().id_of(*one);
}

std::shared_ptr<detail::rref_use> handle_scope::read_reference(decoder& in, std::uint64_t type,
                                                               std::string_view type_name) {
  return owner_.references().read(in, peer_, type, type_name, claims_);
}

}  // namespace troupe
