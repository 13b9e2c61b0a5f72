#pragma once

#include <memory>
#include <troupe/troupe.hpp>

namespace batch {

/// To a keeper: let go of the object.
struct let_go {};
TROUPE_MESSAGE(let_go)

/// An actor that keeps an object on its node. Its handle travels, and functions that are called
/// there with it find the object.
using keeper = troupe::actor<troupe::accepts<let_go>>;

/// The keeper of a T, which is thread-safe itself: `node.spawn<keeper_of<T>>(std::make_shared...)`.
template <class T>
class keeper_of final : public keeper::base {
public:
  keeper_of(caf::actor_config& config, std::shared_ptr<T> object)
      : keeper::base(config), object_(std::move(object)) {}

  /// Throws troupe::invalid_argument when `handle` keeps no T on this node.
  static T& object(const keeper& handle) {
    auto* actor = handle ? caf::actor_cast<caf::abstract_actor*>(handle) : nullptr;
    if (auto* mine = dynamic_cast<keeper_of*>(actor)) return *mine->object_;
    throw troupe::invalid_argument("the keeper that this call names is not on this node");
  }

protected:
  behavior_type make_behavior() override {
    return {[this](const let_go&) { quit(); }};
  }

private:
  std::shared_ptr<T> object_;
};

}  // namespace batch
