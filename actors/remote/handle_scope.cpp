#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/rref_table.hpp"

namespace troupe {

void handle_scope::take_back() noexcept {
  if (forked::from_nodes()) return;
  owner_.take_back(written_, peer_);
  for (const auto& one : references_) owner_.rrefs().take_back(one, peer_);
}

void handle_scope::write_reference(encoder& out, const std::shared_ptr<detail::rref_core>& one) {
  references_.push_back(owner_.rrefs().write(out, one, peer_));
}

rref_id handle_scope::lend(const std::shared_ptr<detail::rref_core>& one) {
  if (!one) throw invalid_argument("an rref to nothing is given where its value is wanted");
  references_.push_back(owner_.rrefs().lend(one));
  return one->id();
}

std::shared_ptr<detail::rref_core> handle_scope::read_reference(decoder& in, std::uint64_t type,
                                                          std::string_view type_name) {
  auto one = owner_.rrefs().read(in, peer_, type, type_name);
  if (one && !one->ready()) claims_.push_back(one);
  return one;
}

}  // namespace troupe
