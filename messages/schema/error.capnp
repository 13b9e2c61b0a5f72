@0xb4bac3050ff3aa96;
# A failure as it crosses the wire: the fields of troupe::fault (messages/base/error.hpp).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schema");

struct Fault {
  code @0 :UInt16;
  # A troupe::errc.

  text @1 :Text;
  node @2 :Text;
  function @3 :Text;
  type @4 :Text;

  limitMs @5 :Int64;
  trace @6 :Text;
  via @7 :Text;
}
