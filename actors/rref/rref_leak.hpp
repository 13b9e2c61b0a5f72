#pragma once

#include <string>

#include "troupe/actors/messaging/rref_id.hpp"

namespace troupe {

/// An rref that the program still has when its node ends.
struct rref_leak {
  rref_id id;
  std::string text;    ///< as the rref prints: its owner, its type, and its own id
  std::string type;    ///< of the value
  std::string site;    ///< file and line that made the rref; "received" if another node sent it
  std::string owner;   ///< the node that owns the value
  std::string holder;  ///< this node
};

}  // namespace troupe
