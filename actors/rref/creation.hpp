#pragma once

#include "troupe/actors/rref/defaults.hpp"

namespace troupe::detail {

/// Asks the owner of `core` to create its value by the function of that hash and name. `core` hears
/// whether that has been done.
template <class Wire, class... Args>
void send_creation(node_core& node, const std::shared_ptr<rref_core>& core, std::uint64_t hash,
                   std::string_view name, const Args&... args) {
  try {
    node.call(core->owner(), hash, name, core, options_in(args...),
              [&](encoder& out, handle_scope& handles) {
                out.put(core->id().number);
                if (core->object()) out.put(core->object()->id());
                write_arguments<Wire>(out, handles, args...);
              });
  } catch (...) {  // what a type of the program threw as it was written
    core->on_fault(describe(std::current_exception(), {}, std::string(name)));
    throw;
  }
}

/// The same by `Target`, on `Object`.
template <class Target, class Object, class... Args>
void send_creation_by(node_core& node, const std::shared_ptr<rref_core>& core,
                      const Args&... args) {
  using parameters = typename Target::template parameters<Object>;
  if constexpr ((is_future<Args> || ...)) {
    when_given<parameters>(
        node,
        [core](node_core& here, const auto&... xs) {
          send_creation_by<Target, Object>(here, core, xs...);
        },
        [core](std::exception_ptr why) {
          core->on_fault(describe(std::move(why), {}, std::string(Target::name)));
        },
        args...);
  } else {
    using wire = wire_for<parameters, Args...>;
    using call = invocation<Target, Object, true, wire>;
    (void)call::registered;
    send_creation<wire>(node, core, call::hash(), call::name, args...);
  }
}

/// A reference to what `Target` will make on `owner`, called on the value of `object` unless that
/// is null. What goes wrong is told by the reference.
template <class Target, class Object, class... Args>
std::shared_ptr<rref_core> create(node_core& node, peer& owner, const std::source_location& site,
                                  std::shared_ptr<rref_core> object, const Args&... args) {
  check_no_retry<Args...>();
  using answer = typename answer_of<std::remove_cvref_t<typename Target::result>>::type;
  auto core = node.actors().rrefs().expect(owner, value_type::of<answer>(), site);
  core->keep_object(std::move(object));
  send_creation_by<Target, Object>(node, core, args...);
  return core;
}

}  // namespace troupe::detail
